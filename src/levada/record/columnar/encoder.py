"""Arrow columns into record batches, partition by partition.

The input is taken in pieces, as its caller asks for batches, so a large table costs the memory of a piece. The rows of a piece are
measured, assigned to partitions and sorted by them as columns of numbers, before a single record is written.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from levada.record.builder import (
    REJECTED,
    UNASSIGNED,
    BinaryColumn,
    HeaderColumn,
    RecordBatchBuilder,
    RowWriter,
    assign_sticky,
    group_rows,
)
from levada.record.columnar.layouts import OUT_OF_RANGE
from levada.record.columnar.rows import check_columns, open_reader, pieces
from levada.record.compression import Codec
from levada.record.header import HEADER_SIZE
from levada.wire.murmur2 import partitions_for_keys


class EncodedBatch(NamedTuple):
    """A sealed record batch for one partition, and which input rows it holds, by their number and in the order of its records."""

    partition: int
    data: bytearray
    record_count: int
    rows: Sequence[int]


class RejectedRow(NamedTuple):
    """An input row that cannot be sent, by its number, and why."""

    row: int
    reason: str


# Bytes of input that are sorted into partitions at once: few, so that they stay in the processor's cache, unless there are many partitions.
_PIECE_SIZE = 4 * 1024 * 1024
_PIECE_SIZE_PER_PARTITION = 64 * 1024
# Bytes of batches that are not full yet, at most.
_MOST_OPEN = 64 * 1024 * 1024


def encode_columns(
    data: Any,
    *,
    key: str | None,
    value: str | None,
    headers: str | None,
    timestamp: str | None,
    partition: str | None,
    partition_count: int,
    next_sticky_partition: Callable[[], int],
    codec: Codec,
    level: int | None,
    batch_size: int,
    max_record_size: int,
    now_ms: int,
    choose_rows: Callable[[pa.Array], Sequence[int]] | None = None,
    hash_keys: bool = True,
) -> tuple[Iterator[EncodedBatch], list[RejectedRow]]:
    """Encode the rows of Arrow data (a Table, a RecordBatch, anything with __arrow_c_stream__) as record batches per partition.

    key .. partition: names of columns, None for none. A row goes to its `partition`, where that is null by the hash of its key, without
    a key to a sticky partition that changes when batch_size bytes went there. Rows of a partition keep their order. A null timestamp
    becomes now_ms. batch_size limits a batch before compression; a single larger row still makes a batch, up to max_record_size.

    The batches are made while the iterator is used, and the list of rejected rows grows meanwhile; it is complete when the iterator ends.
    Raises SerializationError, at once, for a column that is missing or of a type with no single way into bytes.
    """
    reader = open_reader(data)
    names = {"key": key, "value": value, "timestamp": timestamp, "partition": partition, "headers": headers}
    used = {role: name for role, name in names.items() if name is not None}
    check_columns(reader.schema, used)
    rejected: list[RejectedRow] = []
    choice = _Choice(partition_count, next_sticky_partition, choose_rows, hash_keys)
    encoder = _Encoder(choice, codec, level, batch_size, max_record_size, now_ms, rejected)
    return encoder.encode(pieces(reader, used, max(_PIECE_SIZE, _PIECE_SIZE_PER_PARTITION * partition_count))), rejected


class _Choice(NamedTuple):
    """How rows without a partition get one; those that are still without one afterwards go to the sticky partition."""

    partition_count: int
    next_sticky: Callable[[], int]
    choose_rows: Callable[[pa.Array], Sequence[int]] | None
    hash_keys: bool

    def choose(self, keys: pa.Array | None, key: tuple[Any, Any, Any, int], partitions: memoryview) -> None:
        """Fill in `partitions` where it is UNASSIGNED. key: what BinaryColumn reads of `keys`."""
        if self.choose_rows is None:
            if self.hash_keys:
                partitions_for_keys(*key, self.partition_count, partitions)
            return
        rows = [row for row, partition in enumerate(partitions) if partition == UNASSIGNED]
        column = pa.nulls(len(partitions), pa.large_binary()) if keys is None else keys
        for row, partition in zip(rows, self.choose_rows(column.take(pa.array(rows, pa.int64()))), strict=True):
            partitions[row] = partition


class _Open:
    """A batch being filled, and the rows that are in it."""

    def __init__(self, partition: int, batch: RecordBatchBuilder) -> None:
        self.partition = partition
        self.batch = batch
        self._rows: list[memoryview] = []

    def fill(self, writer: RowWriter, rows: memoryview, first: int, sizes: memoryview) -> int:
        """Take rows[first], ... as far as they fit; return where to go on in `rows`."""
        stop = writer.write(self.batch, rows, first, sizes)
        self._rows.append(rows[first:stop])
        return stop

    def seal(self) -> EncodedBatch:
        """Return the finished batch."""
        rows = self._rows[0] if len(self._rows) == 1 else memoryview(b"".join(self._rows)).cast("q")
        return EncodedBatch(self.partition, self.batch.build(), self.batch.records_count, rows)


class _Encoder:
    """Sorts the rows of each piece into partitions and writes them to batches, which stay open from piece to piece until they are full."""

    def __init__(
        self,
        choice: _Choice,
        codec: Codec,
        level: int | None,
        batch_size: int,
        max_record_size: int,
        now_ms: int,
        rejected: list[RejectedRow],
    ) -> None:
        self._partition_count = choice.partition_count
        self._choice = choice
        self._codec = codec
        self._level = level
        self._batch_size = batch_size
        self._max_record_size = max_record_size
        self._now_ms = now_ms
        self._rejected = rejected
        self._sticky = UNASSIGNED
        self._sticky_room = 0
        self._left: set[int] = set()
        self._open: dict[int, _Open] = {}

    def encode(self, pieces: Iterator[pa.RecordBatch]) -> Iterator[EncodedBatch]:
        """Return the batches of all pieces, each made when asked for."""
        first_row = 0
        for piece in pieces:
            yield from self._encode_piece(piece, first_row)
            first_row += piece.num_rows
            if len(self._open) * self._batch_size > _MOST_OPEN:
                yield from self._seal(list(self._open))
        yield from self._seal(sorted(self._open))

    def _encode_piece(self, piece: pa.RecordBatch, first_row: int) -> Iterator[EncodedBatch]:
        columns = dict(zip(piece.schema.names, piece.columns, strict=True))
        rejected_before = len(self._rejected)
        key, value = _binary(columns.get("key")), _binary(columns.get("value"))
        timestamps = self._timestamps(columns.get("timestamp"), piece.num_rows)
        writer = RowWriter(BinaryColumn(*key), BinaryColumn(*value), _headers(columns.get("headers")), timestamps, first_row)
        partitions = self._given_partitions(columns.get("partition"), piece.num_rows, first_row)
        sizes = _int64s(piece.num_rows)
        writer.measure(sizes)
        if writer.reject(sizes, self._max_record_size, partitions):
            self._explain(partitions, sizes, timestamps, first_row, {row for row, _ in self._rejected[rejected_before:]})
        self._choice.choose(columns.get("key"), key, partitions)
        self._assign_sticky(partitions, sizes)
        starts, rows = _int64s(self._partition_count + 1), _int64s(piece.num_rows)
        group_rows(partitions, first_row, starts, rows)
        for partition in range(self._partition_count):
            yield from self._write(writer, partition, rows[starts[partition] : starts[partition + 1]], sizes)

    def _write(self, writer: RowWriter, partition: int, rows: memoryview, sizes: memoryview) -> Iterator[EncodedBatch]:
        first = 0
        while first < len(rows):
            if partition not in self._open:
                self._open[partition] = _Open(partition, RecordBatchBuilder(self._codec, self._level, self._batch_size))
            first = self._open[partition].fill(writer, rows, first, sizes)
            if first < len(rows):
                yield self._open.pop(partition).seal()
        if partition in self._left and partition in self._open:
            yield self._open.pop(partition).seal()

    def _seal(self, partitions: list[int]) -> Iterator[EncodedBatch]:
        for partition in partitions:
            yield self._open.pop(partition).seal()

    def _timestamps(self, column: pa.Array | None, rows: int) -> memoryview:
        if column is None:
            return memoryview(array("q", [self._now_ms]) * rows)
        if column.null_count:
            column = column.fill_null(self._now_ms)
        return memoryview(column.buffers()[1]).cast("B").cast("q")[column.offset : column.offset + rows]

    def _given_partitions(self, column: pa.Array | None, rows: int, first_row: int) -> memoryview:
        """Return each row's partition as far as `column` gives one; a bad one is rejected."""
        if column is None:
            return memoryview(array("i", [UNASSIGNED]) * rows)
        given = column.fill_null(UNASSIGNED)
        bad = pc.and_(pc.is_valid(column), pc.or_(pc.less(given, 0), pc.greater_equal(given, self._partition_count)))
        for row in pc.indices_nonzero(bad).to_pylist():
            named = _named(column[row].as_py())
            self._rejected.append(
                RejectedRow(first_row + row, f"partition {named}: the topic has {self._partition_count} partitions, from 0")
            )
        known = pc.if_else(bad, REJECTED, given).cast(pa.int32())
        return memoryview(bytearray(memoryview(known.buffers()[1]).cast("B")[known.offset * 4 : (known.offset + rows) * 4])).cast("i")

    def _explain(self, partitions: memoryview, sizes: memoryview, timestamps: memoryview, first_row: int, known: set[int]) -> None:
        for row, partition in enumerate(partitions, first_row):
            if partition == REJECTED and row not in known:
                at = row - first_row
                self._rejected.append(RejectedRow(row, self._reason(sizes[at], timestamps[at])))

    def _reason(self, size: int, timestamp: int) -> str:
        if size < 0:
            return "a header has no key"
        if size > self._max_record_size:
            return f"a record of {size} bytes with its overhead is more than the {self._max_record_size} allowed (max.request.size)"
        return f"timestamp {_named(timestamp)}: whole milliseconds from 0 to 2**63 - 1 are wanted"

    def _assign_sticky(self, partitions: memoryview, sizes: memoryview) -> None:
        room = self._batch_size - HEADER_SIZE
        row = 0
        self._left.clear()
        while row < len(partitions):
            if self._sticky_room <= 0:
                self._left.add(self._sticky)
                self._sticky, self._sticky_room = self._choice.next_sticky(), room
            row, self._sticky_room = assign_sticky(partitions, sizes, row, self._sticky, self._sticky_room, room)


