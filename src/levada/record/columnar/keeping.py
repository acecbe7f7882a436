"""Filters the rows of an Arrow batch by key and by time."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc


def rows_kept(
    batch: pa.RecordBatch, columns: Sequence[str], keys: Collection[bytes | None] | None, first_ms: int | None, end_ms: int | None
) -> pa.RecordBatch:
    """Return `columns` of the rows with a key in `keys` and a timestamp from first_ms up to, not including, end_ms. None: no limit."""
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
