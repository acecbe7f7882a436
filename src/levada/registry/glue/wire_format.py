"""Glue's wire format: a byte for its version, a byte for the compression, the UUID of the schema version, and then the data.

With Protobuf, the data begin with the number of the message type as a varint: its place among the full names of all message types of the
file, nested ones included, in alphabetical order.
"""

from __future__ import annotations

import zlib
from uuid import UUID

from levada.errors import SerializationError

VERSION = 3
PLAIN = 0
ZLIB = 5
HEADER_SIZE = 18
MOST_BYTES = 64 << 20
"""The limit for the decompressed data of one key or value."""
_UUID = slice(2, HEADER_SIZE)
_OF_CONFLUENT = (0, 1)
_LONGEST_VARINT = 5


def packed(version_id: UUID, data: bytes, *, compress: bool) -> bytes:
    """Return the data with a header. compress: whether to compress the data with zlib."""
    if compress:
        return bytes((VERSION, ZLIB)) + version_id.bytes + zlib.compress(data)
    return bytes((VERSION, PLAIN)) + version_id.bytes + data


def is_of_glue(data: bytes) -> bool:
    """Whether a key or value begins as Glue's do."""
    return len(data) >= HEADER_SIZE and data[0] == VERSION


def version_id_of(data: bytes) -> bytes:
    """Return the 16 bytes of the UUID of the schema version. Raises SerializationError if the data do not begin with Glue's header."""
    if not is_of_glue(data):
        raise SerializationError(_why_not(data))
    return data[_UUID]


def unpacked(data: bytes, limit: int = MOST_BYTES) -> bytes:
    """Return the data after the header. limit: the largest size of decompressed data. Raises SerializationError."""
    if data[1] == PLAIN:
        return data[HEADER_SIZE:]
    if data[1] != ZLIB:
        raise SerializationError(f"compression {data[1]} is unknown: Glue has {PLAIN} (none) and {ZLIB} (zlib)")
    stream = zlib.decompressobj()
    try:
        # One byte more than allowed, so that too large data are noticed.
        found = stream.decompress(memoryview(data)[HEADER_SIZE:], limit + 1)
    except zlib.error as fault:
        raise SerializationError(f"the data cannot be decompressed: {fault}") from fault
    if len(found) > limit:
        raise SerializationError(f"{len(data)} bytes decompress to more than the limit of {limit} bytes")
    if not stream.eof or stream.unused_data:
        raise SerializationError("the compressed data are not complete" if not stream.eof else "other bytes follow the compressed data")
    return found


def after_message_number(data: bytes) -> bytes:
    """Return the data after the number of the message type. Raises SerializationError if they do not begin with one."""
    for position, byte in enumerate(data[:_LONGEST_VARINT]):
        if byte < 0x80:
            return data[position + 1 :]
    raise SerializationError("the data do not begin with the number of a message type")


def _why_not(data: bytes) -> str:
    if data and data[0] in _OF_CONFLUENT:
        return (
            f"it begins with {bytes(data[:5])!r}, not with Glue's header: was it written by Confluent's serializer? "
            "Read it with AvroDeserializer, JSONDeserializer or ProtobufDeserializer, or make one of them the secondary_deserializer"
        )
    if len(data) < HEADER_SIZE:
        return f"its length is {len(data)}, too short for Glue's header of {HEADER_SIZE}: was it written by a serializer of Glue?"
    return f"it begins with {bytes(data[:2])!r}, not with the byte {VERSION}: was it written by a serializer of Glue?"
