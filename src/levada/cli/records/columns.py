"""Reads columns from parquet and Arrow files, for `produce`, and converts rows of columns to JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from levada.cli.exits import CommandError, Exit
from levada.cli.output import json_string, json_text
from levada.cli.records.json_records import from_bytes

STDIN = "-"
_ARROW_FILE = b"ARROW1"
"""The first bytes of an Arrow file. An Arrow stream does not begin with them."""


def rows_as_json(batch: Any) -> list[str]:
    """Return each row as a JSON object. Times become milliseconds since the epoch; bytes see from_bytes()."""
    row = "{" + ",".join(json_string(name).replace("%", "%%") + ":%s" for name in batch.schema.names) + "}"
    return [row % texts for texts in zip(*(_json_texts(column) for column in batch.columns), strict=True)]


def _json_texts(column: Any) -> Sequence[str]:
    """Return each value of a column as JSON. Columns of records have short ways, as scans write millions of rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        texts = _json_texts(column.dictionary)
        return ["null" if index is None else texts[index] for index in column.indices.to_pylist()]
    if pa.types.is_timestamp(kind):
        return _json_texts(column.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64()))
    if pa.types.is_integer(kind):
        return list(pc.fill_null(column.cast(pa.string()), "null").to_pylist())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        try:
            column = column.cast(pa.large_string())
        except pa.ArrowInvalid:
            return [json_text(from_bytes(value)) for value in column.to_pylist()]
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return ["null" if text is None else json_string(text) for text in column.to_pylist()]
    if pa.types.is_list(kind) and not column.null_count and not pc.any(pc.greater(pc.list_value_length(column), 0)).as_py():
        return ["[]"] * len(column)
    return [json_text(_as_json(value)) for value in column.to_pylist()]


def _as_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _as_json(one) for name, one in value.items()}
    return [_as_json(one) for one in value] if isinstance(value, list) else from_bytes(value)


_FILES = "parquet and Arrow files"


def check_pyarrow(what: str = _FILES) -> None:
    """Raise ImportError, with the command to install it, if pyarrow is missing. what: what needs pyarrow, as a plural noun."""
    with _importing(what):
        import pyarrow  # noqa: F401


def column_batches(path: str, format: str) -> Iterator[Any]:
    """Yield the Arrow batches of a parquet or Arrow file. path: "-" is stdin. Raises CommandError if the file is neither."""
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
        raise CommandError(f"{where}: this cannot be read as {format}: {fault}", Exit.FAILED) from None


def _arrow_batches(pa: Any, file: Any) -> Iterator[Any]:
    try:
        reader = pa.ipc.open_file(file)
    except pa.ArrowInvalid:
        file.seek(0)
        yield from pa.ipc.open_stream(file)
        return
    for number in range(reader.num_record_batches):
        yield reader.get_batch(number)


def with_constant(batch: Any, name: str, value: Any) -> Any:
    """Return the rows with an added column in which every row has the same value. It replaces a column of the same name."""
    import pyarrow as pa

    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])) if name == "headers" else None
    made = [{"key": header, "value": content} for header, content in value] if name == "headers" else value
    column = pa.array([made], kind).take(pa.array([0] * batch.num_rows, pa.int32()))
    table = pa.Table.from_batches([batch])
    kept = table.drop_columns([name]) if name in table.column_names else table
    return kept.append_column(name, column)


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
