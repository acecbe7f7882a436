"""Reads and writes Avro schemas and values with fastavro, without a registry. The serializers and levada.formats share this code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from math import inf
from typing import Any

from levada.base.text import as_text

try:
    import fastavro
    from fastavro import _read_py
except ImportError as missing:
    raise ImportError("Avro needs fastavro: pip install 'levada[avro]'") from missing

Parsed = Any
"""A schema in the form that fastavro's parser returns."""

MOST_EMPTY_PARTS = 1 << 16
EMPTY_PARTS_PER_BYTE = 4
"""The limit for the empty parts of one value: MOST_EMPTY_PARTS, plus EMPTY_PARTS_PER_BYTE for each byte of the value.

An empty part takes no bytes: a null, a fixed of size 0, and a record, because only its fields take bytes. Without a limit, ten bytes could
encode an array of 2**63 empty parts, and a record that takes a byte could have as many empty parts as its schema has fields.
"""
MOST_FIELDS = 100_000
"""The limit for the fields of a schema, counted as if every use of a record repeated its fields. Thirty small records can reach 2**30."""
RECORDS = ("record", "error")
NAMED = (*RECORDS, "enum", "fixed")
SCHEMA_ERRORS = (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, ValueError, KeyError, TypeError, RecursionError)
"""The exceptions that json and fastavro raise for a schema that they cannot read."""
MOST_DECIMAL_BYTES = 4096
"""The largest size of a decimal in bytes. Decoding takes time proportional to the square of the size: 295 s for a megabyte."""
_WIDTHS = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_LONGEST_LONG_BITS = 70
WRITE_ERRORS = (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError)
"""The exceptions that fastavro raises for a value that does not fit its schema."""


def document(text: str) -> Any:
    """Return the JSON document of a schema, whose text may also be a bare name, such as long. Raises ValueError for other text."""
    try:
        return json.loads(text)
    except ValueError:
        # Not JSON, but a registry may return the name of a primitive type without quotes.
        if text.strip().isidentifier():
            return text.strip()
        raise


def parse(documents: Iterable[Any], names: dict[str, Any] | None = None) -> Parsed:
    """Parse a schema. documents: the schemas that it references, then the schema itself.

    names: fastavro adds the named types of all documents to this dict. Raises one of SCHEMA_ERRORS.
    """
    known: dict[str, Any] = {} if names is None else names
    parsed: Parsed = None
    for one in documents:
        parsed = fastavro.parse_schema(one, named_schemas=known)
    if isinstance(parsed, list | str):
        # fastavro stores the named types of a schema in its record. A union cannot store them, so write out their definitions in the union.
        parsed = fastavro.parse_schema(spelt_out(parsed, known, set()))
    for one in known.values():
        # fastavro accepts any size. With a negative size, its reader would move backwards in the data.
        if kind_of(one) == "fixed" and (type(one["size"]) is not int or one["size"] < 0):
            raise ValueError(f"fixed '{one['name']}' has no valid size: {one['size']!r}")
    if (count := _fields(parsed, known, {})) > MOST_FIELDS:
        raise ValueError(f"it expands to {count} fields; at most {MOST_FIELDS} are supported")
    return parsed


def _fields(schema: Parsed, names: Mapping[str, Any], known: dict[str, int]) -> int:
    """Count the fields and union branches of a schema. known: the counts of records, by name. A record inside itself counts 0."""
    if isinstance(schema, list):
        return sum(_fields(branch, names, known) for branch in schema)
    schema = names.get(schema, schema) if isinstance(schema, str) else schema
    kind = kind_of(schema)
    if kind in ("array", "map"):
        return 1 + _fields(schema["items" if kind == "array" else "values"], names, known)
    if kind not in RECORDS:
        return 1
    if schema["name"] not in known:
        known[schema["name"]] = 0
        known[schema["name"]] = 1 + sum(_fields(inner["type"], names, known) for inner in schema["fields"])
    return known[schema["name"]]


def spelt_out(schema: Any, names: Mapping[str, Any], defined: set[str]) -> Any:
    """Return a parsed schema that contains the definitions of all its named types, each at the first use of the type.

    defined: the names of the types that are defined so far.
    """
    if isinstance(schema, list):
        return [spelt_out(branch, names, defined) for branch in schema]
    if isinstance(schema, str):
        return schema if schema in defined or schema not in names else spelt_out(names[schema], names, defined)
    kind = kind_of(schema)
    if kind in NAMED:
        defined.add(schema["name"])
    if kind in RECORDS:
        fields = [field | {"type": spelt_out(field["type"], names, defined)} for field in schema["fields"]]
        return schema | {"fields": fields}
    inner = {"array": "items", "map": "values"}.get(kind)
    return schema | {inner: spelt_out(schema[inner], names, defined)} if inner else schema


def write_value(before: bytes, parsed: Parsed, value: Any) -> bytes:
    """Return the bytes `before` followed by a value in Avro. Raises one of WRITE_ERRORS if the value does not match the schema."""
    out = BytesIO(before)
    out.seek(len(before))
    fastavro.schemaless_writer(out, parsed, value)
    return out.getvalue()


