"""Reads one completed fetch, batch by batch, or many small batches at once.

The cursor decides which batches the program sees, and keeps the position: the offset after the last record that was returned or skipped. A
batch counts as read up to its own last offset, not that of its last record, so a compacted log cannot block a reader at its end.

It runs in the caller's thread, without the engine's lock: checksums, decompression and decoding never delay the I/O thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, NoReturn, Protocol

from levada.consumer.fetch.dead_letters import AwaitsDeadLetterError
from levada.consumer.fetch.decode import RecordConverter
from levada.consumer.fetch.fetch_buffer import CompletedFetch
from levada.errors import CorruptRecordError, KafkaError, RecordDeserializationError
from levada.record.batch import RecordBatch
from levada.record.header import AFTER_LENGTH, CODEC_BITS, HEADER, HEADER_SIZE, MAGIC, checksum
from levada.record.memory_records import read_batches
from levada.record.stretch import Stretch, is_small
from levada.types import UNKNOWN_OFFSET, AnyRecord, IsolationLevel

ABORT_MARKER = 0
NO_PRODUCER_ID = -1
MAX_OFFSET = 2**63 - 1
LOOK_AHEAD = 500
"""How many records after a dead letter are checked for further ones, when reading columns."""


class ColumnSink(Protocol):
    """Decodes whole record batches into columns. levada.record.columnar.ColumnDecoder implements it."""

    def add(
        self, batch: RecordBatch, topic: str, partition: int, start_offset: int = 0, end_offset: int | None = None, limit: int | None = None
    ) -> tuple[int, int]:
        """Add the batch's records from start_offset to before end_offset, at most `limit`; return the number of added rows, and the next
        offset.

        None for end_offset or limit means no limit. Raises RecordDeserializationError if the first record cannot be added.
        """
        ...

    def add_plain(self, stretch: Stretch, topic: str, partition: int, limit: int | None, max_bytes: int) -> int:
        """Add the records of several plain batches at once, up to `limit` rows or `max_bytes` bytes; return the number of rows.

        The stretch then knows which batches were read: Stretch.end and next_offset.
        """
        ...

    def fault_of(self, record: AnyRecord) -> RecordDeserializationError | None:
        """Return why a record cannot be added; None if it can."""
        ...

    @property
    def rows(self) -> int:
        """The number of rows collected so far."""
        ...

    @property
    def nbytes(self) -> int:
        """The size of the columns so far, in bytes."""
        ...


class Mark(NamedTuple):
    """The place of a cursor when its sink had `rows` rows. used_bytes: how many bytes of the data are not needed to continue from this
    place.
    """

    rows: int
    position: int
    leader_epoch: int
    used_bytes: int


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The settings for reading fetched data."""

    isolation_level: IsolationLevel
    check_crcs: bool
    max_decompressed_bytes: int


