"""What a partition keeps about each idempotent producer, so that a batch sent twice is stored once (KIP-98, KAFKA-5494).

Per producer id: its epoch and its last five batches. A batch whose epoch and sequence range equal one of the five is a duplicate and is
answered like the original. Any other batch must continue the sequence, or start at 0 in a newer epoch. An unknown producer id may
start at any sequence, because its state may have expired.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from levada.error_codes import ErrorCode
from levada.errors import BrokerError, OutOfOrderSequenceError
from levada.record.batch import RecordBatch, next_sequence

REMEMBERED_BATCHES = 5
NO_PRODUCER_ID = -1


class AppendedBatch(NamedTuple):
    """A batch as the log took it. timestamp: the largest of its records."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry:
    """One producer id's epoch, last batches, and the time of the last of them."""

    __slots__ = ("batches", "epoch", "last_write_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[AppendedBatch] = deque(maxlen=REMEMBERED_BATCHES)
        self.last_write_ms = 0


class ProducerStates:
    """The idempotent producers of one partition."""

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def check(self, batch: RecordBatch) -> AppendedBatch | None:
        """Return the original if the batch is a duplicate, None if it may be appended.

        Raises OutOfOrderSequenceError for a gap and BrokerError(INVALID_PRODUCER_EPOCH) for an epoch that was overtaken.
        """
        entry = self._entries.get(batch.producer_id)
        if batch.producer_id == NO_PRODUCER_ID or entry is None:
            return None
        if batch.producer_epoch < entry.epoch:
            raise BrokerError(f"epoch {batch.producer_epoch} is older than {entry.epoch}", code=ErrorCode.INVALID_PRODUCER_EPOCH)
        if batch.producer_epoch > entry.epoch:
            _require_sequence(batch, 0)
            return None
        for known in entry.batches:
            if known.first_sequence == batch.base_sequence and known.last_sequence == batch.last_sequence:
                return known
        _require_sequence(batch, next_sequence(entry.batches[-1].last_sequence, 1))
        return None

    def record(self, batch: RecordBatch, *, base_offset: int, timestamp: int, now_ms: int) -> None:
        """Remember a batch that was appended at now_ms."""
        if batch.producer_id == NO_PRODUCER_ID:
            return
        entry = self._entries.get(batch.producer_id)
        if entry is None or entry.epoch != batch.producer_epoch:
            entry = self._entries[batch.producer_id] = ProducerEntry(batch.producer_epoch)
        last_offset = base_offset + batch.last_offset_delta
        entry.batches.append(AppendedBatch(batch.base_sequence, batch.last_sequence, base_offset, last_offset, timestamp))
        entry.last_write_ms = now_ms

    def expire(self, before_ms: int) -> None:
        """Forget producers whose last write was before `before_ms` (producer.id.expiration.ms)."""
        self._entries = {pid: entry for pid, entry in self._entries.items() if entry.last_write_ms >= before_ms}

    def forget_all(self) -> None:
        """Lose all state, as a broker does whose snapshot was deleted; for tests."""
        self._entries.clear()


def _require_sequence(batch: RecordBatch, expected: int) -> None:
    if batch.base_sequence != expected:
        raise OutOfOrderSequenceError(
            f"producer {batch.producer_id} epoch {batch.producer_epoch} sent sequence {batch.base_sequence}, expected {expected}"
        )
