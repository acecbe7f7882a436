"""Arrow types with numbers in the place of dates, times and durations, which Python's own types cannot all hold."""

from __future__ import annotations

import pyarrow as pa


def as_numbers(kind: pa.DataType) -> pa.DataType:
    """Return the type: days for dates, microseconds for what Spark has as microseconds."""
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(inner.name, as_numbers(inner.type)) for inner in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, as_numbers(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(as_numbers(kind.value_type))
    return kind
