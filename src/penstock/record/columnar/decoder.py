"""Arrow columns out of record batches.

Records go straight from a batch's payload into the buffers of Arrow arrays: nothing is made per record, and a column nobody asked for costs
nothing. The buffers grow by doubling while batches are added, and start at the size the last Arrow batch needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.record.batch import RecordBatch
from penstock.record.compression import DEFAULT_MAX_DECOMPRESSED
from penstock.record.reader import BinarySink, HeaderSink, RecordSink, RecordWalker

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type", "headers", "leader_epoch")

_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", tz="UTC"),
    "timestamp_type": pa.int32(),
    "headers": pa.list_(_HEADER),
    "leader_epoch": pa.int32(),
}
# The columns that are the same for a whole record batch, in the order of a run.
_PER_BATCH = ("topic", "partition", "timestamp_type", "leader_epoch")

_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1
_LEAST_CAPACITY = 64


def schema(columns: Sequence[str] = COLUMNS) -> pa.Schema:
    """Return the Arrow schema of decoded records with these columns; raises ValueError for a name that is not in COLUMNS."""
    unknown = [column for column in columns if column not in _TYPES]
    if unknown:
        raise ValueError(f"unknown column {unknown[0]!r}; there are: {', '.join(COLUMNS)}")
    return pa.schema([(column, _TYPES[column]) for column in columns])


class ColumnDecoder:
    """Collects the records of several record batches into one Arrow batch.

    columns: the columns wanted, in this order. max_decompressed: bytes one record batch may unpack to.
    max_column_bytes: where a binary column is full; add() then takes fewer rows than there are (int32 offsets end at 2 GiB).
    """

    def __init__(
        self, columns: Sequence[str] = COLUMNS, max_decompressed: int = DEFAULT_MAX_DECOMPRESSED, max_column_bytes: int = _MAX_INT32
    ) -> None:
        self.schema = schema(columns)
        self._max_decompressed = max_decompressed
        self._max_column_bytes = max_column_bytes
        self._hints: dict[str, int] = {}
        self._reset()

    def _reset(self) -> None:
        columns = self.schema.names
        self._sink = RecordSink(columns, self._max_column_bytes)
        self._key = _Binary(self._sink.key, self._max_column_bytes) if "key" in columns else None
        self._value = _Binary(self._sink.value, self._max_column_bytes) if "value" in columns else None
        self._offsets = _Memory() if "offset" in columns else None
        self._timestamps = _Memory() if "timestamp" in columns else None
        self._headers = _Headers(self._sink.headers, self._max_column_bytes) if "headers" in columns else None
        self._runs: list[tuple[str, int, int, int]] = []
        self._run_ends: list[int] = []

    @property
    def rows(self) -> int:
        """Rows collected so far."""
        return self._sink.rows

    @property
    def nbytes(self) -> int:
        """Bytes of keys, values and headers collected so far."""
        sink = self._sink
        return sink.key.size + sink.value.size + sink.headers.key_bytes + sink.headers.value_bytes

    def add(
        self, batch: RecordBatch, topic: str, partition: int, start_offset: int = 0, end_offset: int | None = None, limit: int | None = None
    ) -> tuple[int, int]:
        """Add the batch's records from `start_offset` to below `end_offset`, at most `limit` of them.

        Return how many there were, and the offset to go on at: behind the batch, `end_offset`, or that of the first record left out. None
        of a control batch is added. Raises CorruptRecordError; what was added before stays, nothing of this batch does.
        """
        end = _MAX_INT64 if end_offset is None else end_offset
        if batch.is_control or batch.last_offset < start_offset or batch.earliest_offset >= end:
            return 0, min(batch.next_offset, end)
        walker = batch.walker(self._max_decompressed)
        before = self._sink.rows
        room = batch.records_count if limit is None else min(limit, batch.records_count)
        self._reserve(room, len(batch.payload()))
        stopped = self._sink.fill(walker, start_offset, end, before + room)
        if self._headers:
            self._headers.copy(walker)
        self._note_run(batch, topic, partition, self._sink.rows - before)
        return self._sink.rows - before, min(walker.offset, end) if stopped else batch.next_offset

    def finish(self) -> pa.RecordBatch:
        """Return what was collected as one Arrow batch, and start anew."""
        arrays = [self._array(column) for column in self.schema.names]
        result = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        self._reset()
        return result

    def _reserve(self, rows: int, payload_size: int) -> None:
        for binary in (self._key, self._value):
            if binary:
                binary.reserve(rows, payload_size)
        total = self._sink.rows + rows
        views = [memory.reserve(total * 8).cast("q") if memory else None for memory in (self._offsets, self._timestamps)]
        self._sink.attach(*views)
        if self._headers:
            self._headers.reserve(rows)

    def _note_run(self, batch: RecordBatch, topic: str, partition: int, rows: int) -> None:
        if rows:
            self._runs.append((topic, partition, batch.timestamp_type, batch.partition_leader_epoch))
            self._run_ends.append(self._sink.rows)

    def _array(self, column: str) -> pa.Array:
        kind = _TYPES[column]
        if not self._runs:
            return pa.array([], kind)
        if column in _PER_BATCH:
            at = _PER_BATCH.index(column)
            return _runs_array(self._run_ends, [run[at] for run in self._runs], kind)
        own: dict[str, _Binary | _Memory | _Headers | None] = {
            "key": self._key,
            "value": self._value,
            "offset": self._offsets,
            "timestamp": self._timestamps,
            "headers": self._headers,
        }
        source = own[column]
        assert source is not None
        return source.array(kind, self._sink.rows)


def _runs_array(ends: list[int], values: list[Any], kind: pa.DataType) -> pa.Array:
    if len(set(values)) == 1:
        return pa.repeat(pa.scalar(values[0], kind), ends[-1])
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values, kind)))


class _Memory:
    """Bytes that grow by doubling and end up as an Arrow buffer; `fill` is what new bytes are set to, None leaves them as they are."""

    def __init__(self, fill: int | None = None, most: int = _MAX_INT64) -> None:
        self._buffer = pa.allocate_buffer(0, resizable=True)
        self._fill = fill
        self._most = most

    def reserve(self, size: int) -> memoryview:
        """Make room for `size` bytes altogether; return a view of all there are, the only one that is valid from now on."""
        old = self._buffer.size
        if size > old or not old:
            new = max(min(max(size, 2 * old), self._most), _LEAST_CAPACITY)
            self._buffer.resize(new)
            if self._fill is not None:
                memoryview(self._buffer).cast("B")[old:new] = bytes((self._fill,)) * (new - old)
        return memoryview(self._buffer).cast("B")

    def buffer(self, size: int) -> pa.Buffer:
        """Return the first `size` bytes."""
        return self._buffer.slice(0, size)

    def array(self, kind: pa.DataType, rows: int) -> pa.Array:
        """Return int64 numbers as an array."""
        return pa.Array.from_buffers(kind, rows, [None, self.buffer(rows * 8)])


class _Binary:
    """The memory of a BinarySink."""

    def __init__(self, sink: BinarySink, most: int) -> None:
        self.sink = sink
        self._data = _Memory(most=most)
        self._offsets = _Memory()
        self._validity = _Memory(fill=0xFF)

    def reserve(self, rows: int, size: int) -> None:
        """Make room for `rows` more values of `size` bytes altogether."""
        rows += self.sink.rows
        self.sink.attach(
            self._data.reserve(self.sink.size + size),
            self._offsets.reserve((rows + 1) * 4).cast("i"),
            self._validity.reserve((rows + 7) // 8),
        )

    def array(self, kind: pa.DataType, rows: int) -> pa.Array:
        """Return the column."""
        sink = self.sink
        validity = self._validity.buffer((rows + 7) // 8) if sink.nulls else None
        buffers = [validity, self._offsets.buffer((rows + 1) * 4), self._data.buffer(sink.size)]
        return pa.Array.from_buffers(kind, rows, buffers, sink.nulls)


class _Headers:
    """The memory of a HeaderSink."""

    def __init__(self, sink: HeaderSink, most: int) -> None:
        self._sink = sink
        self._offsets = _Memory()
        self._keys = _Binary(sink.keys, most)
        self._values = _Binary(sink.values, most)

    def reserve(self, rows: int) -> None:
        """Make room to note `rows` more rows."""
        offsets = self._offsets.reserve((self._sink.rows + rows + 1) * 4).cast("i")
        self._sink.attach(offsets, memoryview(bytearray(8 * rows or 8)).cast("q"))

    def copy(self, walker: RecordWalker) -> None:
        """Copy the headers of the rows noted."""
        sink = self._sink
        count = sink.noted - sink.keys.rows
        if count:
            self._keys.reserve(count, sink.key_bytes - sink.keys.size)
            self._values.reserve(count, sink.value_bytes - sink.values.size)
            sink.copy(walker)

    def array(self, kind: pa.DataType, rows: int) -> pa.Array:
        """Return the column."""
        count = self._sink.noted
        keys, values = (pa.array([], pa.binary()),) * 2
        if count:
            keys, values = self._keys.array(pa.binary(), count), self._values.array(pa.binary(), count)
        entries = pa.StructArray.from_arrays([_text(keys), values], fields=list(_HEADER))
        return pa.Array.from_buffers(kind, rows, [None, self._offsets.buffer((rows + 1) * 4)], children=[entries])


def _text(names: pa.Array) -> pa.Array:
    """Return header keys as strings, bytes that are not UTF-8 as U+FFFD, as Java reads them."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())
