"""How results are printed: one function for tables, JSON and YAML of what the library's calls return."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from math import isfinite, isnan
from typing import IO, TYPE_CHECKING, Any
from uuid import UUID

from levada.base.text import HARMFUL, visible
from levada.cli.text import UNBOUNDED_WIDTH, in_one_line, yaml_text

if TYPE_CHECKING:
    from rich.table import Table


class OutputFormat(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def plain(value: Any) -> Any:
    """Return a result as what JSON and YAML know: records become mappings of their fields, sets and tuples lists, errors their texts.

    Keys of mappings become text, a TopicPartition `topic-0`. Enumerations become their values where these are text, else their names.
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
        return value.decode(errors="backslashreplace")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, UUID | BaseException | Decimal | timedelta):
        return str(value)
    if isinstance(value, frozenset | set):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} is not known to be printed")


def _key(key: Any) -> str:
    # A TopicPartition has a text of its own; enumerations are spelt as in values.
    return str(plain(key)) if isinstance(key, Enum) or not isinstance(key, tuple) else str(key)


def json_text(data: Any, *, indent: int | None = None) -> str:
    """Return JSON that a terminal can show: control characters are written out, other letters are not.

    NaN and infinities, which JSON has no numbers for, become the strings "NaN", "Infinity" and "-Infinity".
    """
    try:
        text = _encoded(data, indent)
    except ValueError:
        text = _encoded(_finite(data), indent)
    # Most text is ASCII, in which JSON leaves one control character.
    return text if text.isascii() and "\x7f" not in text else text.translate(_CONTROLS)


def _encoded(data: Any, indent: int | None) -> str:
    return _COMPACT(data) if indent is None else json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False)


def _finite(data: Any) -> Any:
    """Return plain() data with names in place of NaN and infinities."""
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    if isinstance(data, float) and not isfinite(data):
        return "NaN" if isnan(data) else "Infinity" if data > 0 else "-Infinity"
    return data


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
"""Made once: json.dumps makes an encoder for each call."""
_CONTROLS = {code: f"\\u{code:04x}" for first, last in HARMFUL for code in range(first, last + 1)}
"""What a terminal may act on, and halves of characters that have no UTF-8; json.dumps itself writes out what is below a space."""


def write(result: Any, to: IO[str], format: OutputFormat, *, columns: Sequence[str] = (), color: bool | None = None) -> None:
    """Print a result. columns: of a table, with what stands in its rows; default: all fields. JSON and YAML always have all of them.

    A list is a table with a row for each item, anything else a table of two columns: its fields and their values, without fields that are
    None. color: False for none, None where the terminal and NO_COLOR decide.
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
    from rich.console import Console

    width = None if to.isatty() else UNBOUNDED_WIDTH
    console = Console(file=to, no_color=True if color is False else None, highlight=False, width=width)
    headings, rows = _rows(data, columns)
    if not console.is_terminal and rows and all(cell.isprintable() for row in rows for cell in row):
        to.writelines(f"{line.rstrip()}\n" for line in _aligned(headings, rows))
        return
    with console.capture() as captured:
        console.print(_table(headings, rows))
    to.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _aligned(headings: Sequence[str], rows: list[list[str]]) -> Iterator[str]:
    """Yield the lines of a table as rich would print it, which takes minutes and a gigabyte for some 100,000 rows."""
    lines = [[_heading(heading) for heading in headings], *rows] if headings else rows
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True))


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _heading(name: str) -> str:
    return in_one_line(name.replace("_", " ").upper())


def table(data: Any, columns: Sequence[str] = ()) -> Table:
    """Return plain() data as a table with one line for each row: what does not fit into the terminal is cut off."""
    return _table(*_rows(data, columns), folds=False)


def _table(headings: Sequence[str], rows: list[list[str]], *, folds: bool = True) -> Table:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, show_header=bool(headings), header_style="bold")
    for index, heading in enumerate(headings or ("", "")):
        # A number that is cut off would be another one, so texts give way.
        is_text = any(not _NUMBER.fullmatch(row[index]) for row in rows)
        made.add_column(
            Text(_heading(heading), no_wrap=not folds), overflow="fold" if folds else "ellipsis", no_wrap=not (folds or is_text)
        )
    for row in rows:
        made.add_row(*(Text(cell, no_wrap=not folds) for cell in row))
    return made


_NUMBER = re.compile(r"[-\d.e+]*")


def _rows(data: Any, columns: Sequence[str]) -> tuple[Sequence[str], list[list[str]]]:
    """Return the headings, none for a single item, and the cells of a table."""
    if isinstance(data, list):
        items = [item if isinstance(item, dict) else {"value": item} for item in data]
        headings = columns or list(dict.fromkeys(name for item in items for name in item))
        return headings, [[in_one_line(cell(item.get(name))) for name in headings] for item in items]
    named = data if isinstance(data, dict) else {"value": data}
    shown = {name: value for name, value in _flat(named).items() if value is not None and (not columns or name in columns)}
    return (), [[in_one_line(name.replace("_", " ")), in_one_line(cell(value))] for name, value in shown.items()]


def _flat(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of one result, those of a result within it beside them."""
    flat: dict[str, Any] = {}
    for name, value in named.items():
        flat |= {f"{name} {inner}": one for inner, one in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def cell(value: Any) -> str:
    """Return one value of a table: a list of plain values with commas, what is deeper as JSON, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list) and not any(isinstance(item, list | dict) for item in value):
        return ",".join(map(cell, value))
    return json_text(value) if isinstance(value, list | dict) else str(value)
