"""The defaults of a reader's schema, as values. fastavro returns them as they are in the schema's JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from levada.registry.avro_codec import NAMED, RECORDS, Parsed, ValueReader, kind_of, parse, spelt_out, write_value

RENAMED = "levada-"
"""Prefix of the logical types that fastavro is not to convert to Python's types."""

Fill = Callable[[Any], None]
"""Changes a value in place."""


class Defaults:
    """Puts values in place of the defaults that fastavro has taken from a reader's schema.

    There, a default of bytes is text, and a record may lack its own defaults. And all values get the same list or dict, so that a program
    that changes one would change the next values. names_branches: as for ValueReader.
    """

    def __init__(self, reader: Parsed, *, names_branches: bool) -> None:
        self._names: dict[str, Any] = dict(reader.get("__named_schemas", {})) if isinstance(reader, dict) else {}
        self._names_branches = names_branches
        self._of_records: dict[str, Fill | None] = {}
        self.fill = self._of(reader)
        """None if the schema has no such defaults."""

    def _of(self, schema: Any) -> Fill | None:
        if isinstance(schema, list):
            parts = [part for part in map(self._of, schema) if part is not None]
            return _each_of(parts) if parts else None
        schema = self._names.get(schema, schema) if isinstance(schema, str) else schema
        kind = kind_of(schema)
        if kind in NAMED:
            self._names.setdefault(schema["name"], schema)
        if kind in RECORDS:
            return self._of_record(schema)
        if kind not in ("array", "map"):
            return None
        part = self._of(schema["items" if kind == "array" else "values"])
        return None if part is None else _each_in(part)

    def _of_record(self, schema: Any) -> Fill | None:
        if schema["name"] in self._of_records:
            return self._of_records[schema["name"]]
        fields: list[tuple[str, Any, Callable[[], Any] | None, Fill | None]] = []

        def fill(value: Any) -> None:
            record = value[1] if type(value) is tuple else value
            if not isinstance(record, dict):
                return
            for name, given, make, part in fields:
                found = record.get(name)
                # fastavro uses the object in the schema itself.
                if make is not None and found is given:
                    record[name] = make()
                elif part is not None:
                    part(found)

        # Found by a record that contains itself.
        self._of_records[schema["name"]] = fill
        for inner in schema["fields"]:
            make, part = self._maker(inner), self._of(inner["type"])
            if make is not None or part is not None:
                fields.append((inner["name"], inner.get("default"), make, part))
        if not fields:
            self._of_records[schema["name"]] = None
        return self._of_records[schema["name"]]

    def _maker(self, inner: Mapping[str, Any]) -> Callable[[], Any] | None:
        """Return a function that makes the value of a field's default.

        None if the field has no default, or if the value is the default in the schema's JSON, which it is, too, for a default that does not
        fit.
        """
        if "default" not in inner:
            return None
        given = inner["default"]
        try:
            kind = parse([spelt_out(inner["type"], self._names, set())])
            data = write_value(b"", kind, default_of(kind, given, self._names))
            read = ValueReader(kind, self._names, names_branches=self._names_branches)
            value = read(data, 0)
        except Exception:
            # fastavro raises exceptions of any type for a default that does not fit. It is returned as it is in the schema.
            return None
        if isinstance(value, list | dict | tuple):
            return lambda: read(data, 0)
        return None if type(value) is type(given) and value == given else lambda: value


def _each_of(parts: list[Fill]) -> Fill:
    """Return a function for a union. Each part passes over values of other types."""

    def fill(value: Any) -> None:
        for part in parts:
            part(value)

    return fill


def _each_in(part: Fill) -> Fill:
    """Return a function for an array or a map."""

    def fill(value: Any) -> None:
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            part(item)

    return fill


def alternatives(branches: list[Any]) -> list[Any]:
    """Return the types of a union that a column has to distinguish.

    null is left out, unless it is the only type. int and long alone are long, and float and double alone are double.
    """
    others = [branch for branch in branches if branch != "null"]
    for narrow, wide in (("int", "long"), ("float", "double")):
        if others in ([narrow, wide], [wide, narrow]):
            return [wide]
    return others or ["null"]


def logical_of(schema: Any) -> str:
    """Return the logical type under its name in Avro. Empty if the schema has none."""
    return str(schema.get("logicalType", "")).removeprefix(RENAMED) if isinstance(schema, dict) else ""


_OF_DEFAULTS: Mapping[str, type] = {"null": type(None), "boolean": bool, "int": int, "long": int, "string": str, "enum": str}


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
    if type(given) is not _OF_DEFAULTS.get(kind) or (kind == "enum" and given not in schema["symbols"]):
        raise ValueError(f"{given!r} is no default for {kind}")
    return given


def decimal_of(data: bytes, schema: Any) -> Decimal:
    """Return the decimal that bytes hold, with the scale of the schema. It is exact, whatever the precision of Python's decimal context."""
    return Decimal(f"{int.from_bytes(data, signed=True)}E-{schema.get('scale', 0)}")


def _of_union(branches: list[Any], given: Any, names: Mapping[str, Any]) -> Any:
    """Return the value for the first branch that the default fits. Before Avro 1.12 only the first branch could have the default.

    If the union has several types besides null, the value of a named type is a tuple (name, value). Raises ValueError if the default fits
    no branch.
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
