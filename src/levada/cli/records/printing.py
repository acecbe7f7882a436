"""Prints records as raw, json, yaml, hex, table, or by a template. Each format is a function from a record to bytes.

A terminal acts on escape sequences: they move its cursor, set its title, or make it send text as if the user had typed it. On a terminal,
control characters in records are therefore escaped, for example as \\x1b. A file or a pipe gets every byte unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from levada.base.text import did_you_mean, visible
from levada.cli.records.json_records import fields_of, to_json
from levada.cli.records.template import as_bytes, compiled
from levada.cli.text import counted, in_one_line, yaml_text
from levada.errors import ConfigError
from levada.types import AnyRecord

Printer = Callable[[AnyRecord], bytes]

HEX_WIDTH = 16
FORMATS: Mapping[str, str] = {
    "raw": "the bytes of the value; with -K also the key before it",
    "json": "one object per line; produce --format json reads these lines",
    "yaml": "one list, with the fields of json; nothing if there are no records",
    "hex": "a line about the record, then key and value as bytes and text",
    "table": "partition, offset, time, key and value in columns",
}
"""The formats by name. Text with a % is a template."""


def printer(format: str, *, to_terminal: bool, delimiter: bytes = b"\n", key_delimiter: bytes | None = None) -> Printer:
    """Return a function that formats a record as bytes. Raises ConfigError for an unknown format, or an unknown letter in a template.

    to_terminal: whether control characters are made visible in the formats raw and yaml, and in % formats. delimiter, key_delimiter: for
    the format raw, after each record and between key and value; key_delimiter None omits the key.
    """
    shown = _written_out if to_terminal else _as_it_is
    if "%" in format:
        return compiled(format, shown)
    if format == "json":
        return lambda record: to_json(record).encode() + b"\n"
    if format == "yaml":
        return lambda record: shown(yaml_text([fields_of(record)]).encode())
    if format == "raw":
        return _raw(shown, delimiter, key_delimiter)
    if format == "hex":
        return _hex
    if format == "table":
        return _table()
    raise ConfigError(f"format '{format}': expected {', '.join(FORMATS)}, or a template such as '%k: %s\\n'{did_you_mean(format, FORMATS)}")


def _as_it_is(some: bytes) -> bytes:
    return some


def _written_out(some: bytes) -> bytes:
    return visible(some.decode(errors="backslashreplace")).encode()


def _raw(shown: Callable[[bytes], bytes], delimiter: bytes, key_delimiter: bytes | None) -> Printer:
    if key_delimiter is None:
        return lambda record: shown(as_bytes(record.value)) + delimiter
    return lambda record: b"".join((shown(as_bytes(record.key)), key_delimiter, shown(as_bytes(record.value)), delimiter))


def _hex(record: AnyRecord) -> bytes:
    lines = [f"{record.topic}-{record.partition} @{record.offset} {time_text(record.timestamp)}"]
    for what, value in (("key", record.key), ("value", record.value)):
        lines.append(f"  {what} {'null' if value is None else counted(len(as_bytes(value)), 'byte')}")
        lines += _hex_lines(as_bytes(value))
    return "\n".join([*lines, ""]).encode()


def _hex_lines(data: bytes) -> list[str]:
    pieces = [(start, data[start : start + HEX_WIDTH]) for start in range(0, len(data), HEX_WIDTH)]
    return [f"    {start:06x}  {piece.hex(' '):<{HEX_WIDTH * 3}} {_letters(piece)}" for start, piece in pieces]


def _letters(piece: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in piece)


def _table() -> Printer:
    """Return the printer of a table. Rows are printed as records arrive, so the columns have fixed widths."""
    heading: list[bytes] = [_row("PARTITION", "OFFSET", "TIME", "KEY", "VALUE")]

    def show(record: AnyRecord) -> bytes:
        where = f"{record.topic}-{record.partition}"
        row = _row(where, str(record.offset), time_text(record.timestamp), _one_line(record.key), _one_line(record.value))
        return heading.pop() + row if heading else row

    return show


def _row(*cells: str) -> bytes:
    partition, offset, time, key, value = cells
    return f"{partition:<20} {offset:>10}  {time:<24} {key:<20} {value}".rstrip().encode() + b"\n"


def _one_line(value: object) -> str:
    if value is None:
        return "null"
    return in_one_line(as_bytes(value).decode(errors="backslashreplace"))


def time_text(timestamp_ms: int) -> str:
    """Return a timestamp as an ISO 8601 time in UTC, "-" if negative (the record has none), or the number if it is out of range."""
    if timestamp_ms < 0:
        return "-"
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
