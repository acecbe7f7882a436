"""The Arrow type of a column with an Avro schema.

Every field may be null. Dates and times stay numbers, as in Avro: Arrow accepts the numbers, and Python's own types end with the year 9999.
So that fastavro does not convert them to Python's types, logical types are renamed before fastavro parses a schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from levada.errors import ConfigError
from levada.registry.avro_codec import NAMED, RECORDS, SCHEMA_ERRORS, convert_when_read, document, kind_of, parse, told
from levada.registry.avro_defaults import RENAMED, alternatives, logical_of

_PRIMITIVE: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
"""By Avro type and logical type. Other logical types, except decimal, are ignored."""
_NANOSECONDS: Mapping[str, int] = {
    f"{RENAMED}{place}timestamp-{unit}": factor
    for place in ("", "local-")
    for unit, factor in (("millis", 1_000_000), ("micros", 1000), ("nanos", 1))
}
MILLISECONDS = ("timestamp-millis", "local-timestamp-millis")
_MOST_DIGITS = 38
_CLASSES: Mapping[str, str] = {
    "boolean": "bool",
    "int": "int",
    "long": "int",
    "float": "float",
    "double": "float",
    "bytes": "bytes",
    "string": "str",
    "array": "list",
    "map": "dict",
}
"""The Python class in which fastavro returns values of a type without a name."""


def unit_of(schema: Any) -> int | None:
    """Return the unit of a timestamp in nanoseconds; None for another type."""
    return _NANOSECONDS.get(schema.get("logicalType", "")) if isinstance(schema, dict) else None


def _rescaled(value: int, writer: Any, reader: Any) -> int:
    """Return a timestamp in the unit of the reader's schema. Unchanged if the reader's schema has no timestamp."""
    unit = unit_of(reader)
    return value if unit is None else value * _NANOSECONDS[writer["logicalType"]] // unit


for _name in _NANOSECONDS:
    convert_when_read("long", _name, _rescaled)


class Shape(NamedTuple):
    """The Arrow type of a column. names_branches: whether fastavro has to return the type names of values in unions."""

    kind: pa.DataType
    names_branches: bool


class ParsedSchema(NamedTuple):
    """A parsed schema, and its named types."""

    schema: Any
    names: Mapping[str, Any]


@dataclass(frozen=True)
class AvroSchema:
    """A schema. texts: the texts of the schemas that it references, then its own. origin: where the schema comes from, for errors."""

    texts: tuple[str, ...]
    origin: str = field(compare=False)

    def parsed(self, names: dict[str, Any] | None = None) -> Any:
        """Return the schema parsed for fastavro. names: the schema's named types are added to it. Raises ConfigError."""
        try:
            return parse((renamed(document(text)) for text in self.texts), names)
        except SCHEMA_ERRORS as fault:
            raise ConfigError(f"{self.origin}: the Avro schema cannot be read: {told(fault)}") from fault

    def parsed_with_names(self) -> ParsedSchema:
        """Return the parsed schema with its named types. Raises ConfigError."""
        names: dict[str, Any] = {}
        return ParsedSchema(self.parsed(names), names)

    def shape(self) -> Shape:
        """Return the shape of a column with this schema. Raises ConfigError if no column can have it."""
        parsed, names = self.parsed_with_names()
        walk = _Types(names, self.origin)
        return Shape(walk.of(parsed, ()), walk.has_unions)


def renamed(schema: Any) -> Any:
    """Return a schema document with all logical types except decimal renamed, and with null as a name."""
    if isinstance(schema, list):
        return [renamed(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "null" and "name" not in schema:
        return "null"
    changed = {key: renamed(inner) if key in ("type", "items", "values") else inner for key, inner in schema.items()}
    if "fields" in changed:
        changed["fields"] = [renamed(inner) for inner in changed["fields"]]
    if isinstance(logical := changed.get("logicalType"), str) and logical != "decimal":
        changed["logicalType"] = RENAMED + logical
    return changed


class _Types:
    """Computes the Arrow types of one parsed schema."""

    def __init__(self, names: Mapping[str, Any], origin: str) -> None:
        self._names = names
        self._origin = origin
        self.has_unions = False
        """Whether a union of several types other than null was found."""

    def of(self, schema: Any, within: tuple[str, ...]) -> pa.DataType:
        """Return the Arrow type of a type. within: the names of the records that contain it."""
        if isinstance(schema, list):
            return self._union(schema, within)
        if isinstance(schema, str) and schema in self._names:
            return self.of(self._names[schema], within)
        kind = kind_of(schema)
        if kind in RECORDS:
            return self._record(schema, within)
        if kind == "array":
            return pa.list_(pa.field("element", self.of(schema["items"], within)))
        if kind == "map":
            return pa.map_(pa.string(), self.of(schema["values"], within))
        return self._plain(schema, kind)

    def _plain(self, schema: Any, kind: str) -> pa.DataType:
        meant = logical_of(schema)
        if meant == "decimal" and kind in ("bytes", "fixed"):
            return self._decimal(schema)
        return pa.binary(schema["size"]) if kind == "fixed" else _LOGICAL.get((kind, meant), _PRIMITIVE[kind])

    def _decimal(self, schema: Any) -> pa.DataType:
        precision, scale = schema["precision"], schema.get("scale", 0)
        if precision > _MOST_DIGITS:
            raise ConfigError(f"{self._origin}: decimals of up to {_MOST_DIGITS} digits are supported, not of {precision}")
        return pa.decimal128(precision, scale)

    def _record(self, schema: Any, within: tuple[str, ...]) -> pa.DataType:
        name = schema["name"]
        if name in within:
            raise ConfigError(f"{self._origin}: record '{name}' contains itself, which a column cannot")
        return pa.struct([(inner["name"], self.of(inner["type"], (*within, name))) for inner in schema["fields"]])

    def _union(self, branches: list[Any], within: tuple[str, ...]) -> pa.DataType:
        """Return the type of a union. Several types become a struct of member0, member1 ..., of which exactly one is not null."""
        others = alternatives(branches)
        if len(others) == 1:
            return self.of(others[0], within)
        self.has_unions = True
        self._check_told_apart(others)
        return pa.struct([(f"member{number}", self.of(branch, within)) for number, branch in enumerate(others)])

    def _check_told_apart(self, branches: list[Any]) -> None:
        keys: set[str] = set()
        for branch in branches:
            schema = self._names.get(branch, branch) if isinstance(branch, str) else branch
            key = python_key(schema)
            if key in keys:
                raise ConfigError(
                    f"{self._origin}: a union of both {kind_of(schema)} and another type that Python reads as {key} is not supported"
                )
            keys.add(key)


def python_key(schema: Any) -> str:
    """Return the key by which a value's type in a union is recognized: the name of the type, or its Python class."""
    kind = kind_of(schema)
    if kind in NAMED:
        return str(schema["name"])
    return "Decimal" if kind == "bytes" and logical_of(schema) == "decimal" else _CLASSES[kind]
