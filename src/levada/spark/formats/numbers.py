"""Arrow types with numbers in the place of dates, times and durations, which Python's own types cannot all hold."""

from __future__ import annotations

from datetime import date

import pyarrow as pa

_EPOCH = date(1970, 1, 1)
FIRST_DAY = (date.min - _EPOCH).days
LAST_DAY = (date.max - _EPOCH).days
MICROS_OF_DAY = 86_400_000_000
FIRST_MICROS = FIRST_DAY * MICROS_OF_DAY
LAST_MICROS = (LAST_DAY + 1) * MICROS_OF_DAY - 1
"""The years 0001 to 9999, which ISO 8601 and Protobuf have, and Spark goes beyond."""


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
