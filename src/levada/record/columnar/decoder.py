"""Decodes record batches into Arrow columns.

Records go directly from a batch's payload into the buffers of Arrow arrays. No object is made per record, and a column that is not wanted
costs nothing. Memory grows by doubling while batches are added.

Binary columns have 32-bit offsets: a full column ends the Arrow batch, so that no column needs more. Keys and values are bytes in Kafka, so
they become text only if the user says so. They are checked for UTF-8 while their batch is added, before the consumer's position moves past
it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa

from levada.errors import RecordDeserializationError
from levada.record.batch import RecordBatch
from levada.record.columnar.buffers import HEADER, Binary, Headers, Memory, runs_array, utf8_fault
from levada.record.compression import DEFAULT_MAX_DECOMPRESSED
from levada.record.reader import RecordSink, RecordWalker
from levada.record.stretch import Stretch
from levada.types import AnyRecord, TimestampType, TopicPartition

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type", "headers", "leader_epoch")

_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", tz="UTC"),
    "timestamp_type": pa.int32(),
    "headers": pa.list_(HEADER),
    "leader_epoch": pa.int32(),
}
# The columns with one value for a whole record batch, in the order of the fields of a run.
_PER_BATCH = ("topic", "partition", "timestamp_type", "leader_epoch")
# Bytes of a row in each column, without those of its key, value, headers and topic: a number, or an offset into them.
_WIDTHS = {column: 8 if column in ("offset", "timestamp") else 4 for column in _TYPES}
_HEADER_WIDTH = 8
TEXTS = ("key", "value")

_MAX_INT32 = 2**31 - 1
# At most so many bytes are reserved because a recent Arrow batch needed them. Memory pages that are not written cost nothing.
_MOST_EXPECTED = 16 * 1024 * 1024
_RECENT = 4
_MAX_INT64 = 2**63 - 1
_SOME_BYTES = 4096
_LESS = 4
# The most rows of one add(), so that its caller gets control back: in a compressed batch a record may take a few bytes.
_MOST_ROWS = 1 << 20


def schema(columns: Sequence[str] = COLUMNS, text: Collection[str] = ()) -> pa.Schema:
    """Return the Arrow schema of decoded records with these columns. Columns named in `text` are strings.

    Raises ValueError for a name that is not in COLUMNS, and for a name in `text` that is not key or value, or not in `columns`.
    """
    unknown = [column for column in columns if column not in _TYPES]
    if unknown:
        raise ValueError(f"unknown column {unknown[0]!r}; there are: {', '.join(COLUMNS)}")
    odd = [column for column in text if column not in TEXTS or column not in columns]
    if odd:
        fault = f"it is not among the columns asked for: {', '.join(columns)}" if odd[0] in TEXTS else "only key and value can be text"
        raise ValueError(f"column {odd[0]!r} cannot be text: {fault}")
    return pa.schema([(column, pa.string() if column in text else _TYPES[column]) for column in columns])


def reader(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    """Return a reader of Arrow batches. Each batch is made when it is read."""
    return pa.RecordBatchReader.from_batches(schema, batches)


def stream(schema: pa.Schema, batches: Iterable[pa.RecordBatch], requested_schema: object | None) -> object:
    """Return Arrow batches as a capsule of Arrow's C stream interface, for any library. Each batch is made when it is read."""
    return reader(schema, batches).__arrow_c_stream__(requested_schema)


def rows_kept(
    batch: pa.RecordBatch, columns: Sequence[str], keys: Collection[bytes | None] | None, first_ms: int | None, end_ms: int | None
) -> pa.RecordBatch:
    """Return `columns` of the rows with a key in `keys` and a timestamp from first_ms up to, not including, end_ms. None: no limit."""
    import pyarrow.compute as pc

    masks = []
    if keys is not None:
        key = batch["key"]
        masks.append(pc.is_in(key.cast(pa.binary()), value_set=pa.array(list(keys), pa.binary())))
    times = batch["timestamp"].cast(pa.int64()) if first_ms is not None or end_ms is not None else None
    if first_ms is not None:
        masks.append(pc.greater_equal(times, first_ms))
    if end_ms is not None:
        masks.append(pc.less(times, end_ms))
    for mask in masks[1:]:
        masks[0] = pc.and_(masks[0], mask)
    return (batch.filter(masks[0]) if masks else batch).select(list(columns))


