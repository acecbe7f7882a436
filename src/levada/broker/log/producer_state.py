"""The state of each idempotent or transactional producer of a partition, so that a batch that is sent twice is stored once (KIP-98).

Per producer id there are its epoch and its last five batches. A batch with the epoch and the sequences of one of the five is a duplicate,
and gets the response of the original. Any other batch must continue the sequence, or start at 0 in a newer epoch. An unknown producer id
may start at any sequence, because its state may have expired. A transaction's marker may have a newer epoch. It also has the epoch of its
coordinator: markers of replaced coordinators are refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from typing import NamedTuple

from levada.error_codes import ErrorCode
from levada.errors import BrokerError, OutOfOrderSequenceError
from levada.record.batch import RecordBatch, next_sequence

REMEMBERED_BATCHES = 5
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_COORDINATOR = -1


class AppendedBatch(NamedTuple):
    """The sequence numbers, offsets and timestamp of a batch that was appended. timestamp: the largest timestamp of its records."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry:
    """The state of one producer in a partition: its epoch and its last batches.

    timestamp: the largest timestamp of its last batch, or the timestamp of its marker if that came later. coordinator_epoch: the
    coordinator epoch of its last marker, -1 if there is none.
    """

    __slots__ = ("batches", "coordinator_epoch", "epoch", "timestamp")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[AppendedBatch] = deque(maxlen=REMEMBERED_BATCHES)
        self.coordinator_epoch = NO_COORDINATOR
        self.timestamp = -1

    @property
    def last_sequence(self) -> int:
        """The last sequence number of the producer in its epoch, -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def adopt(self, epoch: int) -> None:
        """Set the producer's epoch. If the epoch is a new one, sequence numbers begin again."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


class ProducerStates:
    """The states of the producers that write to one partition, by producer id."""

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[int, ProducerEntry]]:
        return iter(self._entries.items())

    def epoch_of(self, producer_id: int) -> int | None:
        """Return a producer's epoch, None if the producer is unknown."""
        entry = self._entries.get(producer_id)
        return None if entry is None else entry.epoch

    def check(self, batch: RecordBatch) -> AppendedBatch | None:
        """Check the producer epoch and sequence numbers of a batch before it is appended. Returns None, or, for a duplicate, the batch that
        was appended first.

        Raises OutOfOrderSequenceError for any other sequence than the next one, or than 0 in a newer epoch, and BrokerError
        (INVALID_PRODUCER_EPOCH) for an old epoch.
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
        _require_sequence(batch, next_sequence(entry.last_sequence, 1))
        return None

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, *, strict: bool) -> None:
        """Raise INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for a marker with an old epoch.

        strict: whether the marker's producer epoch must be higher than that of the transaction's records (transaction.version 2).
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return
        if epoch < entry.epoch or (strict and epoch == entry.epoch):
            raise BrokerError(
                f"a marker with producer epoch {epoch}, but the producer is at {entry.epoch}", code=ErrorCode.INVALID_PRODUCER_EPOCH
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise BrokerError(
                f"a marker with coordinator epoch {coordinator_epoch} after one with {entry.coordinator_epoch}",
                code=ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            )

    def record_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, *, timestamp: int) -> None:
        """Update the producer's state after a marker was appended.

        epoch: the producer epoch of the marker. coordinator_epoch: the epoch of the transaction coordinator that sent it. timestamp: the
        timestamp of the marker in ms.
        """
        entry = self._entries.setdefault(producer_id, ProducerEntry(epoch))
        entry.adopt(epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.timestamp = timestamp

    def record(self, batch: RecordBatch, *, base_offset: int, timestamp: int) -> None:
        """Update the producer's state after a batch was appended. base_offset, timestamp: those of the batch in the log."""
        if batch.producer_id == NO_PRODUCER_ID:
            return
        entry = self._entries.setdefault(batch.producer_id, ProducerEntry(batch.producer_epoch))
        entry.adopt(batch.producer_epoch)
        last_offset = base_offset + batch.last_offset_delta
        entry.batches.append(AppendedBatch(batch.base_sequence, batch.last_sequence, base_offset, last_offset, timestamp))
        entry.timestamp = timestamp

    def restore(self, producer_id: int, epoch: int, last: AppendedBatch | None, coordinator_epoch: int, timestamp: int) -> None:
        """Set a producer's state to the stored one. last: its last batch, None if it has written none in its epoch.

        epoch: the producer epoch. timestamp: of its newest record or marker, in ms.
        """
        entry = self._entries[producer_id] = ProducerEntry(epoch)
        if last is not None:
            entry.batches.append(last)
        entry.coordinator_epoch = coordinator_epoch
        entry.timestamp = timestamp

    def expire(self, before_ms: int, keep: Collection[int] = ()) -> None:
        """Remove producers whose timestamp is before `before_ms` (producer.id.expiration.ms), in ms since the epoch. keep: ids of producers
        with an open transaction, which stay.

        As in Kafka, the time is that of the records, not that of the append, so that all replicas expire a producer at the same time.
        """
        self._entries = {pid: entry for pid, entry in self._entries.items() if entry.timestamp >= before_ms or pid in keep}

    def forget_all(self) -> None:
        """Remove all producers. Those that the log still has after a truncation are read again."""
        self._entries.clear()


def _require_sequence(batch: RecordBatch, expected: int) -> None:
    if batch.base_sequence != expected:
        raise OutOfOrderSequenceError(
            f"producer {batch.producer_id} epoch {batch.producer_epoch} sent sequence {batch.base_sequence}, expected {expected}"
        )
