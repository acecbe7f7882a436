"""Converts Arrow data of any kind into pieces of rows with the one schema that the encoder reads.

The schema is ROW: 64-bit offsets everywhere, timestamps in ms, headers as a list of (key, value). A type that can become bytes in several
ways, such as an int key, is an error: a silent choice would lead to wrong partitions, noticed much later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from levada.errors import SerializationError
from levada.record.columnar import layouts

ROW = pa.schema(
    [
        ("key", pa.large_binary()),
        ("value", pa.large_binary()),
        ("timestamp", pa.int64()),
        ("partition", pa.int64()),
        ("headers", pa.large_list(layouts.HEADER)),
    ]
)
# The most rows that are converted together, because each takes memory.
_WINDOW_ROWS = 65_536
_SIZES = "sizes"


def open_reader(data: Any) -> pa.RecordBatchReader:
    """Return a reader of any data that has Arrow's C data or stream interface.

    Raises SerializationError for other data, and for data that is not a table with named columns.
    """
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, (pa.Table, pa.RecordBatchReader)):
        return data.to_reader() if isinstance(data, pa.Table) else data
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        if hasattr(data, "__arrow_c_array__"):
            return open_reader(pa.record_batch(data))
    except pa.ArrowException as error:
        raise SerializationError(f"{type(data).__name__} cannot be read as a table with named columns: {error}") from error
    raise SerializationError(f"{type(data).__name__} is no Arrow data (it has no __arrow_c_stream__): {_way_to_arrow(data)}")


def _way_to_arrow(data: Any) -> str:
    if hasattr(data, "collect"):
        return "collect() it first"
    if isinstance(data, list):
        return "make it a table with pyarrow.Table.from_pylist(rows)"
    return "make it a table with pyarrow.table({'value': [...]})"


def check_columns(columns: pa.Schema, used: dict[str, str]) -> None:
    """Raise SerializationError if a column is missing or ambiguous, or has a type that its role cannot take or pyarrow cannot convert.

    used: column names by role.
    """
    for role, name in used.items():
        at = columns.get_all_field_indices(name)
        if len(at) != 1:
            fault = "there is no such column" if not at else f"{len(at)} columns have this name"
            raise SerializationError(f"column {name!r} ({role}): {fault}; there are: {', '.join(columns.names)}")
        kind = columns.field(at[0]).type
        if not _ACCEPTS[role](kind):
            raise SerializationError(f"column {name!r} ({role}) is {kind}; {_WANTED[role]}")
        try:
            _try_out(role, layouts.storage_type(kind))
        except pa.ArrowNotImplementedError as error:
            fault = f"pyarrow {pa.__version__} cannot convert this, newer versions may: {error}"
            raise SerializationError(f"column {name!r} ({role}) is {kind}; {fault}") from error


@lru_cache
def _try_out(role: str, kind: pa.DataType) -> None:
    """Convert an empty array of a type. Raises pa.ArrowNotImplementedError if pyarrow cannot.

    Successes are kept, because a trial takes as long as converting a small batch. kind: no extension type: those of users may have no hash.
    """
    _LAST[role](_FIRST[role](pa.nulls(0, kind)))


def _is_binary(kind: pa.DataType) -> bool:
    is_ = pa.types
    kind = layouts.value_type(kind)
    tests = (is_.is_binary, is_.is_string, is_.is_large_binary, is_.is_large_string, is_.is_binary_view, is_.is_string_view)
    return any(test(kind) for test in (*tests, is_.is_fixed_size_binary, is_.is_null))


def _is_time(kind: pa.DataType) -> bool:
    is_ = pa.types
    kind = layouts.value_type(kind)
    return any(test(kind) for test in (is_.is_timestamp, is_.is_date, is_.is_integer, is_.is_null))


def _is_number(kind: pa.DataType) -> bool:
    kind = layouts.value_type(kind)
    return bool(pa.types.is_integer(kind) or pa.types.is_null(kind))


def _is_headers(kind: pa.DataType) -> bool:
    fields = layouts.parts_of_headers(kind)
    if fields is None:
        return bool(pa.types.is_null(layouts.value_type(kind)))
    return set(fields) == {"key", "value"} and all(_is_binary(field) for field in fields.values())


_ACCEPTS: dict[str, Callable[[pa.DataType], bool]] = {
    "key": _is_binary,
    "value": _is_binary,
    "timestamp": _is_time,
    "partition": _is_number,
    "headers": _is_headers,
}
_BYTES_WANTED = "give binary or string; convert other types to bytes yourself, for example with a cast"
_WANTED = {
    "key": _BYTES_WANTED,
    "value": _BYTES_WANTED,
    "timestamp": "give a timestamp, a date, or integer milliseconds since the epoch",
    "partition": "give integers; with missing ones pandas makes floats of them, unless they are of type Int32",
    "headers": "give list<struct<key: string, value: binary>> or map<string, binary>",
}


def _as_it_is(array: pa.Array) -> pa.Array:
    return array


# A column is converted in two steps: first as far as it does not become much larger, then, piece by piece, to its type in ROW.
_FIRST: dict[str, Callable[[pa.Array], pa.Array]] = {
    "key": layouts.compact,
    "value": layouts.compact,
    "timestamp": layouts.to_milliseconds,
    "partition": layouts.to_int64,
    "headers": layouts.to_headers,
}
_LAST: dict[str, Callable[[pa.Array], pa.Array]] = {
    "key": layouts.to_binary,
    "value": layouts.to_binary,
    "timestamp": _as_it_is,
    "partition": _as_it_is,
    "headers": _as_it_is,
}


def read(reader: pa.RecordBatchReader, user_code: Callable[[], AbstractContextManager[object]]) -> Iterator[pa.RecordBatch]:
    """Yield the reader's batches. user_code: makes a context that is entered for each read, because reading may run code of the user."""
    while True:
        with user_code():
            batch = next(reader, None)
        if batch is None:
            return
        yield batch


