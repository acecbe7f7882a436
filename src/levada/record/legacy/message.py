"""Reads and writes one message of magic 0 or 1, the formats before Kafka 0.11.

A message set is a sequence of entries; the number of entries is not stored. An entry is an offset, a size and one message. Each message
begins with a checksum over its other fields. Magic 1 added a timestamp. A message with a codec in its attributes is a wrapper: its value is
a compressed message set.
"""

from __future__ import annotations

import struct
from zlib import crc32

from levada.errors import CorruptRecordError
from levada.record.compression import Buffer, Codec
from levada.record.header import AFTER_LENGTH, CODEC_BITS, LEAST_LENGTH, MAGIC_AT
from levada.types import NO_TIMESTAMP

OFFSET_AND_SIZE = struct.Struct(">qi")
# Offset, size, checksum, magic, attributes, a timestamp if the magic is 1, and the key's size.
_HEAD = (struct.Struct(">qiIbbi"), struct.Struct(">qiIbbqi"))
_INT = struct.Struct(">i")
_CRC_AT = 12
_NULL = -1

Message = tuple[int, int, memoryview | None, memoryview | None]


def corrupt(offset: int, at: int, fault: str) -> CorruptRecordError:
    """Return the error for a message. offset: the Kafka offset. at: the position of the entry in its message set, in bytes."""
    return CorruptRecordError(f"message at offset {offset} (byte {at}): {fault}")


def check_entry(offset: int, size: int, magic: int, at: int) -> None:
    """Raise CorruptRecordError if an entry's offset is negative or its size is too small."""
    if offset < 0:
        raise corrupt(offset, at, "the offset is negative")
    if size < LEAST_LENGTH[magic]:
        raise corrupt(offset, at, f"a size of {size} bytes is less than an empty message's of magic {magic}")


def read_message(view: memoryview, at: int, end: int) -> Message:
    """Return (offset, timestamp, key, value) of the message with the entry view[at:end], which has passed check_entry().

    The timestamp is in ms, and -1 for magic 0. Raises CorruptRecordError if the sizes of key and value do not match the size of the entry.
    """
    if view[at + MAGIC_AT]:
        offset, _, _, _, _, timestamp, key_size = _HEAD[1].unpack_from(view, at)
        key_at = at + 30
    else:
        offset, _, _, _, _, key_size = _HEAD[0].unpack_from(view, at)
        timestamp = NO_TIMESTAMP
        key_at = at + 22
    size_at = key_at + key_size if key_size > 0 else key_at
    if key_size < _NULL or size_at > end - 4:
        raise corrupt(offset, at, f"a key of {key_size} bytes does not fit its message")
    (value_size,) = _INT.unpack_from(view, size_at)
    value_at = size_at + 4
    if value_size < _NULL or (value_at + value_size if value_size > 0 else value_at) != end:
        raise corrupt(offset, at, f"a value of {value_size} bytes does not fill its message")
    return offset, timestamp, None if key_size < 0 else view[key_at:size_at], None if value_size < 0 else view[value_at:end]


def has_checksum(view: memoryview, at: int, end: int) -> bool:
    """Whether the checksum of the message with the entry view[at:end] matches. The checksum is CRC-32; magic 2 has CRC-32C."""
    stored: int = struct.unpack_from(">I", view, at + _CRC_AT)[0]
    return crc32(view[at + MAGIC_AT : end]) == stored


def codec_of(attributes: int, offset: int, at: int) -> Codec:
    """Return the codec in a message's attributes. Raises CorruptRecordError for zstd and unknown codecs.

    offset, at: the offset of the message and its byte position, for the error.
    """
    number = attributes & CODEC_BITS
    if number >= Codec.ZSTD:
        name = "zstd, which magic 2 introduced" if number == Codec.ZSTD else f"unknown codec {number}"
        raise corrupt(offset, at, f"compressed with {name}")
    return Codec(number)


def write_message(
    target: bytearray,
    magic: int,
    offset: int,
    timestamp: int,
    key: Buffer | None,
    value: Buffer | None,
    *,
    codec: Codec = Codec.NONE,
) -> None:
    """Append one entry to `target`. codec: the codec of a wrapper, whose `value` is already compressed. key, value: None for null.

    timestamp: the CreateTime in ms; not used for magic 0.
    """
    key_size = _NULL if key is None else len(key)
    value_size = _NULL if value is None else len(value)
    start = len(target)
    size = LEAST_LENGTH[magic] + max(key_size, 0) + max(value_size, 0)
    if magic:
        target += _HEAD[1].pack(offset, size, 0, magic, codec, timestamp, key_size)
    else:
        target += _HEAD[0].pack(offset, size, 0, magic, codec, key_size)
    target += key or b""
    target += _INT.pack(value_size)
    target += value or b""
    with memoryview(target) as view:
        struct.pack_into(">I", view, start + _CRC_AT, crc32(view[start + MAGIC_AT : start + AFTER_LENGTH + size]))
