"""A record as a line of JSON, and back: what `consume --format json` prints is what `produce --format json` reads.

    {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1793527200000,
     "key": "k", "value": "v", "headers": [{"key": "h", "value": "x"}]}

Keys and values are text where their bytes are UTF-8, {"base64": "..."} where they are not, and null. A key or value that a deserializer
made something of is JSON of its own; so it is when reading: anything but text, null and {"base64": ...} is written as compact JSON,
numbers with all their digits. NaN and infinities of a deserializer are the strings that json_text() makes of them; as numbers they are no
JSON, and refused.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NoReturn

from levada.base.text import did_you_mean
from levada.cli.output import json_text, plain
from levada.types import AnyRecord, Headers

BASE64 = "base64"
FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def to_json(record: AnyRecord) -> str:
    """Return a record as one line, without a line feed."""
    return json_text(fields_of(record))


def fields_of(record: AnyRecord) -> dict[str, Any]:
    """Return what JSON and YAML have of a record."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": from_bytes(record.key),
        "value": from_bytes(record.value),
        "headers": [{"key": name, "value": from_bytes(value)} for name, value in record.headers],
    }


def from_bytes(value: Any) -> Any:
    """Return what stands for a key or value in JSON."""
    if not isinstance(value, bytes):
        return plain(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {BASE64: base64.b64encode(value).decode()}


def to_bytes(value: Any) -> bytes | None:
    """Return the bytes that something in JSON stands for. Raises ValueError for base64 that is none."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and set(value) == {BASE64}:
        try:
            return base64.b64decode(value[BASE64], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise ValueError(f"{value!r} is not base64") from None
    return _exact_text(value).encode()


def _exact_text(value: Any) -> str:
    """Return compact JSON of what parse() has read, each number with the digits that it was given."""
    try:
        return json_text(value)
    except TypeError:
        # There is a Decimal in it.
        pass
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(name)}:{_exact_text(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_exact_text, value)) + "]"
    return str(value)


def _number(text: str) -> float | Decimal:
    """Read a number with a point or an exponent: as a float if that is written with the same text, otherwise as a Decimal."""
    number = float(text)
    return number if repr(number) == text else Decimal(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f'this is not JSON: it has no number {text}; write null, or "{text}" as text')


def read_json(text: str | bytes) -> Any:
    """Read a line of JSON. Raises ValueError with the reason, also for NaN and infinities, which Python's json module would accept."""
    try:
        return json.loads(text, parse_float=_number, parse_constant=_no_number)
    except json.JSONDecodeError as fault:
        raise ValueError(f"this is not JSON: {fault.msg} at column {fault.colno}") from None


def parse(line: str | bytes) -> Mapping[str, Any]:
    """Read a line that to_json() could have written; fields may be missing. Raises ValueError with the reason."""
    found = read_json(line)
    if not isinstance(found, dict):
        raise ValueError('expected an object such as {"key": "k", "value": "v"}; for values as they are use --format lines')
    if unknown := sorted(found.keys() - set(FIELDS)):
        advice = did_you_mean(unknown[0], FIELDS) or "; for values as they are use --format lines"
        raise ValueError(f"unknown field '{unknown[0]}', expected some of {', '.join(FIELDS)}{advice}")
    return found


def headers_of(given: Any) -> Headers:
    """Read headers: a list of {"key": ..., "value": ...}, or an object of names and values. Raises ValueError."""
    if given is None:
        return []
    if isinstance(given, dict):
        return [(name, to_bytes(value)) for name, value in given.items()]
    if isinstance(given, list) and all(isinstance(one, dict) and isinstance(one.get("key"), str) for one in given):
        return [(one["key"], to_bytes(one.get("value"))) for one in given]
    raise ValueError(f'headers are a list such as [{{"key": "name", "value": "text"}}]; got {given!r}')
