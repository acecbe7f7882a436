"""Encodes Arrow columns as record batches, partition by partition, and makes the delivery report of their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from levada.record.builder import RecordBatchBuilder, RowWriter
from levada.record.columnar.sorter import PartitionRows
from levada.record.compression import Codec

DELIVERY_SCHEMA = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("error", pa.string()),
    ]
)


class EncodedBatch(NamedTuple):
    """A sealed record batch for one partition. rows: the numbers of its input rows, in the order of its records."""

    partition: int
    data: bytearray
    record_count: int
    rows: Sequence[int]


# The most bytes of batches that are not full yet.
_MOST_OPEN = 64 * 1024 * 1024


def seal_rows(rows: Iterator[PartitionRows], codec: Codec, level: int | None, batch_size: int) -> Iterator[EncodedBatch]:
    """Encode rows that are sorted by partition. Each batch is made when requested. level: see compression.compress().

    batch_size: the most bytes of a batch before compression; a single larger record gets a batch of its own.
    """
    return _Encoder(codec, level, batch_size).encode(rows)


class _Open:
    """A batch that is being filled, and the numbers of its rows."""

    def __init__(self, partition: int, batch: RecordBatchBuilder) -> None:
        self.partition = partition
        self.batch = batch
        self._rows: list[memoryview] = []

    def fill(self, writer: RowWriter, rows: memoryview, first: int, sizes: memoryview) -> int:
        """Add rows[first], ... as far as they fit; return the index in `rows` to continue at."""
        stop = writer.write(self.batch, rows, first, sizes)
        self._rows.append(rows[first:stop])
        return stop

    def seal(self) -> EncodedBatch:
        """Return the finished batch."""
        rows = self._rows[0] if len(self._rows) == 1 else memoryview(b"".join(self._rows)).cast("q")
        return EncodedBatch(self.partition, self.batch.build(), self.batch.records_count, rows)


class _Encoder:
    """Writes sorted rows to batches. A batch stays open from piece to piece of the input.

    It ends when it is full, when the sticky partition changes to another, or when the open batches may need too much memory.
    """

    def __init__(self, codec: Codec, level: int | None, batch_size: int) -> None:
        self._codec = codec
        self._level = level
        self._batch_size = batch_size
        self._open: dict[int, _Open] = {}

    def encode(self, sorted_rows: Iterator[PartitionRows]) -> Iterator[EncodedBatch]:
        """Yield the batches of all rows."""
        for rows in sorted_rows:
            yield from self._write(rows)
            if len(self._open) * self._batch_size > _MOST_OPEN:
                yield from self._seal(list(self._open))
        yield from self._seal(sorted(self._open))

    def _write(self, taken: PartitionRows) -> Iterator[EncodedBatch]:
        partition, writer, rows, sizes, is_left = taken
        first = 0
        while first < len(rows):
            if partition not in self._open:
                self._open[partition] = _Open(partition, RecordBatchBuilder(self._codec, self._level, self._batch_size))
            first = self._open[partition].fill(writer, rows, first, sizes)
            if first < len(rows):
                yield self._open.pop(partition).seal()
        if is_left and partition in self._open:
            yield self._open.pop(partition).seal()

    def _seal(self, partitions: list[int]) -> Iterator[EncodedBatch]:
        for partition in partitions:
            yield self._open.pop(partition).seal()


def delivery_report(batches: Iterable[tuple[Sequence[int], int, Sequence[int], Sequence[str | None]]]) -> pa.RecordBatch:
    """Return one Arrow batch in the order of the rows. batches: (row numbers, their partition, offsets, errors) of each record batch."""
    parts = [
        pa.record_batch(
            [
                pa.array(rows, pa.int64()),
                pa.repeat(pa.scalar(partition, pa.int32()), len(rows)),
                pa.array(offsets, pa.int64()),
                pa.array(errors, pa.string()),
            ],
            schema=DELIVERY_SCHEMA,
        )
        for rows, partition, offsets, errors in batches
    ]
    table = pa.Table.from_batches(parts, DELIVERY_SCHEMA).sort_by("row")
    return table.combine_chunks().to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], DELIVERY_SCHEMA)
