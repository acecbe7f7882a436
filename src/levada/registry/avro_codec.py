"""Avro schemas and values through fastavro, without a registry: what the serializers and the Spark connector share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from typing import Any

try:
    import fastavro
    from fastavro import _read_py
except ImportError as missing:
    raise ImportError("Avro needs fastavro: pip install 'levada[avro]'") from missing

Parsed = Any
"""What fastavro makes of a schema."""

RECORDS = ("record", "error")
NAMED = (*RECORDS, "enum", "fixed")
SCHEMA_ERRORS = (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, ValueError, KeyError, TypeError, RecursionError)
"""What json and fastavro raise for a schema that they cannot read."""
WRITE_ERRORS = (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError)
"""What fastavro raises for a value that does not fit its schema."""


def document(text: str) -> Any:
    """Return the JSON document of a schema. Raises ValueError where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        # A registry also gives a primitive type without its quotes.
        if text.strip().isidentifier():
            return text.strip()
        raise


def parse(documents: Iterable[Any], names: dict[str, Any] | None = None) -> Parsed:
    """Parse a schema, the last of `documents`, after those that it uses. names: where fastavro collects the named types of all.

    Raises one of SCHEMA_ERRORS.
    """
    known: dict[str, Any] = {} if names is None else names
    parsed: Parsed = None
    for one in documents:
        parsed = fastavro.parse_schema(one, named_schemas=known)
    if isinstance(parsed, list | str):
        # fastavro keeps what names stand for beside a record that uses them; a union has no place for that.
        parsed = fastavro.parse_schema(_spelt_out(parsed, known, set()))
    return parsed


def _spelt_out(schema: Any, names: Mapping[str, Any], defined: set[str]) -> Any:
    """Return a parsed schema that needs no other: each named type is written out where it comes first."""
    if isinstance(schema, list):
        return [_spelt_out(branch, names, defined) for branch in schema]
    if isinstance(schema, str):
        return schema if schema in defined or schema not in names else _spelt_out(names[schema], names, defined)
    kind = kind_of(schema)
    if kind in NAMED:
        defined.add(schema["name"])
    if kind in RECORDS:
        fields = [field | {"type": _spelt_out(field["type"], names, defined)} for field in schema["fields"]]
        return schema | {"fields": fields}
    inner = {"array": "items", "map": "values"}.get(kind)
    return schema | {inner: _spelt_out(schema[inner], names, defined)} if inner else schema


def write_value(before: bytes, parsed: Parsed, value: Any) -> bytes:
    """Return a value as Avro, after the bytes `before`. Raises one of WRITE_ERRORS where it does not fit the schema."""
    out = BytesIO(before)
    out.seek(len(before))
    fastavro.schemaless_writer(out, parsed, value)
    return out.getvalue()


def read_value(
    data: bytes, begin: int, writer: Parsed, reader: Parsed = None, *, names_branches: bool = False, is_recursive: bool = False
) -> Any:
    """Read the value that takes the bytes from `begin` to the end; reader: the schema to resolve it to, None for the writer's own.

    names_branches: return (name, value) for a value of a named type in a union. is_recursive: the writer's schema contains itself, so that
    values may be nested as deep as they are long. fastavro's C overflows the stack then, which ends the process; its Python, which is many
    times slower, raises RecursionError. Raises an exception of any kind where the bytes are no such value, among them LeftOverError.
    """
    schemaless_reader = _read_py.schemaless_reader if is_recursive else fastavro.schemaless_reader
    source = BytesIO(data)
    source.seek(begin)
    value = schemaless_reader(source, writer, reader, return_named_type=names_branches)
    if left := len(data) - source.tell():
        raise LeftOverError(left)
    return value


def contains_itself(schema: Parsed, names: Mapping[str, Any]) -> bool:
    """Whether a record of a parsed schema contains itself, whatever is between. names: the schema's named types."""
    return _contains(schema, names, (), set())


def _contains(schema: Any, names: Mapping[str, Any], within: tuple[str, ...], seen: set[str]) -> bool:
    """Whether a type contains one of the records around it. seen: records that were looked at, once each."""
    if isinstance(schema, list):
        return any(_contains(branch, names, within, seen) for branch in schema)
    schema = names.get(schema, schema) if isinstance(schema, str) else schema
    kind = kind_of(schema)
    if kind == "array":
        return _contains(schema["items"], names, within, seen)
    if kind == "map":
        return _contains(schema["values"], names, within, seen)
    if kind not in RECORDS or schema["name"] in within:
        return kind in RECORDS
    if schema["name"] in seen:
        return False
    seen.add(schema["name"])
    return any(_contains(inner["type"], names, (*within, schema["name"]), seen) for inner in schema["fields"])


def kind_of(schema: Any) -> str:
    """Return the type's own name: record, enum, long ..."""
    return str(schema["type"] if isinstance(schema, dict) else schema)


def convert_when_read(avro_type: str, logical_type: str, convert: Callable[[Any, Any, Any], Any]) -> None:
    """Have fastavro call convert(value, writer's type, reader's type or None) for a logical type, in this whole process."""
    fastavro.read.LOGICAL_READERS[f"{avro_type}-{logical_type}"] = convert


class LeftOverError(ValueError):
    """More bytes are there than the value takes: it was written with another schema."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} bytes are left over")
        self.count = count


def is_plain_bytes(parsed: Parsed) -> bool:
    """Confluent's serializers write a value of the schema "bytes" as it is, without Avro's length before it."""
    return parsed == "bytes" or (isinstance(parsed, dict) and parsed.get("type") == "bytes" and "logicalType" not in parsed)


def with_length(data: bytes) -> bytes:
    """Return plain bytes as Avro has them, so that they can be resolved to a reader's schema."""
    return write_value(b"", "bytes", data)


def told(fault: Exception) -> str:
    """Return an error of fastavro, whose texts are often empty or only the name of a key."""
    return f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__