def _named(number: int) -> str:
    return "of more than 64 bits" if number == OUT_OF_RANGE else str(number)


def _binary(column: pa.Array | None) -> tuple[memoryview, memoryview | None, memoryview | None, int]:
    """Return what BinaryColumn reads of a large_binary array: bytes, offsets, validity, its first bit."""
    if column is None:
        return memoryview(b""), None, None, 0
    data = column.buffers()[2]
    return memoryview(data or b"").cast("B"), *_offsets(column), column.offset


def _offsets(column: pa.Array) -> tuple[memoryview, memoryview | None]:
    """Return a variable-sized array's offsets from its first row on, and its validity bits, None if nothing is null."""
    validity, offsets = column.buffers()[:2]
    view = memoryview(offsets).cast("B").cast("q")[column.offset : column.offset + len(column) + 1]
    return view, memoryview(validity).cast("B") if validity and column.null_count else None


def _headers(column: pa.Array | None) -> HeaderColumn:
    if column is None:
        return HeaderColumn(BinaryColumn(), BinaryColumn(), BinaryColumn())
    keys, values = column.values.flatten()
    return HeaderColumn(BinaryColumn(b"", *_offsets(column), column.offset), BinaryColumn(*_binary(keys)), BinaryColumn(*_binary(values)))


def _int64s(count: int) -> memoryview:
    return memoryview(bytearray(8 * count)).cast("q")
