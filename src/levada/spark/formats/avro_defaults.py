"""Defaults of fields: converts a schema's JSON to the values that fastavro reads and writes. fastavro itself returns the JSON."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from levada.registry.avro_codec import RECORDS, kind_of
from levada.spark.formats.avro_schema import NAMED, alternatives, logical_of

_CLASSES: Mapping[str, type] = {"null": type(None), "boolean": bool, "int": int, "long": int, "string": str, "enum": str}


def default_of(schema: Any, given: Any, names: Mapping[str, Any]) -> Any:
    """Return a new value for a default. given: its JSON. names: the schema's named types. Raises ValueError if it does not fit."""
    schema = names.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(schema, list):
        return _of_union(schema, given, names)
    kind = kind_of(schema)
    if kind in RECORDS and isinstance(given, dict):
        return {inner["name"]: _of_field(inner, given, names) for inner in schema["fields"]}
    if kind == "array" and isinstance(given, list):
        return [default_of(schema["items"], one, names) for one in given]
    if kind == "map" and isinstance(given, dict):
        return {key: default_of(schema["values"], one, names) for key, one in given.items()}
    if kind in ("bytes", "fixed") and isinstance(given, str):
        return _of_bytes(schema, given.encode("latin-1"))
    if kind in ("float", "double") and type(given) in (int, float):
        return float(given)
    if type(given) is not _CLASSES.get(kind) or (kind == "enum" and given not in schema["symbols"]):
        raise ValueError(f"{given!r} is no default for {kind}")
    return given


def decimal_of(data: bytes, schema: Any) -> Decimal:
    """Return the decimal that bytes hold, with the scale of the schema. It is exact, whatever the precision of Python's decimal context."""
    return Decimal(f"{int.from_bytes(data, signed=True)}E-{schema.get('scale', 0)}")


def _of_union(branches: list[Any], given: Any, names: Mapping[str, Any]) -> Any:
    """Return the value for the first branch that the default fits. Before Avro 1.12 only the first branch could have the default.

    If the union has several types, the value of a named type is a tuple (name, value). Raises ValueError if the default fits no branch.
    """
    has_several = len(alternatives(branches)) > 1
    for branch in branches:
        schema = names.get(branch, branch) if isinstance(branch, str) else branch
        try:
            value = default_of(schema, given, names)
        except ValueError:
            continue
        return (schema["name"], value) if has_several and kind_of(schema) in NAMED else value
    raise ValueError(f"{given!r} is no default for any type of its union")


def _of_field(inner: Mapping[str, Any], given: Mapping[str, Any], names: Mapping[str, Any]) -> Any:
    if inner["name"] not in given and "default" not in inner:
        raise ValueError(f"{given!r} lacks the field '{inner['name']}'")
    return default_of(inner["type"], given[inner["name"]] if inner["name"] in given else inner["default"], names)


def _of_bytes(schema: Any, data: bytes) -> Any:
    if kind_of(schema) == "fixed" and len(data) != schema["size"]:
        raise ValueError(f"{data!r} is no default for fixed of {schema['size']} bytes")
    return decimal_of(data, schema) if logical_of(schema) == "decimal" else data
