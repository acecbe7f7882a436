"""Writes columns as JSON in Confluent's wire format, with the id of a JSON Schema that their types fit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from levada.errors import ConfigError
from levada.formats.json import JsonWriter
from levada.formats.json_schema import SchemaDocument, element_schema, type_name
from levada.formats.reading import Registry, latest_version
from levada.formats.writing import Encode, Named, WriteFormat, schema_id_for
from levada.registry import Schema
from levada.registry.schema import JSON
from levada.registry.wire_format import header

_MOST_SHOWN = 60
_NUMBERS = (pa.types.is_integer, pa.types.is_decimal)
_NOT_TEXT = (*_NUMBERS, pa.types.is_floating, pa.types.is_boolean, pa.types.is_nested)
_ACCEPTED: Mapping[str, Callable[[pa.DataType], bool]] = {
    "boolean": pa.types.is_boolean,
    "integer": lambda kind: any(is_of(kind) for is_of in _NUMBERS),
    "number": lambda kind: pa.types.is_floating(kind) or any(is_of(kind) for is_of in _NUMBERS),
    "string": lambda kind: not any(is_of(kind) for is_of in _NOT_TEXT),
    "array": lambda kind: pa.types.is_list(kind) or pa.types.is_large_list(kind),
    "object": lambda kind: pa.types.is_struct(kind) or pa.types.is_map(kind),
}
"""By type of JSON Schema: whether columns of an Arrow type are written as it. Bytes and times are written as strings."""


@dataclass(frozen=True)
class JsonSchemaWriter(WriteFormat):
    """Writes a struct column as JSON objects after the id of a schema. Types are checked against the schema, values are not.

    schema: its text; None for the latest schema of the subject. registers: whether to register it, or only to look it up. option: the
    option that gives schema or subject, for errors. written: the text of the schema whose id is written.
    """

    registry: Registry = field(repr=False)
    subject: str
    option: str
    schema: str | None
    registers: bool
    schema_id: int = -1
    written: str | None = None

    def __post_init__(self) -> None:
        """Raise ConfigError for a schema that is not JSON, such as the name of a file."""
        if self.schema is None:
            return
        try:
            json.loads(self.schema)
        except (ValueError, RecursionError) as fault:
            raise ConfigError(
                f"option '{self.option}' takes the JSON text of a JSON Schema; "
                f"what begins with {self.schema[:_MOST_SHOWN]!r} is not JSON: {fault}"
            ) from fault

    def pinned(self) -> Self:
        """See WriteFormat."""
        if self.schema is None:
            latest = latest_version(self.registry, self.subject, self.option, JSON, writes=True)
            return replace(self, schema_id=latest.schema_id, written=latest.schema.schema_str)
        schema_id = schema_id_for(self.registry, self.subject, Schema(self.schema, JSON), registers=self.registers, option=self.option)
        return replace(self, schema_id=schema_id, written=self.schema)

    def check(self, column: str, kind: pa.DataType, named: Named = str) -> None:
        """Raise ConfigError if a column of this type cannot be written."""
        JsonWriter().check(column, kind, named)
        text = self.written or self.schema
        if text is None:
            text = latest_version(self.registry, self.subject, self.option, JSON, writes=True).schema.schema_str
        try:
            document = SchemaDocument(json.loads(text))
        except (ValueError, RecursionError) as fault:
            raise self._unreadable(fault) from fault
        try:
            _Fit(document, named).check(column, kind, document.document)
        except (TypeError, RecursionError) as fault:
            # TypeError: a keyword has a value of a wrong type, such as a list for "properties". Not every registry refuses that.
            raise self._unreadable(fault) from fault

    def _unreadable(self, fault: Exception) -> ConfigError:
        return ConfigError(f"option '{self.option}': the JSON schema of '{self.subject}' cannot be read: {fault}")

    def encoder(self, column: str) -> Encode:
        """Return a function that encodes a column. column: its name, for errors."""
        before, encode = pa.scalar(header(self.schema_id), pa.binary()), JsonWriter().encoder(column)
        return lambda array: pc.binary_join_element_wise(before, encode(array), pa.scalar(b"", pa.binary()))


class _Fit:
    """Checks whether columns are written as what a JSON Schema describes. Where it allows several types, all columns fit."""

    def __init__(self, document: SchemaDocument, named: Named) -> None:
        self._document = document
        self._named = named

    def check(self, path: str, kind: pa.DataType, schema: Any, within: tuple[str, ...] = ()) -> None:
        """Raise ConfigError with the path of the first field that does not fit."""
        found, within = self._document.followed(schema, within)
        if found is None or pa.types.is_null(kind):
            return
        name = type_name(found)
        if name is None or name not in _ACCEPTED:
            return
        if not _ACCEPTED[name](kind):
            advice = "make it a struct, map or list first" if name in ("object", "array") else "cast it"
            raise ConfigError(f"column '{path}' is {self._named(kind)}, but the JSON schema has {name} there; {advice}")
        if name == "array":
            self.check(f"{path}.element", kind.value_type, element_schema(found), within)
        elif name == "object":
            self._check_object(path, kind, found, within)

    def _check_object(self, path: str, kind: pa.DataType, schema: Mapping[str, Any], within: tuple[str, ...]) -> None:
        described, others, patterns = schema.get("properties") or {}, schema.get("additionalProperties"), "patternProperties" in schema
        if pa.types.is_map(kind):
            if not described and not patterns:
                self.check(f"{path}.value", kind.item_type, others, within)
            return
        names, required = {one.name for one in kind}, schema.get("required")
        missing = [name for name in required if name not in names] if isinstance(required, list) else []
        if missing:
            raise ConfigError(f"column '{path}' has no field '{missing[0]}', which the JSON schema requires")
        for one in kind:
            if one.name in described:
                self.check(f"{path}.{one.name}", one.type, described[one.name], within)
            elif patterns:
                continue
            elif others is False:
                raise ConfigError(
                    f"column '{path}' has a field '{one.name}', and the JSON schema allows only {', '.join(described) or 'none'}"
                )
            else:
                self.check(f"{path}.{one.name}", one.type, others, within)
