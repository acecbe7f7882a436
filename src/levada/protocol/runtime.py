"""Functions that generated encoders and decoders call outside their fast path.

They raise a ProtocolError or TruncatedError with the fault only. The generated function adds API, version, position and field.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct, calcsize, unpack_from
from typing import Final
from uuid import UUID

from levada.errors import ProtocolError, TooManyElementsError, TruncatedError
from levada.wire.varint import Bytes, decode_uvarint, encode_uvarint

MAX_STRING_BYTES: Final = 32767
MAX_UNKNOWN_TAGS: Final = 100_000
"""The most unknown tagged fields in one message. A newer peer sends a few per partition; skipping millions would take seconds."""
MAX_REQUEST_ELEMENTS: Final = 100_000
"""The most elements of all arrays in one request. A client sends an element in two bytes; a broker needs far longer to process it."""
SMALLEST_TAG: Final = 2
"""Bytes of a tagged field without a value."""

# Varints below 128: nearly all lengths and counts.
SHORT: Final = tuple(bytes([value]) for value in range(128))
# Makes a varint of two bytes.
pair: Final = Struct("BB").pack

# Types whose len() is their size in bytes, and that can be written without a view.
PLAIN: Final = (bytes, bytearray)


@lru_cache(maxsize=4096)
def uuid_of(data: bytes) -> UUID:
    """Return the UUID that 16 bytes hold. The results are cached, because the same topic ids repeat, and making a UUID is slow."""
    return UUID(bytes=data)


def read_string_head(data: Bytes, pos: int) -> tuple[int, int]:
    """Decode the length field of a compact string. Return its value, which is the length plus one, and the position after the field."""
    value, pos = decode_uvarint(data, pos)
    if value > MAX_STRING_BYTES + 1:
        raise ProtocolError(f"a string announces {value - 1} bytes, more than {MAX_STRING_BYTES}")
    return value, pos


def write_string_head(value: int) -> bytes:
    """Return the length field of a compact string of 16383 bytes or more. value: the length of the string plus one."""
    if value > MAX_STRING_BYTES + 1:
        raise ProtocolError(f"a string of {value - 1} bytes is longer than {MAX_STRING_BYTES}")
    return encode_uvarint(value)


def read_numbers(letter: str, count: int, data: Bytes, pos: int, end: int, nullable: bool) -> tuple[list[int | float] | None, int]:
    """Decode an array of numbers. Return the numbers, or None for a null array, and the position after them.

    letter: the format of a number, as in the struct module. count: the number of elements; -1 for a null array, which is an error unless
    `nullable`.
    """
    if count == -1 and nullable:
        return None, pos
    size = calcsize(f">{letter}")
    if not 0 <= count <= (end - pos) // size:
        raise count_fault(count, end - pos, size)
    return list(unpack_from(f">{count}{letter}", data, pos)), pos + count * size


def length_fault(length: int, remaining: int) -> ProtocolError:
    """Return the error for the length of a string or bytes field that is negative or exceeds the remaining bytes."""
    if length == -1:
        return ProtocolError("null where null is not allowed")
    if length < 0:
        return ProtocolError(f"negative length {length}")
    return TruncatedError(f"{length} bytes are announced, but only {remaining} remain")


def count_fault(count: int, remaining: int, smallest: int) -> ProtocolError:
    """Return the error for an invalid count of an array whose elements take at least `smallest` bytes."""
    if count == -1:
        return ProtocolError("null where null is not allowed")
    if count < 0:
        return ProtocolError(f"negative count {count}")
    return TruncatedError(f"{count} elements of at least {smallest} bytes are announced, but only {remaining} bytes remain")


def read_tag_head(data: Bytes, pos: int, end: int, last: int) -> tuple[int, int, int]:
    """Decode the tag and the size of a tagged field. Return the tag, and the positions where its value begins and ends.

    last: the previous tag, or -1 for the first one. end: the end of the data.
    """
    tag, pos = decode_uvarint(data, pos)
    size, pos = decode_uvarint(data, pos)
    if tag <= last:
        raise ProtocolError(f"tag {tag} follows tag {last}; tags must ascend")
    if size > end - pos:
        raise TruncatedError(f"tag {tag} announces {size} bytes, but only {end - pos} remain")
    return tag, pos, pos + size


def skip_tags(data: Bytes, pos: int, end: int, unknown: int = 0) -> tuple[int, int]:
    """Skip a tag section in which no tag is known. Return the position after it, and the number of the message's unknown tags so far.

    unknown: the number of the message's unknown tags before this section. Raises TooManyElementsError and ProtocolError.
    """
    count, pos = decode_uvarint(data, pos)
    if count > (end - pos) // SMALLEST_TAG:
        raise count_fault(count, end - pos, SMALLEST_TAG)
    return skip_tagged_fields(data, pos, end, count, -1, unknown)


def skip_tagged_fields(data: Bytes, pos: int, end: int, count: int, last: int, unknown: int) -> tuple[int, int]:
    """Skip `count` unknown tagged fields. Return the position after them, and the number of the message's unknown tags so far.

    last: the previous tag, or -1. unknown: the number of the message's unknown tags before. Raises TooManyElementsError and ProtocolError.
    """
    unknown = count_unknown(unknown, count)
    for _ in range(count):
        start = pos + 2
        if start < end:
            # Tags of up to two bytes with values below 128 bytes are skipped without a call, because a message may have thousands of them.
            tag, size = data[pos], data[pos + 1]
            if tag > 0x7F > size:
                tag, size = tag & 0x7F | size << 7, data[start]
                start += 1
            if last < tag and size < 0x80 and start + size <= end:
                last, pos = tag, start + size
                continue
        last, _, pos = read_tag_head(data, pos, end, last)
    return pos, unknown


def count_unknown(unknown: int, more: int = 1) -> int:
    """Return unknown + more, the number of a message's unknown tags so far. Raises TooManyElementsError beyond the limit."""
    if unknown + more > MAX_UNKNOWN_TAGS:
        raise TooManyElementsError(f"a message has {unknown + more} or more unknown tagged fields; the limit is {MAX_UNKNOWN_TAGS}")
    return unknown + more


def elements_fault(elements: int) -> TooManyElementsError:
    """Return the error for a request with too many array elements."""
    return TooManyElementsError(f"a request has {elements} or more array elements; the limit is {MAX_REQUEST_ELEMENTS}")


def tag_size_fault(tag: int, pos: int, stop: int) -> ProtocolError:
    """Return the error for a tagged field whose value does not end at its announced size."""
    return ProtocolError(f"the value of tag {tag} ends {abs(pos - stop)} bytes {'after' if pos > stop else 'before'} its announced end")


def tagged(tag: int, parts: list[Bytes]) -> bytes:
    """Return an encoded tagged field: its tag, the size of its value, and the value. parts: the buffers of the encoded value."""
    value = b"".join(parts)
    return encode_uvarint(tag) + encode_uvarint(len(value)) + value
