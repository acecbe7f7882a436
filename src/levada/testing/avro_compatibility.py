"""Checks whether data written with one Avro schema can be read with another (Avro's specification, "Schema Resolution")."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

PROMOTIONS: Mapping[str, frozenset[str]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
"""By the writer's type: the other types as which a reader may read it."""
PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = ("record", "error", "enum", "fixed")

Names = dict[str, Any]


class AvroSchema:
    """An Avro schema, parsed together with the schemas that it refers to.

    references: the texts of these other schemas. A schema that refers to another one comes after it. Raises ValueError, KeyError or
    TypeError for a text that is not an Avro schema.
    """

    def __init__(self, text: str, references: tuple[str, ...] = ()) -> None:
        self._names: Names = {}
        for used in references:
            _collect(parse_avro(used), "", self._names)
        self.root = _collect(parse_avro(text), "", self._names)

    def resolve(self, schema: Any) -> Any:
        """Return the definition of a type that is given by name. Any other schema is returned unchanged."""
        return self._names.get(schema, schema) if isinstance(schema, str) else schema


def differences(reader: AvroSchema, writer: AvroSchema) -> list[str]:
    """Return the reasons why data of the writer's schema cannot be read with the reader's schema; an empty list if it can be read."""
    return list(_differences(reader, reader.root, writer, writer.root, "", set()))


def parse_avro(text: str) -> Any:
    """Parse the text of a schema: JSON, or the bare name of a type such as `string`. Raises ValueError if it is neither."""
    try:
        return json.loads(text)
    except ValueError:
        if text.strip().replace(".", "").isidentifier():
            return text.strip()
        raise


def _collect(schema: Any, namespace: str, names: Names) -> Any:
    """Return a schema in which each named type is replaced by its full name. The definitions of these types are added to `names`. Raises
    ValueError, KeyError or TypeError if it is not a schema.
    """
    if isinstance(schema, str):
        full = _full_name(schema, namespace)
        if full in names:
            return full
        if schema not in names and schema not in PRIMITIVES:
            raise ValueError(f"{schema} is not a type of Avro, and no type with this name is defined before its use")
        return schema
    if isinstance(schema, list):
        return [_collect(branch, namespace, names) for branch in schema]
    if not isinstance(schema, dict) or "type" not in schema:
        raise ValueError(f"{json.dumps(schema)} is no Avro schema")
    kind = schema["type"]
    if not isinstance(kind, str):
        return _collect(kind, namespace, names)
    if kind in NAMED:
        return _collect_named(schema, namespace, names)
    if kind == "array":
        return {"type": kind, "items": _collect(schema["items"], namespace, names)}
    if kind == "map":
        return {"type": kind, "values": _collect(schema["values"], namespace, names)}
    return _collect(kind, namespace, names)


def _collect_named(schema: Mapping[str, Any], namespace: str, names: Names) -> str:
    if "name" not in schema:
        raise ValueError(f"a {schema['type']} has no name")
    full = _full_name(schema["name"], schema.get("namespace", namespace))
    definition = names[full] = {**schema, "name": full}
    if "fields" in schema:
        inner = full.rpartition(".")[0]
        definition["fields"] = [{**field, "type": _collect(field["type"], inner, names)} for field in schema["fields"]]
    return full


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _kind(schema: Any) -> str:
    return "union" if isinstance(schema, list) else str(schema["type"] if isinstance(schema, dict) else schema)


def _differences(
    readers: AvroSchema, reader: Any, writers: AvroSchema, writer: Any, path: str, seen: set[tuple[str, str]]
) -> Iterator[str]:
    reader, writer = readers.resolve(reader), writers.resolve(writer)
    if isinstance(reader, dict) and isinstance(writer, dict) and "name" in reader and "name" in writer:
        # A pair of named types is compared once, because types may be recursive.
        pair = (reader["name"], writer["name"])
        if pair in seen:
            return
        seen = {*seen, pair}
    if isinstance(writer, list):
        for branch in writer:
            yield from _differences(readers, reader, writers, branch, path, seen)
    elif isinstance(reader, list):
        if all(any(_differences(readers, branch, writers, writer, path, seen)) for branch in reader):
            yield f"{path or '/'}: the reader's union lacks {_kind(writer)}"
    elif _kind(reader) != _kind(writer):
        if _kind(reader) not in PROMOTIONS.get(_kind(writer), ()):
            yield f"{path or '/'}: the reader has {_kind(reader)}, the writer {_kind(writer)}"
    elif isinstance(reader, dict):
        yield from _within(readers, reader, writers, writer, path, seen)


def _within(
    readers: AvroSchema, reader: dict[str, Any], writers: AvroSchema, writer: dict[str, Any], path: str, seen: set[tuple[str, str]]
) -> Iterator[str]:
    kind = _kind(reader)
    if kind in ("array", "map"):
        inner = "items" if kind == "array" else "values"
        yield from _differences(readers, reader[inner], writers, writer[inner], f"{path}/{inner}", seen)
        return
    if _last(reader["name"]) != _last(writer["name"]) and writer["name"] not in reader.get("aliases", ()):
        yield f"{path or '/'}: the reader has {reader['name']}, the writer {writer['name']}"
    elif kind == "fixed" and reader["size"] != writer["size"]:
        yield f"{path or '/'}: the reader's fixed has {reader['size']} bytes, the writer's {writer['size']}"
    elif kind == "enum" and "default" not in reader and (missing := set(writer["symbols"]) - set(reader["symbols"])):
        yield f"{path or '/'}: the reader's enum lacks {', '.join(sorted(missing))}"
    elif "fields" in reader:
        yield from _fields(readers, reader, writers, writer, path, seen)


def _fields(
    readers: AvroSchema, reader: dict[str, Any], writers: AvroSchema, writer: dict[str, Any], path: str, seen: set[tuple[str, str]]
) -> Iterator[str]:
    written = {field["name"]: field for field in writer["fields"]}
    for field in reader["fields"]:
        names = [field["name"], *field.get("aliases", ())]
        found = next((written[name] for name in names if name in written), None)
        if found is not None:
            yield from _differences(readers, field["type"], writers, found["type"], f"{path}/{field['name']}", seen)
        elif "default" not in field:
            yield f"{path}/{field['name']}: the reader's field has no default, and the writer has no such field"


def _last(name: str) -> str:
    return name.rpartition(".")[2]
