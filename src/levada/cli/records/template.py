r"""Templates for records, with kcat's letters: `-f '%t/%p @%o: %k=%s\n'`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from levada.cli.arguments import as_typed
from levada.cli.output import json_text, plain
from levada.cli.text import in_one_line
from levada.errors import ConfigError
from levada.types import AnyRecord, Headers

Part = Callable[[AnyRecord], bytes]


def as_bytes(value: Any) -> bytes:
    """Return a key or value as bytes for printing: b"" for null, JSON for a deserialized value."""
    if value is None:
        return b""
    return value if isinstance(value, bytes) else json_text(plain(value)).encode()


def _size(value: Any) -> int:
    return -1 if value is None else len(as_bytes(value))


def _headers(headers: Headers) -> bytes:
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in headers)


TOKENS: Mapping[str, tuple[str, Part]] = {
    "t": ("topic", lambda record: record.topic.encode()),
    "p": ("partition", lambda record: b"%d" % record.partition),
    "o": ("offset", lambda record: b"%d" % record.offset),
    "k": ("key", lambda record: as_bytes(record.key)),
    "s": ("value", lambda record: as_bytes(record.value)),
    "v": ("value", lambda record: as_bytes(record.value)),
    "K": ("size of the key in bytes, -1 for null", lambda record: b"%d" % _size(record.key)),
    "S": ("size of the value in bytes, -1 for null", lambda record: b"%d" % _size(record.value)),
    "R": (
        "size of the value in bytes, -1 for null, as a binary 32-bit number",
        lambda record: _size(record.value).to_bytes(4, "big", signed=True),
    ),
    "T": ("timestamp in milliseconds", lambda record: b"%d" % record.timestamp),
    "h": ("headers, name=value with commas", lambda record: _headers(record.headers)),
    "e": (
        "why key or value could not be decoded, empty if they were",
        lambda record: b"" if record.decode_error is None else in_one_line(str(record.decode_error.__cause__)).encode(),
    ),
}
"""The letters after %, each with its meaning and its function."""

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "\\": b"\\", "0": b"\0"}
_PIECE = re.compile(r"%(?P<token>.?)|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.)|(?P<text>[^%\\]+)|\\", re.DOTALL)


def unescaped(text: str) -> bytes:
    r"""Return text as bytes, with the escapes \n, \t, \r, \0, \\ and \xHH replaced, such as a delimiter from the command line."""
    return b"".join(_piece_bytes(found) for found in _PIECE.finditer(text.replace("%", "%%")))


def compiled(template: str, shown: Callable[[bytes], bytes]) -> Part:
    """Return a function that formats a record by a template. Raises ConfigError for an unknown letter.

    shown: applied to the record's data but not to the template's own text; it escapes control characters for a terminal.
    """
    parts: list[bytes | Part] = []
    for found in _PIECE.finditer(template):
        token = found["token"]
        if token is None or token == "%":
            parts.append(_piece_bytes(found))
        elif token in TOKENS:
            parts.append(TOKENS[token][1])
        else:
            known = ", ".join(f"%{letter} ({meaning})" for letter, (meaning, _) in TOKENS.items())
            raise ConfigError(f"template '{template}': %{token} stands for nothing; there are {known} and %%")

    def show(record: AnyRecord) -> bytes:
        return b"".join(part if isinstance(part, bytes) else shown(part(record)) for part in parts)

    return show


def _piece_bytes(found: re.Match[str]) -> bytes:
    if found["token"] is not None:
        return b"%"
    if found["hex"] is not None:
        return bytes.fromhex(found["hex"])
    if found["escape"] is not None:
        return _ESCAPES.get(found["escape"]) or as_typed(found[0])
    return as_typed(found[0])
