"""Sorts the rows of Arrow columns by the partition they go to.

The input is read in pieces while the caller requests rows, so that a large table takes only the memory of a piece. The rows of a piece are
measured, assigned to partitions and sorted by partition, all as columns of numbers, before the first record is written.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import pyarrow as pa

from levada.record.builder import (
    REJECTED,
    UNASSIGNED,
    BinaryColumn,
    HeaderColumn,
    RowWriter,
    assign_sticky,
    group_rows,
    take_given,
)
from levada.record.columnar.layouts import OUT_OF_RANGE
from levada.record.columnar.rows import check_columns, open_reader, pieces, read
from levada.record.header import HEADER_SIZE
from levada.wire.murmur2 import partitions_for_keys


class PartitionRows(NamedTuple):
    """Rows of one piece that go to one partition, in order, and the writer of these rows.

    rows: their numbers in the input. sizes: for each row of the piece, the most bytes that a batch with this row alone takes.
    is_left: whether the sticky partition has changed from this partition to another in this piece.
    """

    partition: int
    writer: RowWriter
    rows: memoryview
    sizes: memoryview
    is_left: bool

    def size_at(self, index: int) -> int:
        """Return the most bytes that a batch with rows[index] alone takes."""
        size: int = self.sizes[self.rows[index] - self.writer.first_row]
        return size


class RejectedRow(NamedTuple):
    """An input row that cannot be sent: its number and the reason."""

    row: int
    reason: str


# Bytes of input that are sorted at once: few enough to stay in the processor's cache, but more if there are many partitions.
_PIECE_SIZE = 4 * 1024 * 1024
_PIECE_SIZE_PER_PARTITION = 64 * 1024


class PartitionChoice(NamedTuple):
    """How rows without a partition get one: from choose_rows if it is given, else by the hash of the key; with no key, the sticky one.

    next_sticky: returns a new sticky partition, and how many bytes may go there before the next call. choose_rows: returns the partitions
    for an array of keys. hash_keys: whether keys are hashed; if not, their rows go to the sticky partition, too. user_code: makes a
    context that is entered while the data is read, and around choose_rows.
    """

    partition_count: int
    next_sticky: Callable[[], tuple[int, int]]
    choose_rows: Callable[[pa.Array], Sequence[int]] | None = None
    hash_keys: bool = True
    user_code: Callable[[], AbstractContextManager[object]] = nullcontext

    def choose(self, keys: pa.Array | None, key: tuple[Any, Any, Any, int], partitions: memoryview) -> None:
        """Set `partitions` where it is UNASSIGNED. Rows for the sticky partition stay UNASSIGNED.

        keys: None if there is no key column. key: the parts of `keys` for BinaryColumn, see binary_parts().
        """
        if self.choose_rows is None:
            if self.hash_keys:
                partitions_for_keys(*key, self.partition_count, partitions)
            return
        rows = [row for row, partition in enumerate(partitions) if partition == UNASSIGNED]
        column = pa.nulls(len(partitions), pa.large_binary()) if keys is None else keys
        keys = column.take(pa.array(rows, pa.int64()))
        with self.user_code():
            chosen = self.choose_rows(keys)
        for row, partition in zip(rows, chosen, strict=True):
            partitions[row] = partition


def sort_columns(
    data: Any,
    columns: Mapping[str, str | None],
    choice: PartitionChoice,
    *,
    batch_size: int,
    max_record_size: int,
    now_ms: int,
    common_headers: Sequence[tuple[str, bytes | None]] = (),
) -> tuple[Iterator[PartitionRows], list[RejectedRow]]:
    """Sort the rows of Arrow data (a Table, a RecordBatch, anything with __arrow_c_stream__) into partitions.

    columns: key, value, headers, timestamp and partition, each the name of a column or None. A row goes to its `partition`; if that is
    null, `choice` says where. Rows of a partition keep their order. A null timestamp becomes now_ms. common_headers: added to the headers
    of every row.
    The iterator adds rejected rows to the list, which is complete when the iterator ends.
    Raises SerializationError, at once, for data that is not Arrow data, and for a column that is missing, has the name of another column,
    or has a type that its role cannot take, for example because there are several ways to make bytes of it.
    """
    reading = nullcontext if isinstance(data, pa.Table | pa.RecordBatch) else choice.user_code
    with reading():
        reader = open_reader(data)
    used = {role: name for role, name in columns.items() if name is not None}
    check_columns(reader.schema, used)
    rejected: list[RejectedRow] = []
    sorter = _Sorter(choice, batch_size, max_record_size, now_ms, rejected, common_headers)
    size = max(_PIECE_SIZE, _PIECE_SIZE_PER_PARTITION * choice.partition_count)
    return sorter.sort(pieces(read(reader, reading), used, size)), rejected


class _Sorter:
    """Sorts the rows of each piece into partitions. The sticky partition and the bytes that may still go there stay between pieces."""

    def __init__(
        self,
        choice: PartitionChoice,
        batch_size: int,
        max_record_size: int,
        now_ms: int,
        rejected: list[RejectedRow],
        common_headers: Sequence[tuple[str, bytes | None]],
    ) -> None:
        self._common_headers = common_headers
        self._partition_count = choice.partition_count
        self._choice = choice
        self._batch_size = batch_size
        self._max_record_size = max_record_size
        self._now_ms = now_ms
        self._rejected = rejected
        self._sticky = UNASSIGNED
        self._sticky_room = 0
        self._left: set[int] = set()

    def sort(self, pieces: Iterator[pa.RecordBatch]) -> Iterator[PartitionRows]:
        """Yield the rows of all pieces. Each piece is sorted when its rows are requested."""
        first_row = 0
        for piece in pieces:
            yield from self._sort_piece(piece, first_row)
            first_row += piece.num_rows

    def _sort_piece(self, piece: pa.RecordBatch, first_row: int) -> Iterator[PartitionRows]:
        columns = dict(zip(piece.schema.names, piece.columns, strict=True))
        rejected_before = len(self._rejected)
        key, value = binary_parts(columns.get("key")), binary_parts(columns.get("value"))
        timestamps = self._timestamps(columns.get("timestamp"), piece.num_rows)
        headers = _headers(columns.get("headers"), self._common_headers)
        writer = RowWriter(BinaryColumn(*key), BinaryColumn(*value), headers, timestamps, first_row)
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
            if starts[partition] < starts[partition + 1]:
                own = rows[starts[partition] : starts[partition + 1]]
                yield PartitionRows(partition, writer, own, sizes, partition in self._left)

    def _timestamps(self, column: pa.Array | None, rows: int) -> memoryview:
        if column is None:
            return memoryview(array("q", [self._now_ms]) * rows)
        if column.null_count:
            column = column.fill_null(self._now_ms)
        return memoryview(column.buffers()[1]).cast("B").cast("q")[column.offset : column.offset + rows]

    def _given_partitions(self, column: pa.Array | None, rows: int, first_row: int) -> memoryview:
        """Return each row's partition from `column`, UNASSIGNED for null. A row whose partition does not exist is rejected."""
        if column is None:
            return memoryview(array("i", [UNASSIGNED]) * rows)
        partitions = memoryview(bytearray(4 * rows)).cast("i")
        validity, numbers = column.buffers()
        given = memoryview(numbers).cast("B")[8 * column.offset : 8 * (column.offset + rows)].cast("q")
        nulls = memoryview(validity).cast("B") if validity and column.null_count else None
        if take_given(given, nulls, column.offset, self._partition_count, partitions):
            for row, partition in enumerate(partitions):
                if partition == REJECTED:
                    fault = f"partition {_named(given[row])}: the topic has {self._partition_count} partitions, from 0"
                    self._rejected.append(RejectedRow(first_row + row, fault))
        return partitions

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
        return f"timestamp {_named(timestamp)}: expected whole milliseconds from 0 to 2**63 - 1"

    def _assign_sticky(self, partitions: memoryview, sizes: memoryview) -> None:
        room = self._batch_size - HEADER_SIZE
        row = 0
        self._left.clear()
        while row < len(partitions):
            if self._sticky_room <= 0:
                self._left.add(self._sticky)
                self._sticky, self._sticky_room = self._choice.next_sticky()
            row, self._sticky_room = assign_sticky(partitions, sizes, row, self._sticky, self._sticky_room, room)


