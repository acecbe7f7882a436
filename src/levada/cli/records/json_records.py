"""Converts records to lines of JSON and back. `produce --format json` reads the lines that `consume --format json` prints.

    {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1793527200000,
     "key": "k", "value": "v", "headers": [{"key": "h", "value": "x"}]}

Keys and values are null, text if their bytes are UTF-8, or else {"base64": "..."}. A deserialized key or value is printed as JSON. When
lines are read, any key or value other than text, null and {"base64": ...} becomes compact JSON, in which numbers keep all their digits.
NaN and infinities of a deserializer are printed as the strings of json_text(). As numbers they are not JSON, so reading refuses them.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from decimal import Decimal
from itertools import chain
from typing import Any, NoReturn

from levada.base.text import did_you_mean
from levada.cli.output import BASE64, json_text, plain
from levada.types import AnyRecord, Headers

FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_FIELDS = frozenset(FIELDS)


def to_json(record: AnyRecord) -> str:
    """Return a record as one line, without a line feed."""
    return json_text(fields_of(record))


def fields_of(record: AnyRecord) -> dict[str, Any]:
    """Return the fields of a record for JSON and YAML."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": plain(record.key),
        "value": plain(record.value),
        "headers": [{"key": name, "value": plain(value)} for name, value in record.headers],
    }


def to_bytes(value: Any) -> bytes | None:
    """Return the bytes of a key or value given as JSON data: of text, {"base64": ...} or else compact JSON; None for null.

    Raises ValueError for invalid base64.
    """
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
    """Return data of parse() as compact JSON. Numbers keep the digits of the input."""
    try:
        return json_text(value)
    except TypeError:
        # The value contains a Decimal.
        pass
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(name)}:{_exact_text(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_exact_text, value)) + "]"
    return str(value)


def _number(text: str) -> float | Decimal:
    """Read a number with a point or an exponent: as a float if repr() gives the same text, otherwise as a Decimal."""
    number = float(text)
    try:
        return number if repr(number) == text else Decimal(text)
    except ArithmeticError:
        raise ValueError(f"{text} is out of range") from None


def _no_number(text: str) -> NoReturn:
    raise ValueError(f'this is not JSON: JSON has no number {text}; write null, or "{text}" as text')


_DECODER = json.JSONDecoder(parse_float=_number, parse_constant=_no_number)


def read_json(text: str | bytes) -> Any:
    """Read a line of JSON. Raises ValueError with the reason, also for NaN and infinities, which Python's json module would accept."""
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except json.JSONDecodeError as fault:
        raise ValueError(f"this is not JSON: {fault.msg} at column {fault.colno}") from None


def parse(line: str | bytes) -> Mapping[str, Any]:
    """Read a line in the format of to_json(), and return its fields by name. Fields may be missing. Raises ValueError with the reason."""
    found = read_json(line)
    if not isinstance(found, dict):
        raise ValueError('expected an object such as {"key": "k", "value": "v"}; for plain values use --format lines')
    if not found.keys() <= _FIELDS:
        unknown = sorted(found.keys() - _FIELDS)
        advice = did_you_mean(unknown[0], FIELDS) or "; for plain values use --format lines"
        raise ValueError(f"unknown field '{unknown[0]}', expected some of {', '.join(FIELDS)}{advice}")
    return found


def parse_lines(block: bytes) -> list[dict[str, Any]] | None:
    """Return what parse() of each line returns, but faster; None if the lines have to be parsed one by one.

    That is so if a line is empty or not plain, for example with spaces around the object, or if parse() raises an error for one.

    block: lines that end with a line feed or CR LF, except the last line.
    """
    found: list[Any] = []
    at = 0
    try:
        text = block.decode().replace("\r\n", "\n").removesuffix("\r")
        while at <= len(text):
            fields, end = _DECODER.raw_decode(text, at)
            found.append(fields)
            if end < len(text) and text[end] != "\n":
                return None
            at = end + 1
    except (ValueError, RecursionError):
        return None
    # An object may have line feeds between its fields. Then there are fewer objects than lines.
    one_in_each_line = len(found) == text.count("\n") + 1
    return found if one_in_each_line and set(map(type, found)) == {dict} and _FIELDS.issuperset(chain.from_iterable(found)) else None


def headers_of(given: Any) -> Headers:
    """Read headers: a list of {"key": ..., "value": ...}, an object of names and values, or None for no headers. Raises ValueError."""
    if not given and (given is None or isinstance(given, list)):
        return []
    if isinstance(given, dict):
        return [(name, to_bytes(value)) for name, value in given.items()]
    if isinstance(given, list) and all(isinstance(one, dict) and isinstance(one.get("key"), str) for one in given):
        return [(one["key"], to_bytes(one.get("value"))) for one in given]
    raise ValueError(f'headers must be a list such as [{{"key": "name", "value": "text"}}]; got {given!r}')
