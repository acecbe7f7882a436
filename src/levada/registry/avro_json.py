"""Writes data of JSON as Avro: the texts that stand for times, decimals and bytes become values of the schema's types."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

from levada.errors import SerializationError
from levada.registry.avro import AvroSerializer, parsed_schema
from levada.registry.avro_codec import RECORDS, Parsed, fits, kind_of
from levada.registry.schema import Schema
from levada.registry.writing import Frame

BASE64 = "base64"


class AvroJsonSerializer(AvroSerializer[Any]):
    """An AvroSerializer for data of JSON.

    Times are texts of ISO 8601, or numbers as Avro stores them. A timestamp's text without a zone is in UTC; the zone of a local
    timestamp's text is ignored. Decimals are texts or numbers. Bytes are text, or {"base64": ...} if they are not UTF-8. NaN and infinities
    are texts.
    """

    def _compile(self, frame: Frame, schema: Schema) -> Callable[[Any], bytes]:
        names: dict[str, Any] = {}
        parsed = parsed_schema(self._registry, schema, names)
        write = super()._compile(frame, schema)

        def write_json(data: Any) -> bytes:
            try:
                value = _value(data, parsed, names, "")
            except (ValueError, RecursionError) as fault:
                raise SerializationError(f"it does not fit the Avro schema of id {frame.schema_id}: {fault}") from None
            return write(value)

        return write_json


def _value(data: Any, schema: Parsed, names: Mapping[str, Any], path: str) -> Any:
    """Return the value for fastavro. Data of another type than the schema's are returned as they are; fastavro refuses them.

    Raises ValueError for a text, a number or {"base64": ...} that cannot be read as a value of the schema's type, unless it is in a union.
    names: the schema's named types. path: names of the fields that lead to the value.
    """
    if isinstance(schema, list):
        return _of_union(data, schema, names, path)
    schema = names.get(schema, schema) if isinstance(schema, str) else schema
    kind = kind_of(schema)
    if isinstance(data, dict) and kind in RECORDS:
        types = {field["name"]: field["type"] for field in schema["fields"]}
        return {
            name: _value(part, types[name], names, f"{path}.{name}".removeprefix(".")) if name in types else part
            for name, part in data.items()
        }
    if isinstance(data, dict) and kind == "map":
        return {name: _value(part, schema["values"], names, path) for name, part in data.items()}
    if isinstance(data, list) and kind == "array":
        return [_value(part, schema["items"], names, path) for part in data]
    logical = schema.get("logicalType", "") if isinstance(schema, dict) else ""
    read = _reader(data, kind, logical)
    if read is None:
        return data
    try:
        return read(data)
    except (ValueError, InvalidOperation, binascii.Error, TypeError):
        raise ValueError(f"{path or 'the value'}: {data!r} is no {logical or kind}") from None


def _of_union(data: Any, union: list[Parsed], names: Mapping[str, Any], path: str) -> Any:
    if data is None:
        return None
    others = [branch for branch in union if branch != "null"]
    if len(others) == 1:
        return _value(data, others[0], names, path)
    for branch in others:
        try:
            value = _value(data, branch, names, path)
        except ValueError:
            continue
        if fits(value, names.get(branch, branch) if isinstance(branch, str) else branch):
            return value
    return data


def _reader(data: Any, kind: str, logical: str) -> Callable[[Any], Any] | None:
    """Return the function that reads the data (a text, a number or {"base64": ...}) as a value; None if they need no reading."""
    if logical == "decimal":
        return _decimal if isinstance(data, (str, int, float)) else None
    if kind in ("bytes", "fixed"):
        return _bytes if isinstance(data, (str, dict)) else None
    if not isinstance(data, str):
        return None
    return float if kind in ("float", "double") else _TIMES.get(logical)


def _decimal(data: str | float) -> Decimal:
    return Decimal(str(data))


def _bytes(data: str | Mapping[str, str]) -> bytes:
    if isinstance(data, str):
        return data.encode()
    if set(data) != {BASE64}:
        raise ValueError
    return base64.b64decode(data[BASE64], validate=True)


def _timestamp(text: str, *, is_local: bool) -> datetime:
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=None if is_local else found.tzinfo or UTC)


_TIMES: Mapping[str, Callable[[str], Any]] = {
    "date": date.fromisoformat,
    **dict.fromkeys(("time-millis", "time-micros"), time.fromisoformat),
    **dict.fromkeys(("timestamp-millis", "timestamp-micros"), partial(_timestamp, is_local=False)),
    **dict.fromkeys(("local-timestamp-millis", "local-timestamp-micros"), partial(_timestamp, is_local=True)),
}
"""By logical type: the function that reads its text."""
