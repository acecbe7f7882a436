"""Whatever Arrow data a user holds, as pieces of rows in the one shape that the encoder reads.

The shape is ROW: 64-bit offsets everywhere, timestamps as ms, headers as a list of (key, value). Types that can become bytes in several
ways, such as an int key, are refused by name: a silent choice would show up as wrong partitions much later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SerializationError

ROW = pa.schema(
    [
        ("key", pa.large_binary()),
        ("value", pa.large_binary()),
        ("timestamp", pa.int64()),
        ("partition", pa.int64()),
        ("headers", pa.large_list(pa.struct([("key", pa.large_binary()), ("value", pa.large_binary())]))),
    ]
)


def open_reader(data: Any) -> pa.RecordBatchReader:
    """Return a reader over anything that speaks Arrow's C interface; raises SerializationError."""
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, (pa.Table, pa.RecordBatchReader)):
        return data.to_reader() if isinstance(data, pa.Table) else data
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        return open_reader(pa.record_batch(data))
    raise SerializationError(f"{type(data).__name__} is no Arrow data: it has no __arrow_c_stream__")


def check_columns(columns: pa.Schema, used: dict[str, str]) -> None:
    """Raise SerializationError if a column, given by role, is missing, there twice, or of a type that its role cannot take."""
    for role, name in used.items():
        at = columns.get_all_field_indices(name)
        if len(at) != 1:
            fault = "there is no such column" if not at else f"{len(at)} columns have this name"
            raise SerializationError(f"column {name!r} ({role}): {fault}; there are: {', '.join(columns.names)}")
        kind = columns.field(at[0]).type
        if not _ACCEPTS[role](kind):
            raise SerializationError(f"column {name!r} ({role}) is {kind}; {_WANTED[role]}")


def _is_binary(kind: pa.DataType) -> bool:
    is_ = pa.types
    if is_.is_dictionary(kind):
        kind = kind.value_type
    tests = (is_.is_binary, is_.is_string, is_.is_large_binary, is_.is_large_string, is_.is_binary_view, is_.is_string_view)
    return any(test(kind) for test in (*tests, is_.is_fixed_size_binary, is_.is_null))


def _is_time(kind: pa.DataType) -> bool:
    is_ = pa.types
    return any(test(kind) for test in (is_.is_timestamp, is_.is_date, is_.is_integer, is_.is_null))


def _is_headers(kind: pa.DataType) -> bool:
    is_ = pa.types
    if is_.is_map(kind):
        return _is_binary(kind.key_type) and _is_binary(kind.item_type)
    if is_.is_null(kind):
        return True
    if not (is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind)) or not is_.is_struct(kind.value_type):
        return False
    fields = {field.name: field.type for field in kind.value_type}
    return set(fields) == {"key", "value"} and all(_is_binary(field) for field in fields.values())


_ACCEPTS: dict[str, Callable[[pa.DataType], bool]] = {
    "key": _is_binary,
    "value": _is_binary,
    "timestamp": _is_time,
    "partition": lambda kind: bool(pa.types.is_integer(kind) or pa.types.is_null(kind)),
    "headers": _is_headers,
}
_BYTES_WANTED = "give binary or string: how else it should become bytes is for you to say, for example with a cast"
_WANTED = {
    "key": _BYTES_WANTED,
    "value": _BYTES_WANTED,
    "timestamp": "give a timestamp, a date, or integer milliseconds since the epoch",
    "partition": "give integers",
    "headers": "give list<struct<key: string, value: binary>> or map<string, binary>",
}


def pieces(reader: pa.RecordBatchReader, used: dict[str, str], size: int) -> Iterator[pa.RecordBatch]:
    """Cut and join the reader's batches to pieces of about `size` bytes, with columns named and typed as in ROW."""
    waiting: list[pa.RecordBatch] = []
    waiting_size = 0
    for batch in reader:
        rows = max(1, batch.num_rows * size // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, rows):
            piece = _row_batch(batch.slice(start, rows), used)
            waiting.append(piece)
            waiting_size += piece.nbytes
            if waiting_size >= size:
                yield _join(waiting)
                waiting, waiting_size = [], 0
    if waiting:
        yield _join(waiting)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _row_batch(batch: pa.RecordBatch, used: dict[str, str]) -> pa.RecordBatch:
    fields = [ROW.field(role) for role in used]
    arrays = [_cast(batch.column(name), ROW.field(role).type, role, name) for role, name in used.items()]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _cast(array: pa.Array, kind: pa.DataType, role: str, name: str) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    try:
        if role == "timestamp" and not pa.types.is_integer(array.type):
            array = array.cast(options=pc.CastOptions(pa.timestamp("ms"), allow_time_truncate=True))
        return array.cast(options=pc.CastOptions(kind, allow_int_overflow=role == "partition"))
    except pa.ArrowInvalid as error:
        raise SerializationError(f"column {name!r} ({role}, {array.type}) cannot be converted: {error}") from error
