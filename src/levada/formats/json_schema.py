"""JSON in Confluent's wire format, read by the JSON Schema of a registry or by an Arrow schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from levada.errors import ConfigError
from levada.formats.json import JsonFormat
from levada.formats.reading import LONGEST, DecodedRows, Decoder, Format, Registry, RowFault, latest_version, with_short_ids
from levada.registry.schema import JSON, refuse_rules_on_reading
from levada.registry.wire_format import HEADER_SIZE, MAGIC

_NO_OBJECT = b"?"
_CHOICES = ("oneOf", "anyOf", "allOf")
MOST_FIELDS = 10_000
"""The most fields of a JSON Schema that is read."""
_PLAIN: Mapping[str, pa.DataType] = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_TEXTS: Mapping[str, pa.DataType] = {"date": pa.date32(), "date-time": pa.timestamp("us", "UTC")}


@dataclass(frozen=True)
class JsonSchemaFormat(Format):
    """JSON objects in Confluent's wire format. Fields are found by name, so the writer's schema is not needed.

    registry, subject: None if the schema is given. schema: the fields to read; None until pinned() fetches the subject's latest schema.
    option: the option that gives subject or schema, for errors.
    """

    registry: Registry | None = field(repr=False)
    subject: str | None
    option: str
    schema: pa.Schema | None = None

    def pinned(self) -> Self:
        """Return the format with its schema: the latest one of the subject if it has none yet. Raises ConfigError, RegistryError.

        Raises SerializationError if the latest schema has rules that change values when they are read, such as decryption.
        """
        if self.schema is not None:
            return self
        assert self.registry is not None and self.subject is not None
        latest = latest_version(self.registry, self.subject, self.option, JSON)
        refuse_rules_on_reading(latest.schema.rule_set, f"id {latest.schema_id}")
        origin, option = f"subject '{self.subject}' version {latest.version}", self.option.replace("subject", "schema")
        return replace(self, schema=arrow_schema(latest.schema.schema_str, origin, option))

    @property
    def has_ids(self) -> bool:
        """See Format."""
        return True

    @property
    def kind(self) -> pa.DataType:
        """A struct of the fields."""
        return self._plain.kind

    def decoder(self, kind: pa.DataType | None = None) -> Decoder:
        """Return a decoder."""
        return _BehindHeader(self._plain.decoder())

    @property
    def _plain(self) -> JsonFormat:
        assert self.schema is not None, "not pinned"
        return JsonFormat(self.schema)


class _BehindHeader:
    """Removes the header of each value, and passes the rest to another decoder."""

    def __init__(self, inner: Decoder) -> None:
        self._inner = inner

    def decode(self, values: pa.Array) -> DecodedRows:
        """Decode a binary column."""
        values = with_short_ids(values, lambda _: 0)
        has_header = pc.and_(
            pc.greater_equal(pc.binary_length(values), HEADER_SIZE), pc.equal(pc.binary_slice(values, 0, 1), bytes([MAGIC]))
        )
        found = self._inner.decode(_texts(values, has_header))
        # Blank text is null in plain JSON. Here it is a value that lost its data: a value that is null has no header.
        is_blank = pc.and_(pc.is_null(found.rows), pc.is_valid(values))
        if pc.any(is_blank).as_py():
            has_header = pc.and_(has_header, pc.invert(is_blank))
            found = self._inner.decode(_texts(values, has_header))
        if found.fault is None or has_header[found.fault.row].as_py():
            return DecodedRows(found.rows, found.malformed, found.fault)
        data = values[found.fault.row].as_py()
        reason = f"not JSON in Confluent's wire format: {len(data)} bytes that begin with {data[:HEADER_SIZE]!r}"
        return DecodedRows(found.rows, found.malformed, RowFault(found.fault.row, reason))


def _texts(values: pa.Array, has_header: pa.BooleanArray) -> pa.Array:
    """Return what follows the headers, with malformed JSON in place of values without a header."""
    return pc.if_else(pc.fill_null(has_header, True), pc.binary_slice(values, HEADER_SIZE, LONGEST), _NO_OBJECT)


def arrow_schema(text: str, origin: str, option: str) -> pa.Schema:
    """Return the Arrow schema for the objects of a JSON Schema. Raises ConfigError.

    origin: where the schema comes from, for errors. option: the option that can give the fields instead, for errors. What has no type in
    Arrow, such as a choice between several types, is a string with the JSON text.
    """
    try:
        document = SchemaDocument(json.loads(text))
        kind = _Types(document).of(document.document)
    except (ValueError, TypeError, RecursionError) as fault:
        # TypeError: a keyword has a value of a wrong type, such as a list for "format". Not every registry refuses that.
        raise ConfigError(f"{origin}: the JSON schema cannot be read: {fault}") from fault
    if not pa.types.is_struct(kind):
        raise ConfigError(f"{origin}: the JSON schema describes no object with properties; give the fields with '{option}'")
    return pa.schema(list(kind))


class SchemaDocument:
    """A JSON Schema as JSON. It follows the references within the document."""

    def __init__(self, document: Any) -> None:
        self.document = document

    def followed(self, schema: Any, within: tuple[str, ...]) -> tuple[Mapping[str, Any] | None, tuple[str, ...]]:
        """Return the schema behind references, and behind choices between one schema and null; and the references that led to it.

        None for a schema that has any value, that is within itself, or that is outside of the document. within: the references so far.
        """
        while isinstance(schema, dict):
            reference = schema.get("$ref")
            choice = next((schema[name] for name in _CHOICES if isinstance(schema.get(name), list)), None)
            if reference is not None:
                if reference in within:
                    return None, within
                schema, within = self._find(reference), (*within, reference)
            elif choice is not None:
                others = [one for one in choice if not (isinstance(one, dict) and one.get("type") == "null")]
                schema = others[0] if len(others) == 1 else None
            else:
                return schema, within
        return None, within

    def _find(self, reference: Any) -> Any:
        """Return what a reference points to; None if that is nothing, or outside the document."""
        found = self.document if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")) else None
        for part in str(reference).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        return found


def type_name(schema: Mapping[str, Any]) -> str | None:
    """Return the only type of a schema besides null, "number" for integer or number; None without a single one."""
    kinds = schema.get("type")
    names = [one for one in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(one, str) and one != "null"]
    return "number" if set(names) == {"integer", "number"} else names[0] if len(names) == 1 else None


def element_schema(schema: Mapping[str, Any]) -> Any:
    """Return the schema of all elements of an array; None if the first ones have schemas of their own."""
    return None if "prefixItems" in schema else schema.get("items")


class _Types:
    """Makes the Arrow type of a JSON Schema."""

    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self._made = 0

    def of(self, schema: Any, within: tuple[str, ...] = ()) -> pa.DataType:
        """Return the type of a part of the document. within: the references that led to it. Raises ValueError for too many fields."""
        self._made += 1
        if self._made > MOST_FIELDS:
            # References need little text for it: each of forty definitions may use the next one twice.
            raise ValueError(f"it describes more than {MOST_FIELDS:,} fields")
        found, within = self._document.followed(schema, within)
        if found is None:
            return pa.string()
        name, properties = type_name(found), found.get("properties")
        if (name == "object" or "type" not in found) and isinstance(properties, dict) and properties:
            return pa.struct([(key, self.of(inner, within)) for key, inner in properties.items()])
        if name == "array":
            return pa.list_(pa.field("element", self.of(element_schema(found), within)))
        if name == "string":
            return pa.binary() if found.get("contentEncoding") == "base64" else _TEXTS.get(found.get("format", ""), pa.string())
        return _PLAIN.get(name or "", pa.string())