def pieces(batches: Iterator[pa.RecordBatch], used: dict[str, str], size: int) -> Iterator[pa.RecordBatch]:
    """Divide and join batches into pieces of about `size` bytes, whose columns have the names and types of ROW.

    used: column names by role.
    """
    waiting: list[pa.RecordBatch] = []
    waiting_size = 0
    for batch in batches:
        for start in range(0, batch.num_rows, _WINDOW_ROWS):
            for part in _cut(_window(batch.slice(start, _WINDOW_ROWS), used), size):
                waiting.append(_row_batch(part, used))
                waiting_size += waiting[-1].nbytes
                if 2 * waiting_size >= size:
                    yield _join(waiting)
                    waiting, waiting_size = [], 0
    if waiting:
        yield _join(waiting)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) > 1:
        # Not pa.concat_batches(), which came with pyarrow 19.
        batches = pa.Table.from_batches(batches).combine_chunks().to_batches()
    (joined,) = batches
    return joined


def _window(batch: pa.RecordBatch, used: dict[str, str]) -> pa.RecordBatch:
    """Return the used columns after their first conversion, and a column with the bytes of each row in the columns that share bytes."""
    columns = {role: _FIRST[role](batch.column(name)) for role, name in used.items()}
    sizes = [layouts.row_sizes(column) for column in columns.values() if layouts.shares_bytes(column)]
    if sizes:
        columns[_SIZES] = sizes[0] if len(sizes) == 1 else pc.add(*sizes)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _cut(window: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Halve a window until each part takes `size` bytes at most, or is a single row."""
    if window.num_rows < 2 or _written_size(window) <= size:
        yield window
        return
    half = window.num_rows // 2
    yield from _cut(window.slice(0, half), size)
    yield from _cut(window.slice(half), size)


def _written_size(window: pa.RecordBatch) -> int:
    size: int = sum(column.nbytes for column in window.columns if not layouts.shares_bytes(column))
    if _SIZES in window.schema.names:
        size += pc.sum(window.column(_SIZES)).as_py()
    return size


def _row_batch(part: pa.RecordBatch, used: dict[str, str]) -> pa.RecordBatch:
    arrays = [_LAST[role](part.column(role)) for role in used]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([ROW.field(role) for role in used]))