class FetchCursor:
    """Reads one completed fetch. `position`: the offset of the next record to read. `leader_epoch`: the epoch of the record before it.

    `exhausted`: whether no more records can be read.
    """

    def __init__(
        self, fetch: CompletedFetch, options: ReadOptions, converter: RecordConverter, room: bytearray, begin: tuple[int, int] | None = None
    ) -> None:
        """room: memory for decompressed records, which take_records() overwrites. begin: the position and leader epoch to begin at; None
        for those of the fetch.
        """
        self.fetch = fetch
        self.committed = begin or (fetch.fetch_offset, fetch.state.leader_epoch)
        """Its place when the partition's position was last moved."""
        self.position, self.leader_epoch = self.committed
        self.exhausted = False
        self.used_bytes = 0
        """How many bytes from the start of the data are not needed once positions have moved here."""
        self.handed_out = 0
        """How many of its records the running call returns."""
        self._options = options
        self._converter = converter
        self._room = room
        self._stop = fetch.state.stop_offset
        self._at = 0
        """Where in the data the next batch begins."""
        self._hides_aborted = options.isolation_level is IsolationLevel.READ_COMMITTED and bool(fetch.aborted)
        self._may_be_plain = not self._hides_aborted
        """Whether a stretch of plain batches may begin at the next batch."""
        self._stretch: Stretch | None = None
        self._batch: RecordBatch | None = None
        self._read_from(0)

    def fresh(self) -> FetchCursor:
        """Return a new cursor over the same fetch, at the place of this cursor when the partition's position was last moved."""
        return FetchCursor(self.fetch, self._options, self._converter, self._room, self.committed)

    @property
    def is_readable(self) -> bool:
        """Whether records may be returned now: the fetch is neither used up nor stale, and the partition is not paused."""
        return not (self.exhausted or self.fetch.state.paused or self.fetch.is_stale)

    def work_bytes(self, limit: int | None) -> int:
        """Return roughly how many bytes have to be read for the next `limit` records; None means all records.

        Records are taken to be as large as those of the next batch are on average. Returns all bytes that are left for compressed batches,
        old formats and invalid headers.
        """
        at = self._at - (self._batch.size_bytes if self._batch is not None else 0)
        left = len(self.fetch.records) - at
        if limit is None or left < HEADER_SIZE:
            return left
        length: int
        count: int
        _, length, _, magic, _, attributes, *_, count = HEADER.unpack_from(self.fetch.records, at)
        if magic != MAGIC or attributes & CODEC_BITS or not 0 < count <= length:
            return left
        return min(left, limit * (length + AFTER_LENGTH) // count)

    def take_records(self, limit: int) -> list[AnyRecord]:
        """Return up to `limit` records, possibly fewer at the end of a batch or a stretch, or before an error.

        If an error comes first, it is raised. Return [] only when the fetch has no more records.
        """
        try:
            if done := self._take_plain(limit):
                return done
            while (batch := self._current()) is not None:
                if not (records := self._decode(batch, limit)):
                    self._leave(batch)
                elif done := self._hand_out(batch, records):
                    self.handed_out += len(done)
                    return done
        except KafkaError as fault:
            self._begin_again()
            self._raise(fault)
        return []

    def _take_plain(self, limit: int) -> list[AnyRecord]:
        """Return up to `limit` records of the stretch of plain batches that begins at the position; [] if none does, or if the records that
        were taken were all skipped.
        """
        if not self._is_at_plain:
            return []
        tp, stretch = self.fetch.state.tp, self._begin_stretch()
        stretch.measure(limit, MAX_OFFSET, 0, self._room)
        records = stretch.consumer_records(tp.topic, tp.partition)
        done, settled = self._converter.convert(records)
        if settled == len(records):
            self._pass_stretch(stretch)
        else:
            self.position, self.leader_epoch = records[settled].offset, stretch.leader_epoch
            self._begin_again()
        self.handed_out += len(done)
        return done

    def take_columns(self, sink: ColumnSink, limit: int | None, max_bytes: int, marks: list[Mark] | None = None) -> int:
        """Add records to the columns until `limit` records or `max_bytes` bytes are reached, or the fetch has no more records.

        Return the number of added records. limit: None for no limit. marks: a list that gets a Mark after each step. If an error comes
        first, it is raised. If it comes after some records, this call adds those records, and the next call raises the error.
        """
        rows = 0
        try:
            while (limit is None or rows < limit) and sink.nbytes < max_bytes:
                added = self._add_next(sink, None if limit is None else limit - rows, max_bytes)
                if added is None:
                    break
                rows += added
                if marks is not None:
                    marks.append(Mark(sink.rows, self.position, self.leader_epoch, self.used_bytes))
        except KafkaError as fault:
            self._begin_again()
            if not rows:
                self._raise(fault)
        self.handed_out += rows
        return rows

    def _add_next(self, sink: ColumnSink, limit: int | None, max_bytes: int) -> int | None:
        """Add the next records, at most `limit` (None: no limit); return the number of added rows, 0 after skipping a record, or None if
        there are no more records.

        If a stretch of plain batches begins at the position, it is added; else the rest of the current batch.
        """
        if self._is_at_plain and (plain := self._add_plain(sink, limit, max_bytes)):
            return plain
        batch = self._current()
        if batch is None:
            return None
        tp = self.fetch.state.tp
        try:
            added, reached = sink.add(batch, tp.topic, tp.partition, self.position, self._stop, limit)
        except RecordDeserializationError as error:
            self._pass_over(batch, sink, error)
            return 0
        if not added and reached <= self.position:
            return None
        self._reach(batch, reached)
        return added

    def _pass_over(self, batch: RecordBatch, sink: ColumnSink, error: RecordDeserializationError) -> None:
        """Skip a record that a column cannot hold as text, or raise the error, as on.decode.error says."""
        try:
            self._converter.pass_over(error)
        except AwaitsDeadLetterError:
            for record in self._decode(batch, LOOK_AHEAD)[1:]:
                if (another := sink.fault_of(record)) is not None:
                    self._converter.foresee(another)
            raise
        self._reach(batch, error.record.offset + 1)

    def _add_plain(self, sink: ColumnSink, limit: int | None, max_bytes: int) -> int:
        """Add a stretch of plain batches; return the number of rows, 0 if no stretch begins at the position.

        limit: the maximum number of rows to add; None for no limit.
        """
        tp, stretch = self.fetch.state.tp, self._begin_stretch()
        added = sink.add_plain(stretch, tp.topic, tp.partition, limit, max_bytes)
        self._pass_stretch(stretch)
        return added

    @property
    def _is_at_plain(self) -> bool:
        """Whether a stretch of plain batches may begin at the position."""
        return self._batch is None and self._may_be_plain and not self.exhausted

    def _begin_stretch(self) -> Stretch:
        """Return a stretch that begins at the position, without batches yet."""
        if self._stretch is None:
            check = checksum if self._options.check_crcs else None
            stop = MAX_OFFSET if self._stop is None else self._stop
            self._stretch = Stretch(self.fetch.records, stop, check, self._options.max_decompressed_bytes)
        self._stretch.begin_at(self._at, self.position)
        return self._stretch

    def _pass_stretch(self, stretch: Stretch) -> None:
        """Move past the batches of a stretch, if there are any."""
        if stretch.size_bytes:
            self.used_bytes = self._at
            self._read_from(stretch.end)
            self.position = stretch.next_offset
            self.leader_epoch = stretch.leader_epoch
            self._note_end()

    def _current(self) -> RecordBatch | None:
        """Return the current batch, or else the next batch with records for the program; None if there is none."""
        if self._batch is None and not self.exhausted:
            if self.fetch.error is not None:
                raise self.fetch.error
            self._batch = self._next_visible()
            self.exhausted = self._batch is None
        return self._batch

    def _decode(self, batch: RecordBatch, limit: int) -> list[AnyRecord]:
        """Decode records of a batch from the position on, up to the end of a bounded read."""
        tp, most = self.fetch.state.tp, self._options.max_decompressed_bytes
        return batch.consumer_records(tp, most, start=self.position, end=self._stop, limit=limit)

    def _hand_out(self, batch: RecordBatch, records: list[AnyRecord]) -> list[AnyRecord]:
        """Deserialize records and move past them. If the converter stops before a record with an error, the next call begins with it.

        Return [] if all these records were skipped. If the first record has an error that is to be raised, it is raised.
        """
        done, settled = self._converter.convert(records)
        if settled == len(records):
            self._reach(batch, batch.following(records[-1].offset))
        else:
            self._reach(batch, records[settled].offset)
            self._begin_again()
        return done

    def _reach(self, batch: RecordBatch, offset: int) -> None:
        if offset >= batch.next_offset or self._is_at_stop(offset):
            self._leave(batch)
        else:
            self.position = offset
            self.leader_epoch = batch.partition_leader_epoch

    def _leave(self, batch: RecordBatch) -> None:
        self._pass(batch)
        self._batch = None
        # After a large compressed batch probably comes another one, and finding out that it is too large would decompress a part of it.
        is_large = bool(batch.attributes & CODEC_BITS) and not is_small(batch.size_bytes, len(batch.payload()))
        self._may_be_plain = not (self._hides_aborted or is_large)
        self._note_end()

    def _note_end(self) -> None:
        # Set now, not when the next call finds no records, so that the fetcher can continue while the program works.
        self.exhausted = UNKNOWN_OFFSET < self.fetch.next_offset <= self.position or self._is_at_stop(self.position)

    def _pass(self, batch: RecordBatch) -> None:
        self.position = batch.next_offset if self._stop is None else min(batch.next_offset, self._stop)
        self.leader_epoch = batch.partition_leader_epoch

    def _is_at_stop(self, offset: int) -> bool:
        return self._stop is not None and offset >= self._stop

    def _read_from(self, at: int) -> None:
        """Begin to read the data at a batch. at: the byte position of the batch."""
        self._at = at
        self._batches = read_batches(self.fetch.records, at)
        self._aborted = AbortedTransactions(self.fetch.aborted, self._options.max_decompressed_bytes)

    def _next_visible(self) -> RecordBatch | None:
        """Return the next batch with records for the program, after checking its CRC; skip all other batches. None at the end.

        This is not a generator: the generator and the cursor would refer to each other, and megabytes of data would wait for Python's cycle
        collector.
        """
        hides_aborted = self._options.isolation_level is IsolationLevel.READ_COMMITTED
        for batch in self._batches:
            # Aborted transactions are found by reading from the start of the data.
            self.used_bytes = 0 if self._hides_aborted else self._at
            self._at += batch.size_bytes
            if self._is_at_stop(max(batch.earliest_offset, self.position)):
                self.position = self._stop if self._stop is not None else self.position
                return None
            if self._options.check_crcs:
                batch.verify_crc()
            hidden = hides_aborted and self._aborted.hides(batch)
            if batch.last_offset < self.position:
                continue
            if hidden or batch.is_control or batch.is_empty:
                self._pass(batch)
            else:
                return batch
        if not self._at and len(self.fetch.records):
            raise CorruptRecordError(
                f"{len(self.fetch.records)} bytes hold no complete record batch; the broker must send at least one, however large (KIP-74)"
            )
        return None

    def _begin_again(self) -> None:
        """Read the data from its start again, because read_batches() is finished once it has raised.

        The position stays, so the next call comes to the same error.
        """
        self._read_from(0)
        self._batch = None

    def _raise(self, fault: KafkaError) -> NoReturn:
        """Raise an error; a CorruptRecordError with its place."""
        if not isinstance(fault, CorruptRecordError):
            raise fault
        text = f"{self.fetch.state.tp} at offset {self.position}: {fault}; seek past the batch to skip it"
        raise type(fault)(text) from fault


class AbortedTransactions:
    """Finds the batches of aborted transactions, in log order.

    The broker lists aborted transactions by producer and first offset; an abort marker in the data ends one. Transactions count from the
    batch that has their first offset, even if it is not the base offset: one may begin within the batch.
    """

    def __init__(self, listed: tuple[tuple[int, int], ...], max_decompressed_bytes: int) -> None:
        self._max_decompressed_bytes = max_decompressed_bytes
        self._listed = sorted(listed, key=lambda entry: entry[1])
        self._next = 0
        self._open: set[int] = set()

    def hides(self, batch: RecordBatch) -> bool:
        """Return whether the records of this batch belong to an aborted transaction. Batches must be passed in log order, each exactly
        once.
        """
        if batch.producer_id == NO_PRODUCER_ID:
            return False
        self._take_in(batch.last_offset)
        if batch.is_control:
            # A control batch that compaction has emptied is not an abort marker.
            if batch.records_count and batch.control_type(self._max_decompressed_bytes) == ABORT_MARKER:
                self._open.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._open

    def _take_in(self, last_offset: int) -> None:
        while self._next < len(self._listed) and self._listed[self._next][1] <= last_offset:
            self._open.add(self._listed[self._next][0])
            self._next += 1
