"""Reads columns from lines, and from parquet and Arrow files, for `produce`; converts rows of columns to JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from levada.cli.exits import CommandError
from levada.cli.output import json_strings, json_text, plain
from levada.cli.records.input_records import InputError, Nulls, no_key

STDIN = "-"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ARROW_FILE = b"ARROW1"
"""The first bytes of an Arrow file. An Arrow stream does not begin with them."""


def rows_as_json(batch: Any, end: str = "") -> Any:
    """Return an array with each row as a JSON object, followed by `end`; an empty array if there are no columns.

    Timestamps become milliseconds since the epoch; one without a time zone counts as UTC. Bytes become what plain() returns. Dates and
    times of day become ISO 8601.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pa.large_string()
    parts: list[Any] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        parts += [pa.scalar(("," if parts else "{") + json_text(name) + ":", text), _as_json_texts(column)]
    if not parts:
        return pa.array([], text)
    return pc.binary_join_element_wise(*parts, pa.scalar("}" + end, text), pa.scalar("", text))


def as_values(batch: Any) -> Any:
    """Return the rows as a column `value` of JSON objects."""
    import pyarrow as pa

    return pa.record_batch([rows_as_json(batch)], ["value"])


def _as_json_texts(column: Any) -> Any:
    """Return an array with each value of a column as JSON. Arrow converts the types that columns of records have."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, text = column.type, pa.large_string()
    if pa.types.is_dictionary(kind):
        return pc.fill_null(_as_json_texts(column.dictionary).take(column.indices), "null")
    if pa.types.is_timestamp(kind):
        return _as_json_texts(column.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64()))
    if pa.types.is_integer(kind):
        return pc.fill_null(column.cast(text), "null")
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        try:
            return _quoted(column.cast(text))
        except pa.ArrowInvalid:
            # Not all of it is UTF-8.
            return pa.array([json_text(plain(value)) for value in column.to_pylist()], text)
    if pa.types.is_list(kind) and not column.null_count and not pc.any(pc.greater(pc.list_value_length(column), 0)).as_py():
        return pa.repeat(pa.scalar("[]", text), len(column))
    return pa.array([json_text(_as_json(value)) for value in column.to_pylist()], text)


def _quoted(column: Any) -> Any:
    """Return an array with each value of a large_string column as JSON."""
    import pyarrow as pa
    import pyarrow.compute as pc

    together = bytes_of(column)
    if b'"' in together or b"\\" in together or not pc.all(pc.ascii_is_printable(column)).as_py():
        return pa.array(json_strings(column.to_pylist()), column.type)
    quote = pa.scalar('"', column.type)
    return pc.fill_null(pc.binary_join_element_wise(quote, column, quote, pa.scalar("", column.type)), "null")


def bytes_of(column: Any) -> bytes:
    """Return the bytes of all values of a large_string column."""
    _, offsets, data = column.buffers()
    if not len(column) or data is None:
        return b""
    begins = memoryview(offsets).cast("q")
    begin, end = begins[column.offset], begins[column.offset + len(column)]
    return bytes(data.slice(begin, end - begin))


def _as_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _as_json(one) for name, one in value.items()}
    if isinstance(value, datetime):
        return (value.replace(tzinfo=value.tzinfo or UTC) - _EPOCH) // timedelta(milliseconds=1)
    return [_as_json(one) for one in value] if isinstance(value, list) else plain(value)


_FILES = "parquet and Arrow files"


def check_pyarrow(what: str = _FILES) -> None:
    """Raise ImportError, with the command to install it, if pyarrow is missing. what: what needs pyarrow, as a plural noun."""
    with _importing(what):
        import pyarrow  # noqa: F401


def column_batches(path: str, format: str) -> Iterator[Any]:
    """Yield the Arrow batches of a file. path: "-" is stdin. format: "parquet", or "arrow" for an Arrow file or stream.

    Raises CommandError if the file cannot be read in that format, and OSError if it cannot be opened.
    """
    with _importing():
        import pyarrow as pa
        import pyarrow.parquet as pq
    try:
        stdin: Any = sys.stdin.buffer
        if path == STDIN and format == "arrow" and not stdin.peek(len(_ARROW_FILE)).startswith(_ARROW_FILE):
            # Unlike a file, a stream can be read before its end has arrived.
            yield from pa.ipc.open_stream(stdin)
            return
        # The index of these formats is at their end, so a pipe must be read to its end before the first row.
        with pa.BufferReader(stdin.read()) if path == STDIN else pa.memory_map(path) as file:
            yield from pq.ParquetFile(file).iter_batches() if format == "parquet" else _arrow_batches(pa, file)
    except pa.ArrowInvalid as fault:
        where = "stdin" if path == STDIN else path
        raise CommandError(f"{where}: this cannot be read as {format}: {fault}") from None


def _arrow_batches(pa: Any, file: Any) -> Iterator[Any]:
    try:
        reader = pa.ipc.open_file(file)
    except pa.ArrowInvalid:
        file.seek(0)
        yield from pa.ipc.open_stream(file)
        return
    for number in range(reader.num_record_batches):
        yield reader.get_batch(number)


def columns_of_lines(
    block: bytes, first: int, delimiter: bytes, key_delimiter: bytes | None, nulls: Nulls
) -> tuple[Any, InputError | None]:
    """Return the records of lines() as columns: `value`, and with a key delimiter `key`. The arguments are those of lines().

    The columns end before the first line without the key delimiter, and the error that lines() raises for it is returned, too; else None.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    values = pc.split_pattern(pa.array([block], pa.large_binary()), pattern=delimiter).flatten()
    if key_delimiter is None:
        return pa.record_batch([_with_nulls(values, nulls)], ["value"]), None
    pairs = pc.split_pattern(values, pattern=key_delimiter, max_splits=1)
    wrong = pc.index(pc.list_value_length(pairs), 1).as_py()
    whole = pairs if wrong < 0 else pairs.slice(0, wrong)
    columns = [_with_nulls(pc.list_element(whole, place), nulls) for place in (0, 1)]
    return pa.record_batch(columns, ["key", "value"]), None if wrong < 0 else no_key(first + wrong, key_delimiter)