class ColumnDecoder:
    """Collects the records of several record batches into one Arrow batch.

    columns: the wanted columns, in this order. text: which of key and value become strings; they must be UTF-8. max_decompressed: the most
    bytes that a record batch may decompress to. max_column_bytes: the size at which a binary column is full (int32 offsets end at 2 GiB);
    add() then takes fewer rows. notes_offsets: keep each row's offset for finish_with_offsets(), even if offset is not a column.
    null_bad_text: whether text that is not UTF-8 becomes null; otherwise add() raises an error for its record.
    """

    def __init__(
        self,
        columns: Sequence[str] = COLUMNS,
        max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
        max_column_bytes: int = _MAX_INT32,
        text: Collection[str] = (),
        *,
        notes_offsets: bool = False,
        null_bad_text: bool = False,
    ) -> None:
        self.schema = schema(columns, text)
        self._kinds = [(field.name, field.type) for field in self.schema]
        self._names = frozenset(columns)
        self._noted = self._names | {"offset"} if notes_offsets else self._names
        self._text = tuple(text)
        self._checked = () if null_bad_text else self._text
        """The text columns for which a value that is not UTF-8 is an error."""
        self._max_decompressed = max_decompressed
        self._max_column_bytes = max_column_bytes
        self._recent_bytes: deque[int] = deque((0,), maxlen=_RECENT)
        """The sizes in bytes of the record batches that went into each of the last Arrow batches."""
        self._bad_text: tuple[RecordBatch | None, list[int]] = None, []
        """The last record batch with text that is not UTF-8, and the offsets of the records that have such text."""
        self._stretch_bytes = _MAX_INT64
        """The most bytes of a stretch.

        They are reduced after text that is not UTF-8, which makes the work be done twice, and grow again later.
        """
        self._room = bytearray()
        """The memory for decompressed batches of a stretch. It is kept, because allocating it anew takes time."""
        self._row_width = sum(_WIDTHS[column] for column in columns)
        self._empty: pa.RecordBatch | None = None
        """The Arrow batch that finish() returns if nothing was added.

        Made once, because pyarrow releases the interpreter lock for each array.
        """
        self._reset()

    def _reset(self) -> None:
        columns = self._noted
        self._sink = RecordSink(columns, self._max_column_bytes)
        self._key = Binary(self._sink.key, self._max_column_bytes) if "key" in columns else None
        self._value = Binary(self._sink.value, self._max_column_bytes) if "value" in columns else None
        self._offsets = Memory() if "offset" in columns else None
        self._timestamps = Memory() if "timestamp" in columns else None
        self._headers = Headers(self._sink.headers, self._max_column_bytes) if "headers" in columns else None
        self._sources: dict[str, Binary | Memory | Headers | None] = {
            "key": self._key,
            "value": self._value,
            "offset": self._offsets,
            "timestamp": self._timestamps,
            "headers": self._headers,
        }
        self._runs: list[tuple[str, int, int, int]] = []
        self._run_ends: list[int] = []
        self._topic_bytes = 0
        self._seen_bytes = 0
        self._rows_room = 0
        self._binaries = [binary for binary in (self._key, self._value) if binary]
        self._is_touched = False

    @property
    def rows(self) -> int:
        """Rows collected so far."""
        return self._sink.rows

    @property
    def nbytes(self) -> int:
        """Bytes that the columns take so far."""
        sink = self._sink
        headers = sink.headers.key_bytes + sink.headers.value_bytes + _HEADER_WIDTH * sink.headers.noted
        return sink.key.size + sink.value.size + headers + self._topic_bytes + self._row_width * sink.rows

    def add(
        self, batch: RecordBatch, topic: str, partition: int, start_offset: int = 0, end_offset: int | None = None, limit: int | None = None
    ) -> tuple[int, int]:
        """Add the batch's records from `start_offset` to below `end_offset`, at most `limit` of them. Control batches add no records.

        end_offset, limit: None for no limit; but one call adds at most 2^20 records. Return how many were added, and the offset to continue
        at: the one after the batch, `end_offset`, or that of the first record that was not added, also because a column is full or because
        its text is not UTF-8. Raises CorruptRecordError, and RecordDeserializationError if the text of the first record is not UTF-8. Then
        this call has added no record; rows from earlier calls stay.
        """
        end = _MAX_INT64 if end_offset is None else end_offset
        if batch.is_control or batch.last_offset < start_offset or batch.earliest_offset >= end:
            return 0, min(batch.next_offset, end)
        self._is_touched = True
        before = self._sink.rows
        most = _MOST_ROWS if limit is None else min(limit, _MOST_ROWS)
        bad = self._next_bad_text(batch, start_offset)
        walker, following = self._fill(batch, start_offset, min(end, bad), most)
        if bad == _MAX_INT64 and self._checked and self._first_not_utf8(before) is not None:
            # No row has left this call yet, so it is done again, up to the first record whose text is bad.
            self._sink.rewind(before)
            bad = self._find_bad_text(batch, start_offset)
            walker, following = self._fill(batch, start_offset, min(end, bad), most)
        if not walker.finished:
            batch.pause(walker, following)
        if self._sink.rows == before and following == bad < end:
            raise self._fault_at(batch, topic, partition, bad)
        if self._headers:
            self._headers.copy(walker)
        run = (topic, partition, batch.timestamp_type, batch.partition_leader_epoch)
        self._note_run(run, self._sink.rows - before)
        return self._sink.rows - before, following

    def add_plain(self, stretch: Stretch, topic: str, partition: int, limit: int | None, max_bytes: int) -> int:
        """Add the records of plain batches at once, and return how many; stop at `limit` records or about `max_bytes` bytes of columns.

        stretch: has the added batches afterwards, maybe none. The caller passes all other batches to add(), which raises their errors.
        limit: None for no limit; but one call adds at most 2^20 records.
        """
        self._is_touched = True
        before = self._sink.rows
        most = _MOST_ROWS if limit is None else min(limit, _MOST_ROWS)
        most_bytes = min(max_bytes - self.nbytes, self._stretch_bytes)
        stretch.measure(most, most_bytes, self._row_width, self._room)
        self._fill_plain(stretch)
        bad = self._first_not_utf8(before) if self._checked and stretch.size_bytes else None
        if bad is not None:
            self._sink.rewind(before)
            self._stretch_bytes = stretch.size_bytes // _LESS
            stretch.measure(bad - before, most_bytes, self._row_width, self._room)
            self._fill_plain(stretch)
        else:
            self._stretch_bytes = min(self._stretch_bytes * 2 + _SOME_BYTES, _MAX_INT64)
        if self._headers and stretch.size_bytes:
            self._headers.copy(stretch.walker)
        kind = TimestampType.LOG_APPEND_TIME if stretch.stamped_by_broker else TimestampType.CREATE_TIME
        self._note_run((topic, partition, kind, stretch.leader_epoch), self._sink.rows - before)
        return self._sink.rows - before

    def _fill_plain(self, stretch: Stretch) -> None:
        while stretch.size_bytes:
            self._seen_bytes += stretch.size_bytes
            self._reserve(stretch.rows, stretch.size_bytes)
            if stretch.fill(self._sink):
                return

    def finish(self) -> pa.RecordBatch:
        """Return the collected rows as one Arrow batch; the decoder is empty again afterwards."""
        if not self._is_touched:
            if self._empty is None:
                self._empty = pa.RecordBatch.from_arrays([pa.nulls(0, kind) for _, kind in self._kinds], schema=self.schema)
            return self._empty
        rows = self._sink.rows
        arrays = [self._array(column, kind, rows) for column, kind in self._kinds]
        result = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        self._recent_bytes.append(self._seen_bytes)
        self._reset()
        return result

    def finish_with_offsets(self) -> tuple[pa.RecordBatch, memoryview]:
        """Do what finish() does, and also return the offset of each row. The decoder must have the column offset, or notes_offsets."""
        assert self._offsets is not None
        offsets = memoryview(self._offsets.buffer(self._sink.rows * 8)).cast("B").cast("q")
        return self.finish(), offsets

    def discard(self) -> None:
        """Remove all collected rows, and a row that an exception left incomplete."""
        if self._is_touched:
            self._reset()

    def _fill(self, batch: RecordBatch, start: int, end: int, most: int) -> tuple[RecordWalker, int]:
        """Add up to `most` records, without the bytes of their headers; return the walker over them, and the offset to continue at."""
        walker = batch.walker_at(start, self._max_decompressed)
        rows = min(most, batch.records_count)
        target = self._sink.rows + rows
        payload_size = size = len(batch.payload())
        self._seen_bytes += batch.size_bytes
        if rows < batch.records_count and not self._headers and not self._text:
            # Memory for rows of average size. If the rows are larger, reading stops and continues with memory for the whole payload.
            size = min(payload_size * rows * 5 // (batch.records_count * 4) + _SOME_BYTES, payload_size)
        self._reserve(rows, size)
        stopped = self._sink.fill(walker, start, end, target)
        if stopped and size < payload_size and self._sink.rows < target and walker.offset < end:
            self._reserve(target - self._sink.rows, payload_size)
            stopped = self._sink.fill(walker, start, end, target)
        return walker, min(walker.offset, end) if stopped else batch.next_offset

    def _first_not_utf8(self, start: int) -> int | None:
        columns = {"key": self._key, "value": self._value}
        bad = [None if (column := columns[name]) is None else column.first_not_utf8(start) for name in self._text]
        return min((row for row in bad if row is not None), default=None)

    def fault_of(self, record: AnyRecord) -> RecordDeserializationError | None:
        """Return the error of a record whose text is not UTF-8; None if the record can be added."""
        return _not_utf8(record, self._checked)

    def _find_bad_text(self, batch: RecordBatch, start: int) -> int:
        """Find all records of a batch that cannot be added; return the offset of the first one.

        All at once, because adding up to one of them and looking for the next would take as long as the whole batch each time.
        """
        records = batch.consumer_records(TopicPartition("", 0), self._max_decompressed, start=start)
        self._bad_text = batch, [record.offset for record in records if self.fault_of(record) is not None]
        return self._next_bad_text(batch, start)

    def _next_bad_text(self, batch: RecordBatch, start: int) -> int:
        """Return the first offset from `start` on of a record that is known to be bad; a number above all offsets if there is none."""
        known, offsets = self._bad_text
        at = bisect_left(offsets, start) if known is batch else len(offsets)
        if at < len(offsets):
            return offsets[at]
        self._bad_text = None, []
        return _MAX_INT64

    def _fault_at(self, batch: RecordBatch, topic: str, partition: int, offset: int) -> RecordDeserializationError:
        tp = TopicPartition(topic, partition)
        (record,) = batch.consumer_records(tp, self._max_decompressed, start=offset, limit=1)
        fault = self.fault_of(record)
        assert fault is not None, "its text was found to be bad before"
        return fault

    def _reserve(self, rows: int, payload_size: int) -> None:
        """Make room for `rows` rows from `payload_size` bytes.

        Memory with enough room is not touched: that would cost more than a small batch.
        """
        sink = self._sink
        total = sink.rows + rows
        # Arrow batches are mostly as large as recent ones. Memory is reserved for that size: moving it when it grows takes as long as
        # decoding.
        growth = min(max(self._recent_bytes), _MOST_EXPECTED) / self._seen_bytes
        for binary in self._binaries:
            if not binary.has_room(rows, payload_size):
                binary.reserve(rows, payload_size, growth)
        if self._headers:
            self._headers.reserve(rows)
        if total <= self._rows_room:
            return
        views = [memory.reserve(total * 8, growth).cast("q") if memory else None for memory in (self._offsets, self._timestamps)]
        sink.attach(*views)
        self._rows_room = min((len(view) for view in views if view is not None), default=_MAX_INT64)

    def _note_run(self, run: tuple[str, int, int, int], rows: int) -> None:
        if rows:
            self._runs.append(run)
            self._run_ends.append(self._sink.rows)
            if "topic" in self._names:
                self._topic_bytes += rows * len(run[0])

    def _array(self, column: str, kind: pa.DataType, rows: int) -> pa.Array:
        if not self._runs:
            return pa.nulls(0, kind)
        source = self._sources.get(column)
        if isinstance(source, Binary) and column in self._text and not self._checked:
            return source.text(rows)
        if source is not None:
            return source.array(kind, rows)
        at = _PER_BATCH.index(column)
        return runs_array(self._run_ends, [run[at] for run in self._runs])


def _not_utf8(record: AnyRecord, text: Sequence[str]) -> RecordDeserializationError | None:
    faults = {name: f"its {name} is not UTF-8 ({fault})" for name in text if (fault := utf8_fault(getattr(record, name)))}
    if not faults:
        return None
    where = f"{record.topic}-{record.partition} at offset {record.offset}"
    return RecordDeserializationError(
        f"{where}: {' and '.join(faults.values())}; read it as binary, or seek to {record.offset + 1} to skip the record",
        record,
        part=next(iter(faults)),
    )
