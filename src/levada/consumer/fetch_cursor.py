"""A walk through one completed fetch, batch by batch (behaviour F23-F27).

The cursor decides which batches the caller sees and keeps the position: the offset after the last thing handed out or passed over. A batch
counts as read up to its own last offset, not its last record's, so the tail of a compacted log cannot hold a reader back (F26, M11).

It runs in the caller's thread, without the engine's lock: checksums, decompression and decoding cost the caller, never the I/O thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Protocol, TypeVar

from levada.consumer.decode import RecordConverter
from levada.consumer.fetch_buffer import CompletedFetch
from levada.errors import CorruptRecordError, KafkaError
from levada.record.batch import RecordBatch, read_batches
from levada.types import UNKNOWN_OFFSET, AnyRecord, IsolationLevel

T = TypeVar("T")

ABORT_MARKER = 0
NO_PRODUCER_ID = -1
_OFFSET = attrgetter("offset")


class ColumnSink(Protocol):
    """What takes whole batches as columns: levada.record.columnar.ColumnDecoder."""

    def add(
        self, batch: RecordBatch, topic: str, partition: int, start_offset: int = 0, end_offset: int | None = None, limit: int | None = None
    ) -> tuple[int, int]:
        """Add the batch's records in [start_offset, end_offset), at most `limit`; return (rows added, next offset)."""
        ...


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How fetched data is read."""

    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    check_crcs: bool = True
    max_decompressed_bytes: int = 64 << 20


class FetchCursor:
    """Hands out one completed fetch. `position` and `leader_epoch` say how far; `exhausted` when there is no more."""

    def __init__(
        self, fetch: CompletedFetch, options: ReadOptions, converter: RecordConverter, begin: tuple[int, int] | None = None
    ) -> None:
        """begin: position and leader epoch to begin at, by default those of the fetch."""
        self.fetch = fetch
        self.committed = begin or (fetch.fetch_offset, fetch.state.leader_epoch)
        """Where it stood when its partition's position was last moved."""
        self.position, self.leader_epoch = self.committed
        self.exhausted = False
        self._options = options
        self._converter = converter
        self._stop = fetch.state.stop_offset
        self._batches = self._visible_batches()
        self._batch: RecordBatch | None = None
        self._records: list[AnyRecord] | None = None
        self._next = 0

    def fresh(self) -> FetchCursor:
        """Return another cursor over the same fetch that stands where this one was committed."""
        return FetchCursor(self.fetch, self._options, self._converter, self.committed)

    @property
    def is_readable(self) -> bool:
        """Whether there may be more for the caller now."""
        return not (self.exhausted or self.fetch.state.paused or self.fetch.is_stale)

    @property
    def size_bytes(self) -> int:
        """About how much data is left to be decoded; 0 while records of a decoded batch are left."""
        return 0 if self._records is not None else len(self.fetch.records)

    def take_records(self, limit: int) -> list[AnyRecord]:
        """Return up to `limit` records, fewer at the end of a batch; [] only when exhausted."""
        while (batch := self._current()) is not None:
            if self._records is None:
                self._records, self._next = self._decode(batch), 0
            records = self._records[self._next : self._next + limit]
            if records:
                return self._hand_out(batch, records)
            self._leave(batch)
        return []

    def take_columns(self, sink: ColumnSink, limit: int | None) -> int:
        """Add up to `limit` records of one batch to the columns; return how many. 0 when exhausted, or when the columns are full."""
        while (batch := self._current()) is not None:
            rows, reached = self._explained(partial(self._add, batch, sink, limit))
            is_full = not rows and reached <= self.position
            if not is_full:
                self._records = None
                self._reach(batch, reached)
            if rows or is_full:
                return int(rows)
        return 0

    def _add(self, batch: RecordBatch, sink: ColumnSink, limit: int | None) -> tuple[int, int]:
        tp = self.fetch.state.tp
        return sink.add(batch, tp.topic, tp.partition, self.position, self._stop, limit)

    def _current(self) -> RecordBatch | None:
        """Return the batch being read, or the next visible one."""
        if self.fetch.error is not None:
            raise self.fetch.error
        if self._batch is None and not self.exhausted:
            self._batch = self._explained(self._next_batch)
            self.exhausted = self._batch is None
        return self._batch

    def _next_batch(self) -> RecordBatch | None:
        return next(self._batches, None)

    def _decode(self, batch: RecordBatch) -> list[AnyRecord]:
        """Decode a batch, without what lies before the position or at the end of a bounded read (F24)."""
        records = self._explained(lambda: batch.consumer_records(self.fetch.state.tp, self._options.max_decompressed_bytes))
        if records and records[0].offset < self.position:
            records = records[bisect_left(records, self.position, key=_OFFSET) :]
        if self._stop is not None and batch.last_offset >= self._stop:
            records = records[: bisect_left(records, self._stop, key=_OFFSET)]
        return records

    def _hand_out(self, batch: RecordBatch, records: list[AnyRecord]) -> list[AnyRecord]:
        """Deserialize records; one that does not deserialize stays next in line, and those before it go out first (F11, F27)."""
        records = self._converter.convert(records)
        self._next += len(records)
        self.leader_epoch = batch.partition_leader_epoch
        if self._records is not None and self._next < len(self._records):
            self.position = records[-1].offset + 1
        else:
            self._leave(batch)
        return records

    def _reach(self, batch: RecordBatch, offset: int) -> None:
        if offset >= batch.next_offset or self._is_at_stop(offset):
            self._leave(batch)
        else:
            self.position = offset
            self.leader_epoch = batch.partition_leader_epoch

    def _leave(self, batch: RecordBatch) -> None:
        self._pass(batch)
        self._batch = self._records = None
        # Said now, not when the next call finds nothing: the fetcher may go on while the caller works (F4).
        self.exhausted = UNKNOWN_OFFSET < self.fetch.next_offset <= self.position or self._is_at_stop(self.position)

    def _pass(self, batch: RecordBatch) -> None:
        self.position = batch.next_offset if self._stop is None else min(batch.next_offset, self._stop)
        self.leader_epoch = batch.partition_leader_epoch

    def _is_at_stop(self, offset: int) -> bool:
        return self._stop is not None and offset >= self._stop

    def _visible_batches(self) -> Iterator[RecordBatch]:
        """Yield the batches with something for the caller, checked; step over all others."""
        aborted = AbortedTransactions(self.fetch.aborted)
        hides_aborted = self._options.isolation_level is IsolationLevel.READ_COMMITTED
        seen = 0
        for batch in read_batches(self.fetch.records):
            seen += 1
            if self._is_at_stop(max(batch.earliest_offset, self.position)):
                self.position = self._stop if self._stop is not None else self.position
                return
            if self._options.check_crcs:
                batch.verify_crc()
            hidden = hides_aborted and aborted.hides(batch)
            if batch.last_offset < self.position:
                continue
            if hidden or batch.is_control or batch.is_empty:
                self._pass(batch)
            else:
                yield batch
        if not seen and len(self.fetch.records):
            raise CorruptRecordError(
                f"{len(self.fetch.records)} bytes hold no complete record batch; the broker must send at least one, however large (KIP-74)"
            )

    def _explained(self, step: Callable[[], T]) -> T:
        """Run a step; a fault in the data is raised with the place it was found at, each time until the caller seeks past it."""
        try:
            return step()
        except KafkaError as fault:
            # A generator that raised is finished; begin again at the position, to meet the same fault.
            self._batches = self._visible_batches()
            if not isinstance(fault, CorruptRecordError):
                raise
            text = f"{self.fetch.state.tp} at offset {self.position}: {fault}; seek past the batch to skip it"
            raise type(fault)(text) from fault


class AbortedTransactions:
    """Which batches belong to aborted transactions, told in log order (F25).

    The broker lists transactions by producer and first offset; an abort marker in the data ends one. Transactions are taken in up to a
    batch's last offset, not its base offset: an aborted one may begin within the batch (TR13).
    """

    def __init__(self, listed: tuple[tuple[int, int], ...]) -> None:
        self._listed = sorted(listed, key=lambda entry: entry[1])
        self._next = 0
        self._open: set[int] = set()

    def hides(self, batch: RecordBatch) -> bool:
        """Whether this batch's records were aborted; batches must be shown in order, each once."""
        if batch.producer_id == NO_PRODUCER_ID:
            return False
        self._take_in(batch.last_offset)
        if batch.is_control:
            # A marker emptied by compaction is no abort marker (M20, TR12).
            if batch.records_count and batch.control_type() == ABORT_MARKER:
                self._open.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._open

    def _take_in(self, last_offset: int) -> None:
        while self._next < len(self._listed) and self._listed[self._next][1] <= last_offset:
            self._open.add(self._listed[self._next][0])
            self._next += 1
