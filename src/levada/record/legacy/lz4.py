"""The lz4 frames of magic 0 (KIP-57).

An lz4 frame begins with a magic number, a descriptor of flags and sizes, and a checksum of one byte over the descriptor. Kafka's first lz4
writer included the magic number in the checksum, and its readers expected this. So messages of magic 0 must still be written with that
wrong checksum, and their checksum must not be verified. But the lz4 library verifies the checksum, and writes a correct one. Therefore this
module corrects the checksum before the library decompresses a frame, and writes the wrong checksum after the library has compressed one.
"""

from __future__ import annotations

import struct

from levada.record.compression import LZ4_FLAGS_AT, LZ4_HAS_CONTENT_SIZE, Buffer

# The magic number (4 bytes), the flags, the block size, and the checksum (1 byte each).
_LEAST_HEADER = 7
_CONTENT_SIZE = 8

_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
_MASK = 0xFFFFFFFF


def mend_frame(frame: Buffer) -> Buffer:
    """Return a frame with the checksum that the lz4 standard requires. If the bytes are too short for a frame, return them unchanged."""
    return _with_checksum(frame, LZ4_FLAGS_AT)


def spoil_frame(frame: Buffer) -> Buffer:
    """Return a frame with the checksum that readers of magic 0 expect."""
    return _with_checksum(frame, 0)


def _with_checksum(frame: Buffer, start: int) -> Buffer:
    """Return a frame with a checksum over the bytes from `start` to the end of its descriptor."""
    if len(frame) < _LEAST_HEADER:
        return frame
    end = _LEAST_HEADER - 1 + (_CONTENT_SIZE if frame[LZ4_FLAGS_AT] & LZ4_HAS_CONTENT_SIZE else 0)
    if len(frame) <= end:
        return frame
    patched = bytearray(frame)
    patched[end] = xxh32_of_few(bytes(patched[start:end])) >> 8 & 0xFF
    return patched


def xxh32_of_few(data: bytes) -> int:
    """Return the xxHash32, with seed 0, of fewer than 16 bytes. For more bytes, the algorithm has steps that are missing here."""
    value = _PRIME_5 + len(data)
    whole = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        value = _rotated(value + word * _PRIME_3 & _MASK, 17) * _PRIME_4 & _MASK
    for byte in data[whole:]:
        value = _rotated(value + byte * _PRIME_5 & _MASK, 11) * _PRIME_1 & _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
