"""What a format of the sink offers: a column of structs becomes bytes, in the task that writes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import date
from typing import Any, Self

import pyarrow as pa
from pyspark.sql.types import DataType

from levada.errors import SerializationError

Encode = Callable[[pa.Array], pa.Array]
"""From a column to a binary one, null where the column is. Raises SerializationError for a row that cannot be written."""


class SinkFormat(ABC):
    """How the column of one side of a sink is written. Picklable."""

    def pinned(self) -> Self:
        """Return the format with what a registry knows of it now. Only the driver calls it, when a writer is made."""
        return self

    @abstractmethod
    def check(self, column: str, kind: DataType) -> None:
        """Raise ConfigError when a column of this type cannot be written. Only of a pinned format."""

    @abstractmethod
    def encoder(self, column: str) -> Encode:
        """Return what encodes a column, which is named in errors. Only of a pinned format."""


def row_by_row(
    write: Callable[[Any], bytes | None],
    column: str,
    schema: str,
    *,
    errors: tuple[type[Exception], ...],
    told: Callable[[Exception], str] = str,
) -> Encode:
    """Return what encodes a column value by value, for formats whose libraries take Python objects.

    write: makes the bytes of one value that is not null; raises one of `errors` where it does not fit. schema: what values have to fit, for
    errors, such as "the message shop.Order". told: puts an error into words.
    """

    def encode(array: pa.Array) -> pa.Array:
        found: list[bytes | None] = []
        for row, value in enumerate(array.cast(as_numbers(array.type)).to_pylist()):
            try:
                found.append(None if value is None else write(value))
            except errors as fault:
                raise SerializationError(
                    f"column '{column}' does not fit {schema}: {told(fault)}; it is in row {row} of {len(array)} of an Arrow batch"
                ) from fault
        return pa.array(found, pa.binary())

    return encode


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
