"""Writes columns as plain Avro, and as Avro in Confluent's wire format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pyarrow as pa

from levada.errors import ConfigError
from levada.formats.avro import latest_schema
from levada.formats.avro_conversion import Convert, each, fields, unless_null, with_defaults
from levada.formats.avro_schema import MILLISECONDS, AvroSchema
from levada.formats.reading import Registry
from levada.formats.writing import Encode, Named, WriteFormat, row_by_row, schema_id_for
from levada.registry import Schema
from levada.registry.avro_codec import RECORDS, WRITE_ERRORS, is_plain_bytes, kind_of, told, write_value
from levada.registry.avro_defaults import default_of, logical_of
from levada.registry.wire_format import header

_WHOLE = (pa.types.is_int8, pa.types.is_int16, pa.types.is_int32)
_ACCEPTED: Mapping[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    "null": (pa.types.is_null,),
    "boolean": (pa.types.is_boolean,),
    "int": _WHOLE,
    "long": (*_WHOLE, pa.types.is_int64),
    "float": (pa.types.is_float32,),
    "double": (pa.types.is_float32, pa.types.is_float64),
    "string": (pa.types.is_string,),
    "enum": (pa.types.is_string,),
    "bytes": (pa.types.is_binary, pa.types.is_fixed_size_binary),
    "fixed": (pa.types.is_binary, pa.types.is_fixed_size_binary),
}
"""By Avro type: the tests of Arrow types that are written as it."""
_OF_DAY: Mapping[str, pa.DataType] = {"time-millis": pa.time32("ms"), "time-micros": pa.time64("us")}
_TIMES: Mapping[str, tuple[Callable[[pa.DataType], bool], bool]] = {
    "date": (pa.types.is_date, False),
    "timestamp-millis": (pa.types.is_timestamp, True),
    "timestamp-micros": (pa.types.is_timestamp, True),
    "local-timestamp-millis": (pa.types.is_timestamp, False),
    "local-timestamp-micros": (pa.types.is_timestamp, False),
}
"""By logical type: the test of the Arrow type, and whether a timestamp needs a zone."""


@dataclass(frozen=True)
class AvroWriter(WriteFormat):
    """Writes values by one schema. before: bytes before each value, such as the header with the schema's id."""

    schema: AvroSchema
    before: bytes = b""

    def check(self, column: str, kind: pa.DataType, named: Named = str) -> None:
        """Raise ConfigError if a column of this type cannot be written."""
        names: dict[str, Any] = {}
        _Fit(names, named).check(column, kind, self.schema.parsed(names))

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
class ConfluentAvroWriter(WriteFormat):
    """Avro in Confluent's wire format.

    schema: the schema to write with; None for the latest schema of the subject. registers: whether to register the schema, or only to look
    it up. option: the option that gives schema or subject, for errors.
    """

    registry: Registry = field(repr=False)
    subject: str
    option: str
    schema: AvroSchema | None
    registers: bool
    written: AvroWriter | None = None

    def pinned(self) -> Self:
        """See WriteFormat."""
        if self.schema is None:
            schema_id, schema = latest_schema(self.registry, self.subject, self.option, writes=True)
            schema.shape()
        else:
            schema = self.schema
            written = Schema(schema.texts[-1])
            schema_id = schema_id_for(self.registry, self.subject, written, registers=self.registers, option=self.option)
        return replace(self, written=AvroWriter(schema, header(schema_id)))

    def check(self, column: str, kind: pa.DataType, named: Named = str) -> None:
        """Raise ConfigError if a column of this type cannot be written."""
        written = self.written
        if written is None:
            written = AvroWriter(self.schema or latest_schema(self.registry, self.subject, self.option, writes=True)[1])
        written.check(column, kind, named)

    def encoder(self, column: str) -> Encode:
        """Return a function that encodes a column. column: its name, for errors."""
        assert self.written is not None, "not pinned"
        return self.written.encoder(column)


class _Fit:
    """Checks whether an Arrow type can be written by an Avro schema. names: the schema's named types. named: names a type in errors."""

    def __init__(self, names: Mapping[str, Any], named: Named) -> None:
        self._names = names
        self._named = named

    def check(self, path: str, kind: pa.DataType, schema: Any) -> None:
        """Raise ConfigError with the path of the first field that cannot be written."""
        schema = self._without_null(path, self._names.get(schema, schema) if isinstance(schema, str) else schema)
        of = kind_of(schema)
        if of in RECORDS and pa.types.is_struct(kind):
            self._check_fields(path, kind, schema)
        elif of == "array" and pa.types.is_list(kind):
            self.check(f"{path}.element", kind.value_type, schema["items"])
        elif of == "map" and pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
            self.check(f"{path}.value", kind.item_type, schema["values"])
        elif not pa.types.is_null(kind) and not _is_accepted(kind, schema):
            meant = logical_of(schema)
            raise ConfigError(
                f"column '{path}' is {self._named(kind)}, but the Avro schema has {of}{f' ({meant})' if meant else ''} there; cast it"
            )

    def _check_fields(self, path: str, kind: pa.StructType, schema: Any) -> None:
        described = {inner["name"]: inner for inner in schema["fields"]}
        for name, inner in described.items():
            if kind.get_field_index(name) >= 0:
                continue
            if "default" not in inner and "null" not in _branches(inner["type"]):
                raise ConfigError(f"column '{path}' has no field '{name}', and the Avro schema of '{schema['name']}' has no default for it")
            self._check_default(f"column '{path}' has no field '{name}', whose default in the Avro schema of '{schema['name']}'", inner)
        for one in kind:
            if one.name not in described:
                raise ConfigError(
                    f"column '{path}' has a field '{one.name}', and the Avro record '{schema['name']}' has only {', '.join(described)}"
                )
            self.check(f"{path}.{one.name}", one.type, described[one.name]["type"])

    def _check_default(self, what: str, inner: Mapping[str, Any]) -> None:
        try:
            default_of(inner["type"], inner.get("default"), self._names)
        except ValueError as fault:
            raise ConfigError(f"{what} does not fit: {fault}") from fault

    def _without_null(self, path: str, schema: Any) -> Any:
        others = [branch for branch in _branches(schema) if branch != "null"]
        if len(others) > 1:
            raise ConfigError(f"column '{path}': the Avro schema has a union of {len(others)} types there, which is not written")
        only = others[0] if others else "null"
        return self._names.get(only, only) if isinstance(only, str) else only


def _branches(schema: Any) -> list[Any]:
    return schema if isinstance(schema, list) else [schema]


def _is_accepted(kind: pa.DataType, schema: Any) -> bool:
    meant = logical_of(schema)
    if meant == "decimal":
        scale = schema.get("scale", 0)
        return bool(pa.types.is_decimal(kind) and kind.scale <= scale and kind.precision - kind.scale <= schema["precision"] - scale)
    if pa.types.is_time(kind):
        return bool(kind == _OF_DAY.get(meant))
    if meant in _TIMES:
        is_of, has_zone = _TIMES[meant]
        return is_of(kind) and bool(getattr(kind, "tz", None)) == has_zone
    return any(is_of(kind) for is_of in _ACCEPTED.get(kind_of(schema), ()))


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
