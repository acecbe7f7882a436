"""Prints the results of the library's calls as tables, JSON or YAML."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from math import isfinite, isnan
from typing import IO, Any
from uuid import UUID

from levada.base.text import HARMFUL, visible
from levada.cli.tables import as_wide_as_needed, of_one_result, within
from levada.cli.text import in_one_line, yaml_text

BASE64 = "base64"


class OutputFormat(StrEnum):
    """The output formats of results."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def plain(value: Any) -> Any:
    """Convert a result to types that JSON and YAML have.

    Named tuples and dataclasses become mappings; sets, tuples and other iterables become lists. Bytes become text, or {"base64": ...} if
    they are not UTF-8; dates and times become ISO 8601; UUIDs, decimals, durations and errors become their texts. Enum members become their
    values if these are text, else their names. Keys of mappings become text: `topic-0` for a TopicPartition. Raises TypeError for any other
    type.
    """
    if value is None or isinstance(value, bool | float) or type(value) in (int, str):
        return value
    if isinstance(value, Enum):
        return value.value if isinstance(value.value, str) else value.name
    if isinstance(value, int | str):
        return int(value) if isinstance(value, int) else str(value)
    if hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {BASE64: base64.b64encode(value).decode()}
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, UUID | BaseException | Decimal | timedelta):
        return str(value)
    if isinstance(value, frozenset | set):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} cannot be printed")


def _key(key: Any) -> str:
    # str() of a TopicPartition is topic-0, which plain() would turn into a mapping. Enum members are spelt like in values.
    return str(plain(key)) if isinstance(key, Enum) or not isinstance(key, tuple) else str(key)


def json_text(data: Any, *, indent: int | None = None) -> str:
    """Return plain() data as JSON that is safe for a terminal: HARMFUL characters are escaped, other characters outside ASCII are not.

    NaN and infinities, which JSON cannot hold as numbers, become the strings "NaN", "Infinity" and "-Infinity". indent: spaces per level;
    None for one line.
    """
    try:
        text = _encoded(data, indent)
    except ValueError:
        text = _encoded(_finite(data), indent)
    return _harmless(text)


def json_strings(texts: Sequence[str | None]) -> list[str]:
    """Return json_text() of each text, but faster if all are ASCII."""
    quote = json.encoder.encode_basestring
    quoted = ["null" if text is None else quote(text) for text in texts]
    return quoted if _is_harmless("".join(quoted)) else [_harmless(text) for text in quoted]


def _harmless(text: str) -> str:
    return text if _is_harmless(text) else text.translate(_CONTROLS)


def _is_harmless(text: str) -> bool:
    # Most text is ASCII. Of its control characters, the encoder leaves only DEL (0x7f) unescaped.
    return text.isascii() and "\x7f" not in text


def _encoded(data: Any, indent: int | None) -> str:
    return _COMPACT(data) if indent is None else json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False)


def _finite(data: Any) -> Any:
    """Return plain() data with NaN and infinities replaced by strings."""
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    if isinstance(data, float) and not isfinite(data):
        return "NaN" if isnan(data) else "Infinity" if data > 0 else "-Infinity"
    return data


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
"""Made once, because json.dumps would make a new encoder for each call."""
_CONTROLS = {code: f"\\u{code:04x}" for first, last in HARMFUL for code in range(first, last + 1)}
"""Escapes of surrogates, which UTF-8 cannot hold, and of characters that a terminal may act on. json.dumps escapes U+0000 to U+001F."""


def write(result: Any, to: IO[str], format: OutputFormat, *, columns: Sequence[str] = (), color: bool | None = None) -> None:
    """Print a result in a format.

    A list becomes a table with a row for each item. Any other result becomes a table of two columns: its fields and their values, without
    fields that are None. columns: the fields to show in a table; default: all. JSON and YAML always have all fields. color: False for no
    colours; None lets the terminal and NO_COLOR decide.
    """
    data = plain(result)
    if format is OutputFormat.JSON:
        to.write(json_text(data, indent=2) + "\n")
    elif format is OutputFormat.YAML:
        text = yaml_text(data)
        to.write(visible(text) if to.isatty() else text)
    else:
        _write_table(data, to, columns, color)


def _write_table(data: Any, to: IO[str], columns: Sequence[str], color: bool | None) -> None:
    headings, rows = _rows(data, columns)
    if not to.isatty():
        to.writelines(f"{line}\n" for line in as_wide_as_needed(headings, rows))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=to, no_color=True if color is False else None, highlight=False)
    if not headings:
        to.writelines(f"{line}\n" for line in of_one_result(console.width, rows))
        return
    layout = within(console.width, headings, rows)
    for line in layout.headings:
        console.print(Text(line, style="bold"), soft_wrap=True)
    to.writelines(f"{line}\n" for line in layout.rows)
    if layout.left_out:
        console.print(Text(f"(too narrow for {', '.join(layout.left_out)}; --output json shows all)", style="dim"), soft_wrap=True)


def _rows(data: Any, columns: Sequence[str]) -> tuple[Sequence[str], list[list[str]]]:
    """Return the headings and the cells of a table. A single item has no headings, only two columns: name and value."""
    if isinstance(data, list):
        items = [item if isinstance(item, dict) else {"value": item} for item in data]
        headings = columns or list(dict.fromkeys(name for item in items for name in item))
        return [in_one_line(name.replace("_", " ").upper()) for name in headings], [
            [in_one_line(cell(item.get(name))) for name in headings] for item in items
        ]
    named = data if isinstance(data, dict) else {"value": data}
    shown = {name: value for name, value in _flat(named).items() if value is not None and (not columns or name in columns)}
    return (), [[in_one_line(name.replace("_", " ")), in_one_line(cell(value))] for name, value in shown.items()]


def _flat(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a result. A field that is itself a result is replaced by that one's fields, named "outer inner"."""
    flat: dict[str, Any] = {}
    for name, value in named.items():
        flat |= {f"{name} {inner}": one for inner, one in value.items()} if isinstance(value, dict) else {name: value}
    return flat


_OF_PARTITION = frozenset({"topic", "partition"})


def cell(value: Any) -> str:
    """Return the text of a table's cell: "" for None, commas between the values of a flat list, JSON for nested data.

    Partitions are written like on the command line: orders:0,2.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list) and value and all(isinstance(item, dict) and item.keys() == _OF_PARTITION for item in value):
        return _partitions(value)
    if isinstance(value, list) and not any(isinstance(item, list | dict) for item in value):
        return ",".join(map(cell, value))
    return json_text(value) if isinstance(value, list | dict) else str(value)


def _partitions(partitions: Iterable[Mapping[str, Any]]) -> str:
    by_topic: dict[str, list[str]] = {}
    for one in partitions:
        by_topic.setdefault(one["topic"], []).append(str(one["partition"]))
    return " ".join(f"{topic}:{','.join(indexes)}" for topic, indexes in by_topic.items())
