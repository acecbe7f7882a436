"""What JSON is read into: the kinds of columns, and the table that a schema becomes."""

from __future__ import annotations

from enum import IntEnum, auto
from typing import NamedTuple


class Kind(IntEnum):
    """What a column holds. The reader knows them by their order."""

    STRING = 0
    LONG = auto()
    INT = auto()
    DOUBLE = auto()
    BOOLEAN = auto()
    TIMESTAMP = auto()
    SHORT = auto()
    BYTE = auto()
    FLOAT = auto()
    DATE = auto()
    TIMESTAMP_NTZ = auto()
    BINARY = auto()
    DECIMAL = auto()
    STRUCT = auto()
    ARRAY = auto()


KINDS = tuple(range(len(Kind)))
TEXTS = (Kind.STRING, Kind.BINARY)
# Bytes per row of the columns that have their values side by side.
WIDTHS = {
    Kind.LONG: 8,
    Kind.INT: 4,
    Kind.DOUBLE: 8,
    Kind.TIMESTAMP: 8,
    Kind.SHORT: 2,
    Kind.BYTE: 1,
    Kind.FLOAT: 4,
    Kind.DATE: 4,
    Kind.TIMESTAMP_NTZ: 8,
    Kind.DECIMAL: 16,
}


class Plan(NamedTuple):
    """One column of the table. first, children: where its fields or the one column of its elements are."""

    kind: Kind
    name: bytes = b""
    first: int = 0
    children: int = 0
    precision: int = 0
    scale: int = 0


def written_key(name: bytes) -> bytes:
    """Return how a key is mostly written with its colon; nothing for one that needs escapes."""
    return b"" if b'"' in name or b"\\" in name or min(name, default=32) < 32 else b'"%s":' % name