def fits(value: Any, parsed: Parsed) -> bool:
    """Whether a value can be written by a schema."""
    return bool(fastavro.validate(value, parsed, raise_errors=False))


class ValueReader:
    """Reads values that were written with one schema.

    writer: the writer's schema. names: its named types. reader: the reader's schema, to which values are resolved; None for the writer's
    schema. names_branches: whether to return (type name, value) for a value of a named type in a union.
    """

    def __init__(self, writer: Parsed, names: Mapping[str, Any], reader: Parsed = None, *, names_branches: bool = False) -> None:
        self._writer = writer
        self._names = names
        self._reader = reader
        self._names_branches = names_branches
        # If a record contains itself, the depth of a value is limited only by its size. A deep value makes fastavro's C code overflow the
        # stack, which ends the process. fastavro's Python code raises RecursionError, but is many times slower.
        is_recursive = contains_itself(writer, names)
        self._read = _read_py.schemaless_reader if is_recursive else fastavro.schemaless_reader
        of_records: dict[str, float] = {}
        surplus = _surplus(writer, names, of_records)
        self._counts_empty_parts = surplus > MOST_EMPTY_PARTS or (is_recursive and max(of_records.values()) > 0)
        self._of_empty: dict[str, int] = {}
        for name in names if self._counts_empty_parts else ():
            _empty_parts(name, names, self._of_empty)

    def __call__(self, data: bytes, begin: int) -> Any:
        """Read the value in data[begin:].

        Raises an exception of any type if the bytes are not a value of the schema, and LeftOverError if bytes remain after the value.
        """
        if self._counts_empty_parts:
            _EmptyParts(data, self._names, self._of_empty).skip(self._writer, begin)
        # fastavro does not notice that the data end within a field that it skips. With one byte more, it is then after the data.
        source = BytesIO(data + b"\0")
        source.seek(begin)
        try:
            value = self._read(source, self._writer, self._reader, return_named_type=self._names_branches)
        except Exception as fault:
            if source.tell() > len(data):
                raise EOFError("the data end within the value") from fault
            raise
        if source.tell() > len(data):
            raise EOFError("the data end within the value")
        if left := len(data) - source.tell():
            raise LeftOverError(left)
        return value


def _surplus(schema: Parsed, names: Mapping[str, Any], known: dict[str, float]) -> float:
    """Return how many empty parts a value can have beyond EMPTY_PARTS_PER_BYTE for each of its bytes. inf if there is no limit.

    There is no limit if the items of an array or a map have more empty parts than their bytes allow; other items are ignored. known: the
    results for records, by name. While a record is being computed, its entry is 0, which is right if no record of the schema exceeds 0.
    """
    if isinstance(schema, list):
        return max((_surplus(branch, names, known) for branch in schema), default=0) - EMPTY_PARTS_PER_BYTE
    schema = names.get(schema, schema) if isinstance(schema, str) else schema
    kind = kind_of(schema)
    if kind in RECORDS:
        if schema["name"] not in known:
            known[schema["name"]] = 0
            known[schema["name"]] = 1 + sum(_surplus(inner["type"], names, known) for inner in schema["fields"])
        return known[schema["name"]]
    if kind in ("array", "map"):
        of_key = EMPTY_PARTS_PER_BYTE if kind == "map" else 0
        of_item = _surplus(schema["values" if kind == "map" else "items"], names, known) - of_key
        return inf if of_item > 0 else -EMPTY_PARTS_PER_BYTE
    least = schema["size"] if kind == "fixed" else _WIDTHS.get(kind, 1)
    return -EMPTY_PARTS_PER_BYTE * least if least else 1


def _empty_parts(schema: Parsed, names: Mapping[str, Any], known: dict[str, int]) -> int:
    """Return how many empty parts a value of a type has, if the value takes no bytes; otherwise 0. known: results for records, by name."""
    if isinstance(schema, list):
        return 0
    schema = names.get(schema, schema) if isinstance(schema, str) else schema
    kind = kind_of(schema)
    if kind not in RECORDS:
        return int(kind == "null" or (kind == "fixed" and schema["size"] == 0))
    if schema["name"] not in known:
        known[schema["name"]] = 0
        of_fields = [_empty_parts(inner["type"], names, known) for inner in schema["fields"]]
        known[schema["name"]] = 1 + sum(of_fields) if all(of_fields) else 0
    return known[schema["name"]]


