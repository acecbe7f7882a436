"""Reads records from lines, JSON lines, CSV and whole files. Each record has the number of its line."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import IO, Any, NamedTuple, TypeVar

from levada.base.clock import epoch_ms
from levada.base.text import did_you_mean
from levada.cli.arguments import as_typed
from levada.cli.output import json_text
from levada.cli.records.json_records import FIELDS, headers_of, parse, read_json, to_bytes
from levada.cli.text import counted
from levada.errors import ConfigError
from levada.types import Headers

BLOCK_BYTES = 1 << 20

T = TypeVar("T")


class InputRecord(NamedTuple):
    """A record to be sent. line: its line number in the file, from 1, or its row number in a file without lines."""

    line: int
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None


class InputError(Exception):
    """Raised if a line cannot be read as a record. line: its number, from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class Nulls(NamedTuple):
    """The texts that mean null in lines, CSV and whole files. empty: whether empty text means null. marker: another such text, or None."""

    empty: bool = False
    marker: bytes | None = None

    def of(self, given: bytes) -> bytes | None:
        """Return a key or value, or None if its text means null."""
        return None if given == self.marker or (self.empty and not given) else given


def lines(block: bytes, first: int, delimiter: bytes, key_delimiter: bytes | None, nulls: Nulls) -> Iterator[InputRecord]:
    """Read one record from each line of a block: a value, or a key, the key delimiter and a value.

    first: the number of the first line. key_delimiter: None for lines without keys. Raises InputError for a line without the key delimiter.
    """
    for number, line in enumerate(block.split(delimiter), first):
        key, found, value = line.partition(key_delimiter) if key_delimiter is not None else (b"", b"", line)
        if key_delimiter is not None and not found:
            raise InputError(number, f"there is no key delimiter {key_delimiter.decode(errors='backslashreplace')!r} in it")
        yield InputRecord(number, nulls.of(value), nulls.of(key) if found else None)


def json_lines(block: bytes, first: int = 1) -> Iterator[InputRecord]:
    """Read one record from each line of JSON, in the format of `consume --format json`. Empty lines are skipped.

    first: the number of the first line. Raises InputError.
    """
    for number, line in enumerate(block.split(b"\n"), first):
        if line.strip():
            yield _reading(number, parse, line)


RECORD_COLUMNS = (*FIELDS, "timestamp_type", "leader_epoch")
"""The columns of a file of records, such as a file of `levada scan`. produce does not use all: topic, offset, timestamp_type and
leader_epoch are left out."""


def check_columns(names: Sequence[str]) -> None:
    """Raise ValueError for a column that records do not have, because its content would be lost."""
    if unknown := [name for name in names if name not in RECORD_COLUMNS]:
        near = did_you_mean(unknown[0], RECORD_COLUMNS)
        raise ValueError(f"records have no column '{unknown[0]}'; --ignore-columns leaves it out{near}")


def csv_rows(stream: IO[bytes], nulls: Nulls, *, ignores_columns: bool = False) -> Iterator[InputRecord]:
    """Read one record from each row of a CSV file with a heading.

    If there is a column `value`, the record is read from the columns key, value, headers (JSON), partition and timestamp. Otherwise each
    row becomes the value as a JSON object. ignores_columns: leave out columns that records do not have, instead of raising an error.
    Raises InputError for the first row that is no record.
    """
    text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
    rows = csv.DictReader(text)
    try:
        is_record = "value" in (rows.fieldnames or ())
        if is_record and not ignores_columns:
            _check_heading(rows)
        for row in rows:
            if None in row or None in row.values():
                raise InputError(rows.line_num, f"it does not have {counted(len(rows.fieldnames or ()), 'column')}, like the heading")
            if is_record:
                yield _reading(rows.line_num, partial(_of_row, nulls=nulls), row)
            else:
                yield InputRecord(rows.line_num, json_text(row).encode())
    except (csv.Error, UnicodeDecodeError) as fault:
        raise InputError(rows.line_num + 1, str(fault)) from None
    finally:
        text.detach()