def _named(number: int) -> str:
    return "of more than 64 bits" if number == OUT_OF_RANGE else str(number)


def binary_parts(column: pa.Array | None) -> tuple[memoryview, memoryview | None, memoryview | None, int]:
    """Return the parts of a large_binary array for BinaryColumn: bytes, offsets, validity, and the validity bit of the first row.

    validity is None if no value is null. If `column` is None, the bytes are empty, and offsets and validity are None.
    """
    if column is None:
        return memoryview(b""), None, None, 0
    data = column.buffers()[2]
    return memoryview(data or b"").cast("B"), *_offsets(column), column.offset


def _offsets(column: pa.Array) -> tuple[memoryview, memoryview | None]:
    """Return a variable-sized array's offsets from its first row on, and its validity bits; None if no value is null."""
    validity, offsets = column.buffers()[:2]
    view = memoryview(offsets).cast("B").cast("q")[column.offset : column.offset + len(column) + 1]
    return view, memoryview(validity).cast("B") if validity and column.null_count else None


def _headers(column: pa.Array | None, common: Sequence[tuple[str, bytes | None]]) -> HeaderColumn:
    if column is None:
        return HeaderColumn(BinaryColumn(), BinaryColumn(), BinaryColumn(), common)
    keys, values = column.values.flatten()
    lists = BinaryColumn(b"", *_offsets(column), column.offset)
    return HeaderColumn(lists, BinaryColumn(*binary_parts(keys)), BinaryColumn(*binary_parts(values)), common)


def _int64s(count: int) -> memoryview:
    return memoryview(bytearray(8 * count)).cast("q")