class _EmptyParts:
    """Counts the empty parts of one value, before fastavro makes an object for each of them.

    known: by record name, the number of empty parts of records that take no bytes.
    """

    def __init__(self, data: bytes, names: Mapping[str, Any], known: dict[str, int]) -> None:
        self._data = data
        self._names = names
        self._known = known
        self._most = MOST_EMPTY_PARTS + EMPTY_PARTS_PER_BYTE * len(data)
        self._count = 0

    def skip(self, schema: Parsed, at: int) -> int:
        """Return the position after the value at `at`. Raises ValueError if it has too many empty parts, or the data are too short."""
        if at > len(self._data):
            raise ValueError("the data end within the value")
        if isinstance(schema, list):
            branch, at = self._long(at)
            if not 0 <= branch < len(schema):
                raise ValueError(f"a union has no branch {branch}")
            return self.skip(schema[branch], at)
        schema = self._names.get(schema, schema) if isinstance(schema, str) else schema
        kind = kind_of(schema)
        if kind in RECORDS:
            return self._skip_record(schema, at)
        if kind in ("array", "map"):
            return self._skip_blocks(schema, kind, at)
        if kind in ("bytes", "string"):
            return self._skip_bytes(at)
        if kind in ("int", "long", "enum"):
            return self._long(at)[1]
        size = int(schema["size"] if kind == "fixed" else _WIDTHS[kind])
        if size == 0:
            self._add(1)
        return at + size

    def _skip_record(self, schema: Parsed, at: int) -> int:
        of_empty = self._known[schema["name"]]
        self._add(of_empty or 1)
        if not of_empty:
            for inner in schema["fields"]:
                at = self.skip(inner["type"], at)
        return at

    def _skip_blocks(self, schema: Parsed, kind: str, at: int) -> int:
        is_map = kind == "map"
        of_item = schema["values" if is_map else "items"]
        of_empty = 0 if is_map else _empty_parts(of_item, self._names, self._known)
        while True:
            count, at = self._long(at)
            if count == 0:
                return at
            if count < 0:
                count, (_, at) = -count, self._long(at)
            if of_empty:
                self._add(count * of_empty)
                continue
            for _ in range(count):
                at = self.skip(of_item, self._skip_bytes(at) if is_map else at)

    def _add(self, count: int) -> None:
        self._count += count
        if self._count > self._most:
            raise ValueError(
                f"it has {self._count} parts that take no bytes, such as nulls; at most {self._most} are allowed in {len(self._data)} bytes"
            )

    def _skip_bytes(self, at: int) -> int:
        size, at = self._long(at)
        if not 0 <= size <= len(self._data) - at:
            raise ValueError(f"{size} bytes are announced, {len(self._data) - at} are left")
        return at + size

    def _long(self, at: int) -> tuple[int, int]:
        raw = shift = 0
        while at < len(self._data) and shift < _LONGEST_LONG_BITS:
            byte = self._data[at]
            raw |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return raw >> 1 ^ -(raw & 1), at
        raise ValueError("the data end within a number, or it is too long")


def contains_itself(schema: Parsed, names: Mapping[str, Any]) -> bool:
    """Whether a record of a parsed schema contains itself, directly or indirectly. names: the schema's named types."""
    return _contains(schema, names, (), set())


def _contains(schema: Any, names: Mapping[str, Any], within: tuple[str, ...], seen: set[str]) -> bool:
    """Whether a type contains a record of `within`, or one that contains itself. within: the records around it. seen: those checked."""
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
    """Return the name of the Avro type: record, enum, long ..."""
    return str(schema["type"] if isinstance(schema, dict) else schema)


def convert_when_read(avro_type: str, logical_type: str, convert: Callable[[Any, Any, Any], Any]) -> None:
    """Make fastavro call convert(value, writer's type, reader's type or None) when it reads a logical type, in the whole process."""
    fastavro.read.LOGICAL_READERS[f"{avro_type}-{logical_type}"] = convert


def _bounded(read: Callable[..., Any]) -> Callable[[Any, Any, Any], Any]:
    def convert(data: bytes, writer: Any, reader: Any = None) -> Any:
        if len(data) > MOST_DECIMAL_BYTES:
            raise ValueError(f"a decimal has {len(data)} bytes; at most {MOST_DECIMAL_BYTES} are supported")
        return read(data, writer, reader)

    return convert


for _type in ("bytes", "fixed"):
    convert_when_read(_type, "decimal", _bounded(fastavro.read.LOGICAL_READERS[f"{_type}-decimal"]))


class LeftOverError(ValueError):
    """Bytes remain after the value, so the value was written with another schema. count: the number of these bytes."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} bytes are left over")
        self.count = count


def is_plain_bytes(parsed: Parsed) -> bool:
    """Whether a schema is just "bytes". Confluent's serializers write a value of this schema without Avro's length prefix."""
    return parsed == "bytes" or (isinstance(parsed, dict) and parsed.get("type") == "bytes" and "logicalType" not in parsed)


def with_length(data: bytes) -> bytes:
    """Return bytes with Avro's length prefix, so that fastavro can resolve them to a reader's schema."""
    return write_value(b"", "bytes", data)


def told(fault: Exception) -> str:
    """Return the class and the text of an error of fastavro. The text alone is often empty, or only the name of a key."""
    text = as_text(fault)
    if isinstance(fault, fastavro.schema.UnknownType):
        text += ", which neither the schema nor its references define"
    return f"{type(fault).__name__}: {text}" if text else type(fault).__name__
