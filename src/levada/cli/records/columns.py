"""Reads columns from lines, and from parquet and Arrow files, for `produce`; converts rows of columns to JSON."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from levada.cli.exits import CommandError
from levada.cli.output import json_strings, json_text, plain
from levada.cli.records.input_records import Nulls, whole_number
from levada.cli.records.json_records import FIELDS, headers_of, parse_lines, to_bytes
from levada.types import Headers

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
    if pa.types.is_list(kind) and not column.null_count and not pc.max(pc.list_value_length(column)).as_py():
        return pa.repeat(pa.scalar("[]", text), len(column))
    return pa.array([json_text(_as_json(value)) for value in column.to_pylist()], text)


def _quoted(column: Any) -> Any:
    """Return an array with each value of a large_string column as JSON."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pc.all(pc.ascii_is_printable(column)).as_py():
        return pa.array(json_strings(column.to_pylist()), column.type)
    together = bytes_of(column)
    for special in ("\\", '"'):
        if special.encode() in together:
            column = pc.replace_substring(column, special, "\\" + special)
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


def columns_of_lines(block: bytes, delimiter: bytes, key_delimiter: bytes | None, nulls: Nulls) -> Any:
    """Return the records of lines() as columns: `value`, and with a key delimiter `key`; None if lines() raises an error."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # pa.array() would import pandas where it is installed, and that takes longer than to send a hundred thousand lines.
    whole = pa.Array.from_buffers(pa.large_binary(), 1, [None, pa.py_buffer(array("q", (0, len(block)))), pa.py_buffer(block)])
    values = pc.split_pattern(whole, pattern=delimiter).flatten()
    if key_delimiter is None:
        return pa.record_batch([_with_nulls(values, nulls)], ["value"])
    pairs = pc.split_pattern(values, pattern=key_delimiter, max_splits=1)
    if pc.min(pc.list_value_length(pairs)).as_py() == 1:
        return None
    return pa.record_batch([_with_nulls(pc.list_element(pairs, place), nulls) for place in (0, 1)], ["key", "value"])


REFUSED_TIMESTAMP = 2**63 - 1
"""The only timestamp in 64 bits that send() refuses, beside negative ones. send_arrow() leaves it to the broker."""
_OF_RECORDS = ("key", "value", "headers", "timestamp", "partition")


def columns_of_json(block: bytes, headers: Headers) -> Any:
    """Return the records of json_lines() as columns; None if json_lines() has to read them, because it skips a line or raises an error.

    headers: are added to those of each record. Columns other than `value` in which no record has anything are left out. None is also
    returned for timestamps and partitions that send() refuses.
    """
    batch = _parsed_by_arrow(block)
    if batch is None and (objects := parse_lines(block)) is not None:
        try:
            batch = _columns_of_objects(objects, headers)
        except (ValueError, OverflowError, RecursionError):
            return None
    if batch is None or any(_has_refused(batch.column(name)) for name in ("timestamp", "partition")):
        return None
    return batch.select([name for name in _OF_RECORDS if name == "value" or batch.column(name).null_count < batch.num_rows])


def _has_refused(numbers: Any) -> bool:
    import pyarrow.compute as pc

    least, most = pc.min_max(numbers).as_py().values()
    return least is not None and (least < 0 or most == REFUSED_TIMESTAMP)


def _parsed_by_arrow(block: bytes) -> Any:
    """Return columns of records without headers, several times as fast as parse_lines().

    None for what json_lines() raises an error for or reads differently: keys and values other than text and null, and numbers as text.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.json as pj

    # Each line begins and ends with a brace, so none is a part of an object. If there are as many rows as lines, each has one.
    lines_end = block.count(b"\n")
    if not (block.startswith(b"{") and block.endswith(b"}") and block.count(b"}\n{") == lines_end):
        return None
    parsing = pj.ParseOptions(explicit_schema=_json_schema(), unexpected_field_behavior="error")
    try:
        table = pj.read_json(pa.BufferReader(block), pj.ReadOptions(use_threads=False, block_size=len(block) + 1), parsing)
        # Not all of it may be UTF-8.
        table.validate(full=True)
    except (pa.ArrowInvalid, OverflowError):
        return None
    [batch] = table.to_batches()
    if batch.num_rows != lines_end + 1 or pc.max(pc.list_value_length(batch.column("headers"))).as_py():
        return None
    timestamp, integer = batch.column("timestamp"), pa.int64()
    columns = {name: batch.column(name).cast(pa.binary()) for name in ("key", "value")}
    columns["partition"] = batch.column("partition")
    columns["timestamp"] = pc.if_else(pc.equal(timestamp, pa.scalar(-1, integer)), pa.scalar(None, integer), timestamp)
    columns["headers"] = pa.nulls(batch.num_rows)
    return pa.record_batch(columns)


@cache
def _json_schema() -> Any:
    import pyarrow as pa

    kinds = {"partition": pa.int64(), "offset": pa.int64(), "timestamp": pa.int64(), "headers": pa.list_(pa.null())}
    return pa.schema([(name, kinds.get(name, pa.string())) for name in FIELDS])


def _columns_of_objects(objects: Sequence[Mapping[str, Any]], headers: Headers) -> Any:
    """Return columns of the fields of records. headers: are added to those of each record. Raises ValueError and OverflowError."""
    import pyarrow as pa

    def given(name: str) -> list[Any]:
        return [fields.get(name) for fields in objects]

    columns = {name: pa.array(_all_bytes(given(name)), pa.large_binary()) for name in ("key", "value")}
    for name in ("partition", "timestamp"):
        columns[name] = pa.array([whole_number(fields, name) for fields in objects], pa.int64())
    own = [headers_of(some) for some in given("headers")]
    columns["headers"] = pa.array([[*some, *headers] for some in own], _header_type()) if any(own) else pa.nulls(len(own))
    return pa.record_batch(columns)


def _all_bytes(data: list[Any]) -> list[Any]:
    """Return to_bytes() of each one. Texts are left to Arrow, which encodes them faster."""
    return data if {str, type(None)}.issuperset(map(type, data)) else [to_bytes(one) for one in data]


def with_default(batch: Any, name: str, value: Any) -> Any:
    """Return the rows with this value where the column is null. Raises CommandError for a column of another kind."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column, default = batch.column(name), pa.scalar(value)
    if isinstance(value, int) and not (pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
        raise CommandError(f"the column {name} is {column.type}, which --{name} cannot fill; give integers")
    # Beyond 63 bits, an unsigned partition becomes a negative one, which send_arrow() refuses as well.
    filled = pc.fill_null(column.cast(default.type, safe=False), default)
    return batch.set_column(batch.schema.get_field_index(name), name, filled)


def _with_nulls(column: Any, nulls: Nulls) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    for text in [b""] * nulls.empty + [nulls.marker] * (nulls.marker is not None):
        column = pc.if_else(pc.equal(column, pa.scalar(text, column.type)), pa.scalar(None, column.type), column)
    return column


def with_constant(batch: Any, name: str, value: Any) -> Any:
    """Return the rows with an added column in which every row has the same value. It replaces a column of the same name."""
    import pyarrow as pa

    kind = _header_type() if name == "headers" else None
    made = [{"key": header, "value": content} for header, content in value] if name == "headers" else value
    column = pa.array([made], kind).take(pa.repeat(0, batch.num_rows))
    if name in batch.schema.names:
        return batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch.append_column(name, column)


def _header_type() -> Any:
    import pyarrow as pa

    return pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


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
