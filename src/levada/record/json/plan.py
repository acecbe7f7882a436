"""The kinds of columns that JSON is read into, and the table of columns that is made from a schema."""

from __future__ import annotations

from enum import IntEnum, auto
from typing import NamedTuple


class Kind(IntEnum):
    """The type of a column's values. The reader depends on the order of the members."""

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
# Bytes per row of the columns whose values have a fixed width of whole bytes.
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
    """One column of the table. first, children: the index and number of its fields, or of the one column of its elements."""

    kind: Kind
    name: bytes = b""
    first: int = 0
    children: int = 0
    precision: int = 0
    scale: int = 0


def written_key(name: bytes) -> bytes:
    """Return the usual text of a key with its colon; b"" for a key that needs escapes."""
    return b"" if b'"' in name or b"\\" in name or min(name, default=32) < 32 else b'"%s":' % name
