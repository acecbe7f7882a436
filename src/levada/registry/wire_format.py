"""Confluent's wire format: a zero byte, the schema id in four bytes (big-endian), and then the data.

With Protobuf, the data begin with the path of the message type in its file: the number of indexes, then each index, as zigzag varints. The
path [0], of the first message type in the file, is written as the single byte 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from levada.errors import SerializationError

_HEADER = struct.Struct(">bI")
HEADER_SIZE = _HEADER.size
MAGIC = 0
FIRST_MESSAGE = (0,)
_MOST_INDEXES = 100
_LONGEST_VARINT = 5


def header(schema_id: int) -> bytes:
    """Return the zero byte and the schema id that precede the data."""
    return _HEADER.pack(MAGIC, schema_id)


def schema_id_of(data: bytes) -> int:
    """Return the schema id from a key or value. Raises SerializationError if it does not begin with a zero byte and a schema id."""
    if len(data) < HEADER_SIZE:
        raise SerializationError(f"{len(data)} bytes are too few for a schema id: was it written by a serializer of a schema registry?")
    magic, schema_id = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise SerializationError(
            f"it begins with {bytes(data[:HEADER_SIZE])!r}, not with a zero byte and a schema id: "
            "was it written by a serializer of a schema registry?"
        )
    return int(schema_id)


def message_path(indexes: Sequence[int]) -> bytes:
    """Return the path of a message type in its file, encoded."""
    if tuple(indexes) == FIRST_MESSAGE:
        return b"\x00"
    return b"".join(_zigzag(number) for number in (len(indexes), *indexes))


def read_message_path(data: bytes, position: int) -> tuple[tuple[int, ...], int]:
    """Return the path of a message type at a position, and the position after it. Raises SerializationError if the path is invalid."""
    count, position = _read_zigzag(data, position)
    if count == 0:
        return FIRST_MESSAGE, position
    if not 0 < count <= _MOST_INDEXES:
        raise SerializationError(f"{count} message indexes are not possible: was it written by a Protobuf serializer of a schema registry?")
    path = []
    for _ in range(count):
        index, position = _read_zigzag(data, position)
        path.append(index)
    return tuple(path), position


def _zigzag(number: int) -> bytes:
    left = number << 1 if number >= 0 else (-number << 1) - 1
    written = bytearray()
    while left >= 0x80:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    written.append(left)
    return bytes(written)


def _read_zigzag(data: bytes, position: int) -> tuple[int, int]:
    raw = 0
    for shift in range(0, 7 * _LONGEST_VARINT, 7):
        if position >= len(data):
            raise SerializationError("the data end within the message indexes")
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw >> 1 ^ -(raw & 1), position
    raise SerializationError(f"a message index takes more than {_LONGEST_VARINT} bytes")
