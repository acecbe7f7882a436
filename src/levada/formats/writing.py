"""The interface of a format that writes: it converts a column to bytes. And an encoder for formats that write value by value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import date
from typing import Any, Self

import pyarrow as pa

from levada.errors import ConfigError, SerializationError
from levada.formats.reading import Registry, client_of
from levada.registry import RegistryAnswerError, RegistryNotFoundError, Schema
from levada.registry.schema import refuse_rules_on_writing

Encode = Callable[[pa.Array], pa.Array]
"""Converts a column to a binary column. Null stays null. Raises SerializationError for a row that cannot be written."""


Named = Callable[[pa.DataType], str]
"""Returns the name of a type as the program writes it, for errors."""


class WriteFormat(ABC):
    """How a column of keys, or of values, is written. Picklable."""

    def pinned(self) -> Self:
        """Register or look up the schema, and return the format with its id. All that is written with the result has this schema.

        A format that needs no id before it writes returns itself. Raises ConfigError, RegistryError; SerializationError for a schema with
        rules that would have to run.
        """
        return self

    @abstractmethod
    def check(self, column: str, kind: pa.DataType, named: Named = str) -> None:
        """Raise ConfigError if a column of this type cannot be written. Registers no schema, but may look up the latest one."""

    @abstractmethod
    def encoder(self, column: str) -> Encode:
        """Return a function that encodes a column. Call it only on the format that pinned() returned. column: its name, for errors."""


def schema_id_for(registry: Registry, subject: str, schema: Schema, *, registers: bool, option: str) -> int:
    """Register or look up a schema under a subject, and return its id.

    registers: whether to register it, or only to look it up. option: the name of the option that gives the schema, for errors. Raises
    ConfigError if the schema is not there to be looked up; RegistryError; SerializationError for a schema with rules that would have to
    run.
    """
    client = client_of(registry)
    try:
        if registers:
            schema_id, _, rule_set = client._register(subject, schema, False)
        else:
            found = client.lookup_schema(subject, schema)
            schema_id, rule_set = found.schema_id, found.schema.rule_set
    except RegistryNotFoundError as missing:
        raise ConfigError(
            f"option '{option}': the schema is not registered under '{subject}'; register it, or leave auto.register.schemas=true"
        ) from missing
    except RegistryAnswerError as refused:
        refused.add_note(f"option '{option}': the schema was to be registered under '{subject}'")
        raise
    refuse_rules_on_writing(rule_set, f"id {schema_id}")
    return schema_id


def row_by_row(
    write: Callable[[Any], bytes | None],
    column: str,
    schema: str,
    *,
    errors: tuple[type[Exception], ...],
    told: Callable[[Exception], str] = str,
) -> Encode:
    """Return a function that encodes a column value by value, for formats whose libraries take Python objects.

    write: returns the bytes of a value other than null; raises one of `errors` if the value does not fit. Dates and times are passed to it
    as numbers, see as_numbers(). schema: the name of the schema, for errors, such as "the message shop.Order". told: returns an error's
    text.
    """

    def encode(array: pa.Array) -> pa.Array:
        found: list[bytes | None] = []
        for row, value in enumerate(cast(array, as_numbers(array.type)).to_pylist()):
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
"""The first and last day and microsecond of the years 0001 to 9999, counted from 1970. JSON and Protobuf are not written with other years,
which Arrow has.
"""


def as_numbers(kind: pa.DataType) -> pa.DataType:
    """Return the type with integers in place of dates and times: int32 or int64, in the unit that the type has."""
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_date(kind) or pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_time64(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(inner.name, as_numbers(inner.type)) for inner in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, as_numbers(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(as_numbers(kind.value_type))
    return kind


def cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array as another type with the same fields; finer units of time are truncated.

    pyarrow's own cast is wrong within a struct or a list: it loses nulls of a slice, and takes the wrong elements of a list view.
    """
    if array.type.equals(kind):
        return array
    # Imported late, because Spark's driver plans a query without it.
    import pyarrow.compute as pc

    if isinstance(array, pa.ExtensionArray):
        return cast(array.storage, kind)
    if pa.types.is_struct(kind):
        children = [cast(child, inner.type) for child, inner in zip(array.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pa.types.is_map(kind):
        valid = array.drop_null()
        begin, end = valid.offsets[0].as_py(), valid.offsets[-1].as_py()
        keys, items = valid.keys.slice(begin, end - begin), valid.items.slice(begin, end - begin)
        return pa.MapArray.from_arrays(_offsets(array), cast(keys, kind.key_type), cast(items, kind.item_type), kind)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(_offsets(array), cast(array.flatten(), kind.value_type), kind)
    return array.cast(options=pc.CastOptions(kind, allow_time_truncate=True))


def _offsets(array: pa.Array) -> pa.Array:
    """Return offsets for from_arrays(): where the elements of each row begin, then the end of the last row.

    A null row has no elements, and its offset is null.
    """
    import pyarrow.compute as pc

    is_map = pa.types.is_map(array.type)
    lengths = pc.subtract(array.offsets[1:], array.offsets[:-1]) if is_map else pc.list_value_length(array).cast(pa.int32())
    ends = pc.cumulative_sum(pc.if_else(array.is_null(), pa.scalar(0, pa.int32()), lengths))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pc.if_else(pa.concat_arrays([array.is_null(), pa.array([False])]), pa.scalar(None, pa.int32()), offsets)
