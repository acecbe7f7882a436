"""A column written as Avro: value.format=avro and confluent-avro of the sink."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from levada.errors import ConfigError
from levada.registry import RegistryAnswerError, RegistryNotFoundError, Schema
from levada.registry.avro_codec import RECORDS, WRITE_ERRORS, is_plain_bytes, kind_of, told, write_value
from levada.registry.wire_format import header
from levada.spark.formats.avro import latest_schema
from levada.spark.formats.avro_defaults import default_of
from levada.spark.formats.avro_schema import MILLISECONDS, AvroSchema, logical_of
from levada.spark.formats.avro_values import Convert, each, fields, unless_null, with_defaults
from levada.spark.formats.format import Settings, registry
from levada.spark.formats.sink_format import Encode, SinkFormat, row_by_row

_WHOLE = (ByteType, ShortType, IntegerType)
_ACCEPTED: Mapping[str, tuple[type[DataType], ...]] = {
    "null": (NullType,),
    "boolean": (BooleanType,),
    "int": _WHOLE,
    "long": (*_WHOLE, LongType),
    "float": (FloatType,),
    "double": (FloatType, DoubleType),
    "string": (StringType,),
    "enum": (StringType,),
    "bytes": (BinaryType,),
    "fixed": (BinaryType,),
}
_ACCEPTED_LOGICAL: Mapping[str, tuple[type[DataType], ...]] = {
    "date": (DateType,),
    "timestamp-millis": (TimestampType,),
    "timestamp-micros": (TimestampType,),
    "local-timestamp-millis": (TimestampNTZType,),
    "local-timestamp-micros": (TimestampNTZType,),
}


@dataclass(frozen=True)
class AvroSink(SinkFormat):
    """Writes values by one schema. before: bytes before each value, such as the header with the schema's id."""

    schema: AvroSchema
    before: bytes = b""

    def check(self, column: str, kind: DataType) -> None:
        """Raise ConfigError if a column of this type cannot be written."""
        names: dict[str, Any] = {}
        _Fit(names).check(column, kind, self.schema.parsed(names))

    def encoder(self, column: str) -> Encode:
        """Return a function that encodes a column. column: its name, for errors."""
        names: dict[str, Any] = {}
        parsed = self.schema.parsed(names)
        convert = _conversion(parsed, names)
        is_bare = self.before and is_plain_bytes(parsed)

        def write(value: Any) -> bytes:
            if is_bare:
                return self.before + bytes(value)
            return write_value(self.before, parsed, value if convert is None else convert(value))

        return row_by_row(write, column, f"the Avro schema of {self.schema.origin}", errors=WRITE_ERRORS, told=told)


@dataclass(frozen=True)
class ConfluentAvroSink(SinkFormat):
    """Avro in Confluent's wire format.

    schema: the schema to write with; None for the latest schema of the subject. registers: whether to register the schema, or only to look
    it up. option: the option that gives schema or subject, for errors.
    """

    settings: Settings = field(repr=False)
    subject: str
    option: str
    schema: AvroSchema | None
    registers: bool
    written: AvroSink | None = None

    def pinned(self) -> Self:
        """Return the format with the id of its schema. Raises ConfigError, RegistryError."""
        if self.schema is None:
            schema_id, schema = latest_schema(self.settings, self.subject, self.option)
            schema.shape()
        else:
            schema_id, schema = self._id_of(Schema(self.schema.texts[-1])), self.schema
        return replace(self, written=AvroSink(schema, header(schema_id)))

    def _id_of(self, schema: Schema) -> int:
        client = registry(self.settings)
        try:
            return client.register_schema(self.subject, schema) if self.registers else client.lookup_schema(self.subject, schema).schema_id
        except RegistryNotFoundError as missing:
            raise ConfigError(
                f"option '{self.option}': the schema is not registered under '{self.subject}'; register it, "
                "or leave schema.registry.auto.register.schemas=true"
            ) from missing
        except RegistryAnswerError as refused:
            refused.add_note(f"option '{self.option}': the schema was to be registered under '{self.subject}'")
            raise

    def check(self, column: str, kind: DataType) -> None:
        """Raise ConfigError if a column of this type cannot be written."""
        self._pinned.check(column, kind)

    def encoder(self, column: str) -> Encode:
        """Return a function that encodes a column. column: its name, for errors."""
        return self._pinned.encoder(column)

    @property
    def _pinned(self) -> AvroSink:
        assert self.written is not None, "not pinned"
        return self.written


