"""The delivery report of sent rows, as Arrow columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

DELIVERY_SCHEMA = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("error", pa.string()),
    ]
)


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