def with_key(batch: Any, key: bytes) -> Any:
    """Return the rows with this key where their key is null."""
    import pyarrow.compute as pc

    place = batch.schema.get_field_index("key")
    return batch.set_column(place, "key", pc.fill_null(batch.column("key"), key))


def _with_nulls(column: Any, nulls: Nulls) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    for text in [b""] * nulls.empty + [nulls.marker] * (nulls.marker is not None):
        column = pc.if_else(pc.equal(column, pa.scalar(text, column.type)), pa.scalar(None, column.type), column)
    return column


def with_constant(batch: Any, name: str, value: Any) -> Any:
    """Return the rows with an added column in which every row has the same value. It replaces a column of the same name."""
    import pyarrow as pa

    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])) if name == "headers" else None
    made = [{"key": header, "value": content} for header, content in value] if name == "headers" else value
    column = pa.array([made], kind).take(pa.array([0] * batch.num_rows, pa.int32()))
    if name in batch.schema.names:
        return batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch.append_column(name, column)


def constant_rows(name: str, value: bytes, rows: int) -> Any:
    """Return an Arrow batch with one column, in which all rows have the same value."""
    with _importing("columns"):
        import pyarrow as pa

    return pa.record_batch([pa.array([value] * rows, pa.binary())], [name])


def bytes_in(columns: Iterable[Any]) -> int:
    """Return the total size in bytes of the values of binary columns."""
    import pyarrow.compute as pc

    return sum(pc.sum(pc.binary_length(column)).as_py() or 0 for column in columns)


@contextmanager
def _importing(what: str = _FILES) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError:
        raise ImportError(f"{what} need pyarrow: pip install 'levada[arrow]'") from None
