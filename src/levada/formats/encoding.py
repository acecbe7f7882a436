"""Encodes the keys and values of send_arrow() that have a format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from levada.errors import SerializationError
from levada.formats.writing import Encode, WriteFormat, cast
from levada.record.columnar import open_reader

Columns = Mapping[str, str | Sequence[str] | None]
"""By role (key, value, headers, ...): the column, or the columns that become a struct; None without one."""


def encoded(data: Any, columns: Columns, formats: Mapping[str, WriteFormat]) -> tuple[pa.Table, dict[str, str | None]]:
    """Return a table with a column for each role, and the names of its columns by role. Keys or values with a format are encoded.

    data: Arrow data of any kind. Raises ConfigError for a column that its format cannot write, SerializationError for a column that is
    missing or is there twice, and for a row that cannot be written; then nothing is returned.
    """
    reader = open_reader(data)
    used = {role: given for role, given in columns.items() if given is not None}
    for role, given in used.items():
        for name in [given] if isinstance(given, str) else given:
            if reader.schema.names.count(name) != 1:
                raise SerializationError(f"{role}: the data have no single column '{name}'; there are {', '.join(reader.schema.names)}")
    encoders: dict[str, Encode] = {}
    for side, one in formats.items():
        kind = plain(_kind(reader.schema, used[side]))
        one.check(_path(side, used[side]), kind)
        encoders[side] = _in_plain_type(one.encoder(_path(side, used[side])), kind)
    names = list(used)
    kinds = [pa.binary() if role in encoders else _kind(reader.schema, used[role]) for role in names]
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    table = pa.Table.from_batches((_batch(batch, used, encoders) for batch in reader), schema)
    return table, {role: role if role in used else None for role in columns}


def _batch(batch: pa.RecordBatch, used: Mapping[str, str | Sequence[str]], encoders: Mapping[str, Encode]) -> pa.RecordBatch:
    arrays = []
    for role, given in used.items():
        array = batch.column(given) if isinstance(given, str) else _struct([batch.column(name) for name in given], given)
        arrays.append(encoders[role](array) if role in encoders else array)
    return pa.RecordBatch.from_arrays(arrays, names=list(used))


def _struct(arrays: Sequence[pa.Array], names: Sequence[str]) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(arrays), names=list(names))


def _kind(schema: pa.Schema, given: str | Sequence[str]) -> pa.DataType:
    return schema.field(given).type if isinstance(given, str) else pa.struct([schema.field(name) for name in given])


def _path(side: str, given: str | Sequence[str]) -> str:
    return given if isinstance(given, str) else side


def _in_plain_type(encode: Encode, kind: pa.DataType) -> Encode:
    def in_plain_type(array: pa.Array) -> pa.Array:
        try:
            # Finer units of time are truncated, as in the timestamps of records.
            return cast(array, kind)
        except pa.ArrowNotImplementedError:
            # Views, in some versions of pyarrow.
            return pa.array(array.to_pylist(), kind)

    def encode_plain(array: pa.Array) -> pa.Array:
        try:
            return encode(in_plain_type(array))
        except pa.ArrowException as fault:
            raise SerializationError(f"a column cannot be written as {kind}: {fault}") from fault

    return encode_plain


def plain(kind: pa.DataType) -> pa.DataType:
    """Return the type to which a column is cast before a format writes it.

    All kinds of text have one type, and so have all kinds of bytes and of lists. Timestamps and durations are in microseconds. Dictionaries
    and extension types are replaced by the types of their values, and unsigned numbers of up to 32 bits by wider signed ones.
    """
    is_ = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return plain(kind.storage_type)
    if is_.is_dictionary(kind) or is_.is_run_end_encoded(kind):
        return plain(kind.value_type)
    if is_.is_struct(kind):
        return pa.struct([pa.field(field.name, plain(field.type)) for field in kind])
    if is_.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    if any(is_list(kind) for is_list in _LISTS):
        return pa.list_(pa.field("element", plain(kind.value_type)))
    if is_.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return next((wanted for are, wanted in _PLAIN if any(is_of(kind) for is_of in are)), kind)


_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view, pa.types.is_large_list_view)
_PLAIN: Sequence[tuple[Iterable[Callable[[pa.DataType], bool]], pa.DataType]] = (
    ((pa.types.is_large_string, pa.types.is_string_view), pa.string()),
    ((pa.types.is_large_binary, pa.types.is_binary_view), pa.binary()),
    ((pa.types.is_date64,), pa.date32()),
    ((pa.types.is_time32,), pa.time32("ms")),
    ((pa.types.is_time64,), pa.time64("us")),
    ((pa.types.is_duration,), pa.duration("us")),
    ((pa.types.is_uint8,), pa.int16()),
    ((pa.types.is_uint16,), pa.int32()),
    ((pa.types.is_uint32,), pa.int64()),
    ((pa.types.is_float16,), pa.float32()),
)
