"""Encodes and decodes numbers of variable length (varints).

Each byte has seven bits of the number, the lowest bits first. Its high bit is set if another byte follows. Tag sections and compact lengths
use unsigned varints. Records use signed varints, in which the sign is moved to the lowest bit (zigzag), so that small negative numbers are
short. A 32-bit number takes at most 5 bytes, a 64-bit number at most 10. Decoders raise ProtocolError for longer varints and for varints
with more bits, and TruncatedError if the bytes end inside a varint.
"""

from __future__ import annotations

from typing import TypeAlias

from levada.errors import ProtocolError, TruncatedError

Bytes: TypeAlias = bytes | bytearray | memoryview

UINT32_BITS = 32
UINT64_BITS = 64


def encode_uvarint(value: int) -> bytes:
    """Return a non-negative number of at most 64 bits as an unsigned varint. Raises ProtocolError for any other number."""
    if value < 0 or value >> UINT64_BITS:
        raise ProtocolError(f"{value} does not fit an unsigned varint")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_uvarint(data: Bytes, pos: int) -> tuple[int, int]:
    """Decode an unsigned 32-bit varint; return the number and the position after it."""
    if pos + 1 < len(data):
        # Nearly all varints have one or two bytes.
        byte, following = data[pos], data[pos + 1]
        if byte < 0x80:
            return byte, pos + 1
        if following < 0x80:
            return byte & 0x7F | following << 7, pos + 2
    return _decode(data, pos, UINT32_BITS)


def decode_uvarlong(data: Bytes, pos: int) -> tuple[int, int]:
    """Decode an unsigned 64-bit varint; return the number and the position after it."""
    return _decode(data, pos, UINT64_BITS)


def _decode(data: Bytes, pos: int, bits: int) -> tuple[int, int]:
    value = 0
    end = len(data)
    for shift in range(0, bits, 7):
        if pos >= end:
            raise TruncatedError("the bytes end inside a varint")
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return _within(value, bits), pos
    raise ProtocolError(f"a {bits}-bit varint is longer than {(bits + 6) // 7} bytes")


def _within(value: int, bits: int) -> int:
    if value >> bits:
        raise ProtocolError(f"a varint holds more than {bits} bits")
    return value


def zigzag(value: int) -> int:
    """Return the zigzag form of a number of at most 64 bits, whose lowest bit is the sign: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return value << 1 if value >= 0 else ~(value << 1)


def unzigzag(value: int) -> int:
    """Return the signed number that a zigzag number stands for, the reverse of zigzag()."""
    return (value >> 1) ^ -(value & 1)


def encode_varint(value: int) -> bytes:
    """Return a signed number of at most 64 bits as a zigzag varint. Raises ProtocolError for any other number.

    32-bit and 64-bit numbers have the same encoding.
    """
    return encode_uvarint(zigzag(value))


def decode_varint(data: Bytes, pos: int) -> tuple[int, int]:
    """Decode a signed 32-bit varint; return the number and the position after it."""
    value, pos = _decode(data, pos, UINT32_BITS)
    return unzigzag(value), pos


def decode_varlong(data: Bytes, pos: int) -> tuple[int, int]:
    """Decode a signed 64-bit varint; return the number and the position after it."""
    value, pos = _decode(data, pos, UINT64_BITS)
    return unzigzag(value), pos


def uvarint_size(value: int) -> int:
    """Return how many bytes encode_uvarint(value) takes."""
    return max(1, (value.bit_length() + 6) // 7)


def varint_size(value: int) -> int:
    """Return how many bytes encode_varint(value) takes."""
    return uvarint_size(zigzag(value))