def _check_heading(rows: csv.DictReader[str]) -> None:
    try:
        check_columns(rows.fieldnames or ())
    except ValueError as fault:
        raise InputError(rows.line_num, str(fault)) from None


def whole_file(stream: IO[bytes], nulls: Nulls) -> Iterator[InputRecord]:
    """Read the whole file as the value of one record."""
    yield InputRecord(1, nulls.of(stream.read()))


def blocks(stream: IO[bytes], delimiter: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of whole lines as soon as they are read: the number of the first line, and the lines without the last one's delimiter.

    A block has about BLOCK_BYTES at most, or one line. The stream's last line need not end with the delimiter; an empty one is no line.
    """
    first = 1
    left: list[bytes] = []
    tail = b""
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    while some := read(BLOCK_BYTES):
        left.append(some)
        seen = tail + some
        if delimiter in seen:
            block = b"".join(left)
            # Not rpartition(): of "|||" the first two are the delimiter "||".
            *whole, rest = block.split(delimiter)
            yield first, block[: len(block) - len(rest) - len(delimiter)]
            first += len(whole)
            left, seen = [rest], rest
        # A delimiter may come in two reads.
        tail = seen[len(seen) - len(delimiter) + 1 :] if len(seen) >= len(delimiter) else seen
    if rest := b"".join(left):
        yield first, rest


def _of_row(row: Mapping[str, str], nulls: Nulls) -> Mapping[str, Any]:
    """Return a row as the fields of a record. Empty cells of partition, timestamp and headers count as not given."""
    fields: dict[str, Any] = {name: text for name, text in row.items() if name in ("partition", "timestamp", "headers") and text}
    if "headers" in fields:
        fields["headers"] = read_json(fields["headers"])
    if "timestamp" in fields:
        fields["timestamp"] = _milliseconds(fields["timestamp"])
    return {**fields, **{name: _text(nulls.of(row[name].encode())) for name in ("key", "value") if name in row}}


def _milliseconds(text: str) -> int:
    """Read a timestamp: milliseconds since the epoch, or a date and time, as `scan` writes it. One without a time zone counts as UTC."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"timestamp must be milliseconds since the epoch, or such as 2026-11-01 10:00:00Z; got {text!r}") from None
    return epoch_ms(when.replace(tzinfo=when.tzinfo or UTC))


def _text(given: bytes | None) -> str | None:
    return None if given is None else given.decode()


def _reading(number: int, read: Callable[[T], Mapping[str, Any]], given: T) -> InputRecord:
    try:
        fields = read(given)
        return InputRecord(
            number,
            to_bytes(fields.get("value")),
            to_bytes(fields.get("key")),
            headers_of(fields.get("headers")),
            whole_number(fields, "partition"),
            whole_number(fields, "timestamp"),
        )
    except ValueError as fault:
        raise InputError(number, str(fault)) from None
    except RecursionError:
        raise InputError(number, "this JSON is nested too deeply") from None


def whole_number(fields: Mapping[str, Any], name: str) -> int | None:
    """Return the partition or timestamp of a record; None if it is not given, or is the timestamp -1. Raises ValueError."""
    given = fields.get(name)
    if given is None or (name == "timestamp" and given == -1):
        return None
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise ValueError(f"{name} must be a whole number, got {given!r}")
    try:
        return int(given)
    except ValueError:
        raise ValueError(f"{name} must be a whole number, got {given!r}") from None


def header_options(given: Sequence[str]) -> Headers:
    """Parse headers of -H: name=value, or a name alone for a header with value null. Raises ConfigError."""
    pairs = [one.partition("=") for one in given]
    for name, _, _ in pairs:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"--header {name!r}: names of headers are UTF-8") from None
    return [(name, as_typed(value) if equals else None) for name, equals, value in pairs]
