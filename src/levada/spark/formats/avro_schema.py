"""The Spark type of a column with an Avro schema.

The types are those of Spark's from_avro, and every field may be null. Dates and timestamps stay numbers, as in Avro: Arrow accepts the
numbers, and Python's own types end with the year 9999. So that fastavro does not convert them to Python's types, logical types are renamed
before fastavro parses a schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from levada.errors import ConfigError
from levada.registry.avro_codec import RECORDS, SCHEMA_ERRORS, convert_when_read, document, kind_of, parse, told
from levada.spark.formats.format import arrow_type

_RENAMED = "levada-"
_PRIMITIVE: Mapping[str, DataType] = {
    "null": NullType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
_LOGICAL: Mapping[tuple[str, str], tuple[DataType, pa.DataType]] = {
    ("int", "date"): (DateType(), pa.date32()),
    ("long", "timestamp-millis"): (TimestampType(), pa.timestamp("ms", "UTC")),
    ("long", "timestamp-micros"): (TimestampType(), pa.timestamp("us", "UTC")),
    ("long", "local-timestamp-millis"): (TimestampNTZType(), pa.timestamp("ms")),
    ("long", "local-timestamp-micros"): (TimestampNTZType(), pa.timestamp("us")),
}
"""By Avro type and logical type: the Spark type, and the Arrow type of the numbers. Other logical types, except decimal, are ignored."""
_MICROSECONDS: Mapping[str, int] = {
    f"{_RENAMED}{place}timestamp-{unit}": factor for place in ("", "local-") for unit, factor in (("millis", 1000), ("micros", 1))
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
NAMED = (*RECORDS, "enum", "fixed")


def _rescaled(value: int, writer: Any, reader: Any) -> int:
    """Return a timestamp in the unit of the reader's schema. Unchanged if the reader's schema has no timestamp."""
    unit = _MICROSECONDS.get(reader.get("logicalType", "")) if isinstance(reader, dict) else None
    return value if unit is None else value * _MICROSECONDS[writer["logicalType"]] // unit


for _name in _MICROSECONDS:
    convert_when_read("long", _name, _rescaled)


@dataclass(frozen=True)
class Shape:
    """The Spark and Arrow type for a type of a schema.

    built: the Arrow type that is built from fastavro's values, in the schema's units. names_branches: whether fastavro has to return the
    type names of values in unions; set for a whole schema only.
    """

    spark: DataType
    built: pa.DataType
    names_branches: bool = False


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
        walk = _Shapes(names, self.origin)
        shape = walk.of(parsed, ())
        return replace(shape, names_branches=walk.has_unions)


def renamed(schema: Any) -> Any:
    """Return a schema document with all logical types except decimal renamed."""
    if isinstance(schema, list):
        return [renamed(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: renamed(inner) if key in ("type", "items", "values") else inner for key, inner in schema.items()}
    if "fields" in changed:
        changed["fields"] = [renamed(inner) for inner in changed["fields"]]
    if isinstance(logical := changed.get("logicalType"), str) and logical != "decimal":
        changed["logicalType"] = _RENAMED + logical
    return changed


class _Shapes:
    """Computes the shapes of one parsed schema."""

    def __init__(self, names: Mapping[str, Any], origin: str) -> None:
        self._names = names
        self._origin = origin
        self.has_unions = False
        """Whether a union of several types other than null was found."""

    def of(self, schema: Any, within: tuple[str, ...]) -> Shape:
        """Return the shape of a type. within: the names of the records that contain it."""
        if isinstance(schema, list):
            return self._union(schema, within)
        if isinstance(schema, str) and schema in self._names:
            return self.of(self._names[schema], within)
        kind = kind_of(schema)
        if kind in RECORDS:
            return self._record(schema, within)
        if kind == "array":
            items = self.of(schema["items"], within)
            return Shape(ArrayType(items.spark), pa.list_(pa.field("element", items.built)))
        if kind == "map":
            values = self.of(schema["values"], within)
            return Shape(MapType(StringType(), values.spark), pa.map_(pa.string(), values.built))
        return self._plain(schema, kind)

    def _plain(self, schema: Any, kind: str) -> Shape:
        meant = logical_of(schema)
        if meant == "decimal" and kind in ("bytes", "fixed"):
            spark: DataType = self._decimal(schema)
            return Shape(spark, arrow_type(spark))
        return Shape(*_LOGICAL.get((kind, meant), (_PRIMITIVE[kind], arrow_type(_PRIMITIVE[kind]))))

    def _decimal(self, schema: Any) -> DecimalType:
        precision, scale = schema["precision"], schema.get("scale", 0)
        if precision > _MOST_DIGITS:
            raise ConfigError(f"{self._origin}: Spark has decimals of up to {_MOST_DIGITS} digits, not of {precision}")
        return DecimalType(precision, scale)

    def _record(self, schema: Any, within: tuple[str, ...]) -> Shape:
        name = schema["name"]
        if name in within:
            raise ConfigError(f"{self._origin}: record '{name}' contains itself, which a Spark type cannot")
        return _struct({inner["name"]: self.of(inner["type"], (*within, name)) for inner in schema["fields"]})

    def _union(self, branches: list[Any], within: tuple[str, ...]) -> Shape:
        """Return the shape of a union. Several types become a struct of member0, member1 ..., of which exactly one is not null."""
        others = alternatives(branches)
        if len(others) == 1:
            return self.of(others[0], within)
        self.has_unions = True
        self._check_told_apart(others)
        return _struct({f"member{number}": self.of(branch, within) for number, branch in enumerate(others)})

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


def alternatives(branches: list[Any]) -> list[Any]:
    """Return the types of a union that a column has to distinguish: without null, and with long for int and long."""
    others = [branch for branch in branches if branch != "null"]
    for narrow, wide in (("int", "long"), ("float", "double")):
        if others in ([narrow, wide], [wide, narrow]):
            return [wide]
    return others or ["null"]


def python_key(schema: Any) -> str:
    """Return the key by which a value's type in a union is recognized: the name of the type, or its Python class."""
    kind = kind_of(schema)
    if kind in NAMED:
        return str(schema["name"])
    return "Decimal" if kind == "bytes" and logical_of(schema) == "decimal" else _CLASSES[kind]


def logical_of(schema: Any) -> str:
    """Return the logical type under its name in Avro. Empty if the schema has none."""
    return str(schema.get("logicalType", "")).removeprefix(_RENAMED) if isinstance(schema, dict) else ""


def _struct(shapes: Mapping[str, Shape]) -> Shape:
    return Shape(
        StructType([StructField(name, shape.spark) for name, shape in shapes.items()]),
        pa.struct([pa.field(name, shape.built) for name, shape in shapes.items()]),
    )
