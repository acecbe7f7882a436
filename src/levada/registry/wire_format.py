"""Confluent's wire format: a zero byte, the schema id in four bytes (big-endian), and then the data.

Since Confluent Platform 8, a byte 1 and the schema's GUID in 16 bytes may stand there instead. Either may also be the value of a header of
the record. Then the key or value is the data alone.

With Protobuf, the data begin with the path of the message type in its file: the number of indexes, then each index, as zigzag varints. The
path [0], of the first message type in the file, is written as the single byte 0. If the id is in a header, the path follows it there.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeAlias
from uuid import UUID

from levada.errors import SerializationError

_HEADER = struct.Struct(">bI")
HEADER_SIZE = _HEADER.size
MAGIC = 0
GUID_MAGIC = 1
GUID_SIZE = 16
FIRST_MESSAGE = (0,)
_MOST_INDEXES = 100
_LONGEST_VARINT = 5

SchemaKey: TypeAlias = int | bytes
"""What identifies a schema: its id, or the 16 bytes of its GUID."""


def header(schema_id: int) -> bytes:
    """Return the zero byte and the schema id that precede the data."""
    return _HEADER.pack(MAGIC, schema_id)


def schema_id_of(data: bytes) -> int:
    """Return the schema id from a key or value. Raises SerializationError if it does not begin with a zero byte and a schema id."""
    if len(data) >= HEADER_SIZE:
        magic, schema_id = _HEADER.unpack_from(data)
        if magic == MAGIC:
            return int(schema_id)
    raise _no_id(data)


def guid_header(guid: str) -> bytes:
    """Return the byte 1 and the GUID that a record's header has."""
    return bytes([GUID_MAGIC]) + UUID(guid).bytes


def locate(data: bytes, header: bytes | None = None) -> tuple[SchemaKey, int]:
    """Return the schema id or GUID of a key or value, and the position in `data` after it.

    header: the value of the record's header __key_schema_id or __value_schema_id; None without it. With a header, `data` has no id, and the
    position is 0. Raises SerializationError.
    """
    if header is not None:
        return locate(header)[0], 0
    if len(data) >= HEADER_SIZE:
        magic, schema_id = _HEADER.unpack_from(data)
        if magic == MAGIC:
            return schema_id, HEADER_SIZE
        if magic == GUID_MAGIC and len(data) > GUID_SIZE:
            return bytes(data[1 : 1 + GUID_SIZE]), 1 + GUID_SIZE
    raise _no_id(data)


def _no_id(data: bytes) -> SerializationError:
    if len(data) < HEADER_SIZE:
        return SerializationError(
            f"its length is {len(data)}, too short for a schema id: was it written by a serializer of a schema registry?"
        )
    return SerializationError(
        f"it begins with {bytes(data[:HEADER_SIZE])!r}, not with a zero byte and a schema id: "
        "was it written by a serializer of a schema registry, with the id before the data?"
    )


def told_key(key: SchemaKey) -> str:
    """Return a schema id or GUID as text for errors."""
    return f"id {key}" if isinstance(key, int) else f"GUID {UUID(bytes=key)}"


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
        if index < 0:
            raise SerializationError(f"a message index of {index} is not possible")
        path.append(index)
    return tuple(path), position


def locate_message(data: bytes, header: bytes | None) -> tuple[SchemaKey, tuple[int, ...], int]:
    """Return the schema id or GUID of a key or value, the path of its message type, and the position in `data` where the message begins.

    header: as for locate().
    """
    before = data if header is None else header
    key, position = locate(before)
    path, position = read_message_path(before, position)
    return key, path, position if header is None else 0


def _zigzag(number: int) -> bytes:
    return uvarint(number << 1 if number >= 0 else (-number << 1) - 1)


def uvarint(number: int) -> bytes:
    """Return a number that is not negative as a varint."""
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
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
