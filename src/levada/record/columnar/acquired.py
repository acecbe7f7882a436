"""Columns of the records that a member of a share group has acquired, with a column of delivery counts (KIP-932)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pyarrow as pa

from levada.record.batch import RecordBatch
from levada.record.columnar.buffers import runs_array
from levada.record.columnar.decoder import COLUMNS, ColumnDecoder
from levada.types import TopicPartition

DELIVERY_COUNT = "delivery_count"
ACQUIRED_COLUMNS = (*COLUMNS, DELIVERY_COUNT)
PLACE = ("topic", "partition", "offset")


class AcquiredColumns:
    """Like ColumnDecoder, but its Arrow batches may have a column delivery_count of int32. The parameters are those of ColumnDecoder.

    Raises ValueError for an unknown column, and for a column that cannot be text.
    """

    def __init__(self, columns: Sequence[str], max_decompressed: int, *, text: Collection[str], null_bad_text: bool) -> None:
        if (unknown := [column for column in columns if column not in ACQUIRED_COLUMNS]) != []:
            raise ValueError(f"unknown column {unknown[0]!r}; there are: {', '.join(ACQUIRED_COLUMNS)}")
        self._columns = tuple(columns)
        of_records = [column for column in columns if column != DELIVERY_COUNT]
        self._decoder = ColumnDecoder(of_records, max_decompressed, text=text, notes_offsets=True, null_bad_text=null_bad_text)
        self._counts: list[int] = []
        self._ends: list[int] = []
        self._empty: pa.RecordBatch | None = None
        """An Arrow batch without rows, made once (see ColumnDecoder)."""

    @property
    def rows(self) -> int:
        """Rows collected so far."""
        return self._decoder.rows

    @property
    def nbytes(self) -> int:
        """Bytes of the columns so far."""
        return self._decoder.nbytes

    def add(
        self, batch: RecordBatch, topic: str, partition: int, first: int, last: int, delivery_count: int, limit: int | None
    ) -> tuple[int, int]:
        """Add the records with offsets from `first` to `last`, at most `limit`; return how many, and the offset to continue at.

        limit, and the errors raised: see ColumnDecoder.add(). delivery_count: the delivery count of these records.
        """
        added, reached = self._decoder.add(batch, topic, partition, first, last + 1, limit)
        if added:
            self._counts.append(delivery_count)
            self._ends.append(self._decoder.rows)
        return added, min(reached, last + 1)

    def finish_with_offsets(self) -> tuple[pa.RecordBatch, memoryview]:
        """Return the collected rows as one Arrow batch, and the offset of each row; the decoder is empty again afterwards."""
        if not self._counts:
            batch = self._decoder.finish()
            if self._empty is None:
                self._empty = self._batch(batch, pa.nulls(0, pa.int32()))
            return self._empty, memoryview(b"").cast("q")
        counts = runs_array(self._ends, self._counts)
        batch, offsets = self._decoder.finish_with_offsets()
        self._counts, self._ends = [], []
        return self._batch(batch, counts), offsets

    def _batch(self, batch: pa.RecordBatch, counts: pa.Array) -> pa.RecordBatch:
        arrays = [counts if column == DELIVERY_COUNT else batch.column(column) for column in self._columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(self._columns))

    def discard(self) -> None:
        """Remove all collected rows, and a row that an exception left incomplete."""
        self._decoder.discard()
        self._counts, self._ends = [], []


def places(batch: Any, mask: Any = None) -> list[tuple[TopicPartition, list[int]]]:
    """Return the partitions that the rows of an Arrow batch or table come from, each with its offsets in the order of the rows.

    mask: one boolean per row, True for the rows to take; None takes all. Raises ValueError if topic, partition or offset is not a column.
    """
    missing = [column for column in PLACE if column not in batch.schema.names]
    if missing:
        raise ValueError(f"rows can be acknowledged by their topic, partition and offset; there is no column {missing[0]!r}")
    rows = batch.select(list(PLACE))
    if mask is not None:
        rows = rows.filter(pa.array(mask, pa.bool_()) if not isinstance(mask, pa.Array | pa.ChunkedArray) else mask)
    found: dict[TopicPartition, list[int]] = {}
    columns: Iterable[list[Any]] = (rows.column(column).to_pylist() for column in PLACE)
    for topic, partition, offset in zip(*columns, strict=True):
        found.setdefault(TopicPartition(topic, partition), []).append(offset)
    return list(found.items())
