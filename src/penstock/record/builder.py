# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Records into the bytes of a record batch, one at a time or as rows of columns (M8, M14).

A record is written in two steps: the size of its body first, since the length goes in front, then the body, straight into the batch's
memory. Rows of columns are written by the same two steps, compiled without the interpreter lock; the C types are in builder.pxd.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

try:
    import cython  # type: ignore[import-untyped]
except ImportError:
    from penstock import _pure as cython

from penstock.errors import IllegalStateError
from penstock.record.compression import Codec
from penstock.record.header import HEADER_SIZE, finish_batch
from penstock.record.record import Header

if cython.compiled:
    from cython.cimports.libc.string import memcpy  # type: ignore[import-untyped]

# The most bytes of a record's length before its body.
MAX_LENGTH_SIZE = 5
_FIRST_ROOM = 512
# A compressed batch may turn out larger than its records compressed so far promise (M17).
_RATIO_SLACK = 1.05


def varint_size(value: int) -> int:
    """Return the bytes of a zigzag varint."""
    zigzag = (value << 1) ^ (value >> 63)
    size = 1
    while zigzag >= 0x80:
        zigzag >>= 7
        size += 1
    return size


def field_size(size: int) -> int:
    """Return the bytes of a field of `size` bytes with its length; -1 is null."""
    return 1 if size < 0 else varint_size(size) + size


def write_varint(target: Any, at: int, value: int) -> int:
    """Write a zigzag varint; return the position after it."""
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag >= 0x80:
        target[at] = (zigzag & 0x7F) | 0x80
        zigzag >>= 7
        at += 1
    target[at] = zigzag
    return at + 1


def write_field(target: Any, at: int, source: Any, start: int, size: int) -> int:
    """Write a field of `size` bytes with its length, -1 is null; return the position after it."""
    at = write_varint(target, at, size)
    if size <= 0:
        return at
    if cython.compiled:
        memcpy(target + at, source + start, size)
    else:
        target[at : at + size] = source[start : start + size]
    return at + size


def write_deltas(target: Any, at: int, timestamp_delta: int, offset_delta: int) -> int:
    """Write the attributes, always 0, and the deltas; return the position after them."""
    target[at] = 0
    at = write_varint(target, at + 1, timestamp_delta)
    return write_varint(target, at, offset_delta)


def pack_headers(headers: Sequence[Header]) -> bytes:
    """Return headers as they stand at the end of a record, with their count."""
    packed = bytearray()
    _append_varint(packed, len(headers))
    for name, value in headers:
        encoded = name.encode()
        _append_varint(packed, len(encoded))
        packed += encoded
        _append_varint(packed, -1 if value is None else len(value))
        packed += value or b""
    return bytes(packed)


def _append_varint(target: bytearray, value: int) -> None:
    at = len(target)
    target.extend(bytes(varint_size(value)))
    write_varint(target, at, value)


class RecordBatchBuilder:
    """A batch being filled, one record at a time.

    write_limit: bytes; the first record always fits, the batch is full when the next one would lead beyond the limit (M17).
    compression_ratio: what compressed size to expect per byte of records; an estimate from earlier batches, 1.0 to be safe (M18).
    """

    def __init__(
        self, codec: Codec = Codec.NONE, level: int | None = None, write_limit: int = 16384, compression_ratio: float = 1.0
    ) -> None:
        self.codec = codec
        self.level = level
        self.write_limit = write_limit
        self.records_count = 0
        self.base_timestamp = -1
        self.max_timestamp = -1
        self.compression_ratio = compression_ratio
        self._factor = compression_ratio * _RATIO_SLACK if codec else 1.0
        self._closed = False
        self._buffer = bytearray(min(max(write_limit, HEADER_SIZE), _FIRST_ROOM))
        self._at = HEADER_SIZE

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> int:
        """Add a record, whether or not it fits (ask has_room_for); return its offset within the batch. timestamp: ms since the epoch."""
        if self._closed:
            raise IllegalStateError("the batch is built; nothing can be appended to it")
        if self.records_count == 0:
            self.base_timestamp = self.max_timestamp = timestamp
        delta = timestamp - self.base_timestamp
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        tail = pack_headers(headers) if headers else b"\x00"
        body = 1 + varint_size(delta) + varint_size(self.records_count) + field_size(key_size) + field_size(value_size) + len(tail)
        self._reserve(MAX_LENGTH_SIZE + body)
        self._at = self._write(body, delta, key, key_size, value, value_size, tail)
        self.records_count += 1
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        return self.records_count - 1

    def has_room_for(self, size: int) -> bool:
        """Whether a record of `size` bytes may still be appended (M17)."""
        return self.records_count == 0 or (not self._closed and self.size_estimate + size <= self.write_limit)

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be appended (M17)."""
        return self._closed or (self.records_count > 0 and self.size_estimate >= self.write_limit)

    @property
    def size_estimate(self) -> int:
        """Bytes the batch will take; exact unless it is going to be compressed."""
        return HEADER_SIZE + int((self._at - HEADER_SIZE) * self._factor)

    def build(self) -> bytearray:
        """Return the whole sealed batch: base offset 0, leader epoch and producer fields -1. The builder takes no more records.

        After it `compression_ratio` is the observed one.
        """
        if self._closed:
            raise IllegalStateError("the batch is built already")
        if self.records_count == 0:
            raise IllegalStateError("a record batch cannot be empty")
        self._closed = True
        del self._buffer[self._at :]
        size = self._at - HEADER_SIZE
        batch = finish_batch(self._buffer, self.records_count, self.base_timestamp, self.max_timestamp, self.codec, self.level)
        self.compression_ratio = (len(batch) - HEADER_SIZE) / size
        self._buffer = bytearray()
        return batch

    def _reserve(self, size: int) -> None:
        missing = self._at + size - len(self._buffer)
        if missing > 0:
            self._buffer.extend(bytes(max(missing, len(self._buffer))))

    def _write(self, body: int, delta: int, key: Any, key_size: int, value: Any, value_size: int, tail: bytes) -> int:
        target: Any = self._buffer
        at = write_varint(target, self._at, body)
        at = write_deltas(target, at, delta, self.records_count)
        at = write_field(target, at, key, 0, key_size)
        at = write_field(target, at, value, 0, value_size)
        end = at + len(tail)
        self._buffer[at:end] = tail
        return end