class _Fit:
    """Checks whether a Spark type can be written by an Avro schema. names: the schema's named types."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names

    def check(self, path: str, kind: DataType, schema: Any) -> None:
        """Raise ConfigError with the path of the first field that cannot be written."""
        schema = self._without_null(path, self._names.get(schema, schema) if isinstance(schema, str) else schema)
        of = kind_of(schema)
        if of in RECORDS and isinstance(kind, StructType):
            self._check_fields(path, kind, schema)
        elif of == "array" and isinstance(kind, ArrayType):
            self.check(f"{path}.element", kind.elementType, schema["items"])
        elif of == "map" and isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
            self.check(f"{path}.value", kind.valueType, schema["values"])
        elif not isinstance(kind, NullType) and not _is_accepted(kind, schema):
            meant = logical_of(schema)
            raise ConfigError(
                f"column '{path}' is {kind.simpleString()}, but the Avro schema has {of}{f' ({meant})' if meant else ''} there; cast it"
            )

    def _check_fields(self, path: str, kind: StructType, schema: Any) -> None:
        described = {inner["name"]: inner for inner in schema["fields"]}
        for name, inner in described.items():
            if name in kind.names:
                continue
            if "default" not in inner and "null" not in _branches(inner["type"]):
                raise ConfigError(f"column '{path}' has no field '{name}', and the Avro schema of '{schema['name']}' has no default for it")
            self._check_default(f"column '{path}' has no field '{name}', whose default in the Avro schema of '{schema['name']}'", inner)
        for one in kind.fields:
            if one.name not in described:
                raise ConfigError(
                    f"column '{path}' has a field '{one.name}', and the Avro record '{schema['name']}' has only {', '.join(described)}"
                )
            self.check(f"{path}.{one.name}", one.dataType, described[one.name]["type"])

    def _check_default(self, what: str, inner: Mapping[str, Any]) -> None:
        try:
            default_of(inner["type"], inner.get("default"), self._names)
        except ValueError as fault:
            raise ConfigError(f"{what} does not fit: {fault}") from fault

    def _without_null(self, path: str, schema: Any) -> Any:
        others = [branch for branch in _branches(schema) if branch != "null"]
        if len(others) > 1:
            raise ConfigError(f"column '{path}': the Avro schema has a union of {len(others)} types there, which the sink does not write")
        only = others[0] if others else "null"
        return self._names.get(only, only) if isinstance(only, str) else only


def _branches(schema: Any) -> list[Any]:
    return schema if isinstance(schema, list) else [schema]


def _is_accepted(kind: DataType, schema: Any) -> bool:
    meant = logical_of(schema)
    if meant == "decimal":
        scale = schema.get("scale", 0)
        return isinstance(kind, DecimalType) and kind.scale <= scale and kind.precision - kind.scale <= schema["precision"] - scale
    return isinstance(kind, _ACCEPTED_LOGICAL.get(meant) or _ACCEPTED.get(kind_of(schema), ()))


def _conversion(schema: Any, names: Mapping[str, Any]) -> Convert | None:
    """Return a function that converts Arrow's values to values that fastavro writes. None if they need no conversion."""
    schema = names.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        return unless_null(_conversion(others[0], names)) if len(others) == 1 else None
    kind = kind_of(schema)
    if kind in RECORDS:
        converts = {inner["name"]: unless_null(_conversion(inner["type"], names)) for inner in schema["fields"]}
        convert = fields({name: one for name, one in converts.items() if one is not None})
        return with_defaults(_defaults(schema, names), convert)
    if kind == "array":
        return each(unless_null(_conversion(schema["items"], names)))
    if kind == "map":
        of_value = unless_null(_conversion(schema["values"], names))
        return lambda entries: {key: value if of_value is None else of_value(value) for key, value in entries}
    return (lambda micros: micros // 1000) if logical_of(schema) in MILLISECONDS else None


def _defaults(schema: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of a record's fields, for fields that the column lacks. fastavro would write the schema's JSON itself."""
    found = {}
    for inner in schema["fields"]:
        # fastavro writes null by itself. If a default is needed and does not fit, `check` has raised an error.
        if inner.get("default") is not None:
            with suppress(ValueError):
                found[inner["name"]] = default_of(inner["type"], inner["default"], names)
    return found
