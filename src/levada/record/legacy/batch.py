"""Reads message sets as if they were record batches, so that other code handles only record batches.

Messages are converted to the bytes that they would have in a batch of magic 2, and these bytes are then read (up-conversion). Magic 0 has
no timestamps: its records and columns have the timestamp -1 and the type NO_TIMESTAMP_TYPE.

Each uncompressed message is an entry of its own in the message set. Consecutive messages with the same magic and attributes are read as one
batch of up to 1 MiB, as long as their checksums match and their offsets ascend. A corrupt message is a batch of its own, so that the other
messages stay readable. A wrapper, a message that contains compressed messages, is a batch, too. The offset of a wrapper is the offset of
its last message. Its first offset and its number of messages require decompression, which happens when one of them is first used.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from levada.errors import CorruptRecordError
from levada.record.batch import RecordBatch
from levada.record.compression import DEFAULT_MAX_DECOMPRESSED, Buffer, Codec, decompress
from levada.record.header import AFTER_LENGTH, CODEC_BITS, LEAST_LENGTH, LOG_APPEND_TIME, MAGIC_AT
from levada.record.legacy.lz4 import mend_frame
from levada.record.legacy.message import OFFSET_AND_SIZE, check_entry, codec_of, corrupt, has_checksum, read_message
from levada.types import TimestampType
from levada.wire.varint import encode_varint

_ATTRIBUTES_AT = MAGIC_AT + 1
# Limits the bytes that are converted at once. Brokers accept about this size for one batch by default (message.max.bytes).
_MAX_RUN_BYTES = 1 << 20
_MAX_OFFSET_DELTA = 2**31 - 1
_MOST = 2**63 - 1
_LEAST = -(2**63)
# -1, as a varint.
_NULL = b"\x01"
# Cached, because the same deltas and sizes occur often, and a cache hit takes a sixth of the time of encoding.
_varint = lru_cache(1 << 13)(encode_varint)
_TOLD_INSIDE = frozenset(("base_offset", "base_timestamp", "last_offset_delta", "max_timestamp", "records_count"))


class ConvertedRecords:
    """Messages that are converted to records of magic 2. payload: the encoded records. Offsets and timestamps are -1 without messages."""

    __slots__ = ("base_offset", "base_timestamp", "count", "last_offset", "max_timestamp", "payload")

    def __init__(self) -> None:
        self.payload = bytearray()
        self.count = 0
        self.base_offset = self.last_offset = self.base_timestamp = self.max_timestamp = -1

    def add(self, offset: int, timestamp: int, key: memoryview | None, value: memoryview | None) -> None:
        """Convert and add a message; its offset must be higher than the offset of the previous message. timestamp: ms, -1 for none.

        Raises CorruptRecordError if the timestamp is out of range; then nothing is added.
        """
        if not self.count:
            self.base_offset = offset
            self.base_timestamp = self.max_timestamp = timestamp
        delta = timestamp - self.base_timestamp
        if not _LEAST <= delta <= _MOST:
            raise CorruptRecordError(f"message at offset {offset}: the timestamp {timestamp} is out of range")
        key_size = _NULL if key is None else _varint(len(key))
        value_size = _NULL if value is None else _varint(len(value))
        head = b"".join((b"\0", _varint(delta), _varint(offset - self.base_offset), key_size, key or b"", value_size))
        self.payload += _varint(len(head) + (len(value) if value else 0) + 1)
        self.payload += head
        # Not part of `head`, so that a large value is copied only once.
        if value:
            self.payload += value
        self.payload += b"\0"
        self.count += 1
        self.last_offset = offset
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp


class MessageSet(RecordBatch):
    """Base class of PlainMessages and CompressedMessages. data: the entries. crc, attributes: from the first entry."""

    __slots__ = ()

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.batch_length = len(data) - AFTER_LENGTH
        self.magic = data[MAGIC_AT]
        self.attributes = data[_ATTRIBUTES_AT] & (CODEC_BITS | LOG_APPEND_TIME if self.magic else CODEC_BITS)
        self.crc = int.from_bytes(data[AFTER_LENGTH:MAGIC_AT])
        self.partition_leader_epoch = self.producer_id = self.producer_epoch = self.base_sequence = -1
        self._payload = None
        self._paused = None

    @property
    def timestamp_type(self) -> TimestampType:
        """CREATE_TIME or LOG_APPEND_TIME; NO_TIMESTAMP_TYPE for magic 0, which has no timestamps."""
        return super().timestamp_type if self.magic else TimestampType.NO_TIMESTAMP_TYPE

    def _hold(self, records: ConvertedRecords, last_offset: int) -> None:
        self.records_count = records.count
        self.base_offset = records.base_offset
        self.last_offset_delta = last_offset - records.base_offset
        self.base_timestamp = records.base_timestamp
        self.max_timestamp = records.max_timestamp
        self._payload = records.payload


class PlainMessages(MessageSet):
    """Consecutive uncompressed messages with the same magic and attributes. If there are several messages, all checksums match.

    is_sound: whether the checksum of the first message matches.
    """

    __slots__ = ("_is_sound",)

    def __init__(self, data: memoryview, records: ConvertedRecords, is_sound: bool) -> None:
        super().__init__(data)
        self._hold(records, records.last_offset)
        self._is_sound = is_sound

    def verify_crc(self) -> None:
        """Raise CorruptRecordError if a checksum does not match."""
        if not self._is_sound:
            raise corrupt(self.base_offset, 0, f"its checksum does not fit; the message says {self.crc:#010x}")


class CompressedMessages(MessageSet):
    """A wrapper: a message that contains compressed messages. The first use of a field such as records_count decompresses them.

    To limit the number of decompressed bytes, call payload() or walker() with the limit before using such a field.
    """

    __slots__ = ("_append_time", "_checks_inside", "_offset", "_value")

    def __init__(self, data: memoryview) -> None:
        super().__init__(data)
        self._offset, timestamp, _, value = read_message(data, 0, len(data))
        if value is None:
            raise corrupt(self._offset, 0, "compressed, but the value is null")
        self._value = value
        # With LogAppendTime, the timestamp of the wrapper applies to all its messages.
        self._append_time = timestamp if self.attributes & LOG_APPEND_TIME else None
        self._checks_inside = False

    def __getattr__(self, name: str) -> Any:
        """Decompress the messages, which sets the fields in _TOLD_INSIDE, and return the field."""
        if name not in _TOLD_INSIDE:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.payload()
        return getattr(self, name)

    def __repr__(self) -> str:
        return f"<CompressedMessages up to offset {self._offset}, {self.size_bytes} bytes>"

    @property
    def last_offset(self) -> int:
        """The offset of the last message: before decompression, the offset of the wrapper.

        Some producers left the offset of the wrapper at 0. Then this value is too low before decompression.
        """
        return self._offset if self._payload is None else self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the last message, at which reading continues."""
        return self.last_offset + 1

    @property
    def earliest_offset(self) -> int:
        """A lower bound of the offsets in this batch: 0 before decompression, then the first offset."""
        return 0 if self._payload is None else self.base_offset

    @property
    def is_empty(self) -> bool:
        """Always False, because a wrapper without messages is corrupt."""
        return False

    def verify_crc(self) -> None:
        """Raise CorruptRecordError if the checksum of the wrapper does not match. A later decompression also verifies inner checksums."""
        if not has_checksum(self.data, 0, len(self.data)):
            raise corrupt(self._offset, 0, f"its checksum does not fit; the message says {self.crc:#010x}")
        self._checks_inside = True

    def payload(self, max_bytes: int = DEFAULT_MAX_DECOMPRESSED) -> Buffer:
        """Return the messages as encoded records of magic 2.

        Raises CorruptRecordError, and DecompressionError if the messages take more than `max_bytes` after decompression.
        """
        if self._payload is None:
            try:
                self._unpack(max_bytes)
            except CorruptRecordError as fault:
                raise type(fault)(f"compressed messages up to offset {self._offset}: {fault}") from fault
        return self._payload or b""

    def _unpack(self, max_bytes: int) -> None:
        inside = memoryview(self._contents(max_bytes))
        shift = self._shift(inside)
        records = ConvertedRecords()
        for at, end in self._entries(inside):
            if self._checks_inside and not has_checksum(inside, at, end):
                raise CorruptRecordError(f"the checksum of the message at byte {at} does not fit")
            offset, timestamp, key, value = read_message(inside, at, end)
            # An old log may have a message twice (KAFKA-4298). Skip the second copy: a consumer's position is already beyond its offset.
            if offset + shift > records.last_offset:
                records.add(offset + shift, timestamp if self._append_time is None else self._append_time, key, value)
        self._hold(records, max(records.last_offset, self._offset))

    def _contents(self, max_bytes: int) -> Buffer:
        value: Buffer = self._value
        if self.codec is Codec.LZ4 and not self.magic:
            value = mend_frame(value)
        return decompress(self.codec, value, max_bytes)

    def _shift(self, inside: memoryview) -> int:
        """Return the number to add to the offsets of the inner messages: 0 for magic 0, whose inner offsets are absolute.

        It is also 0 if the offset of the wrapper is 0. Raises CorruptRecordError if there are no messages, or if the last one's relative
        offset is higher than the offset of the wrapper.
        """
        last_offset = -1
        for at, _ in self._entries(inside):
            (last_offset, _) = OFFSET_AND_SIZE.unpack_from(inside, at)
        if last_offset < 0:
            raise CorruptRecordError("there are none")
        if not self.magic or not self._offset:
            return 0
        if last_offset > self._offset:
            raise CorruptRecordError(f"the last one's relative offset is {last_offset}, which is beyond the wrapper's own")
        return self._offset - last_offset

    def _entries(self, inside: memoryview) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each inner entry. Raises CorruptRecordError for an entry that is incomplete or invalid."""
        at = 0
        while at < len(inside):
            if len(inside) - at <= MAGIC_AT:
                raise CorruptRecordError(f"{len(inside) - at} bytes are left over")
            offset, size = OFFSET_AND_SIZE.unpack_from(inside, at)
            self._check_inner(inside, at, offset, size)
            yield at, at + AFTER_LENGTH + size
            at += AFTER_LENGTH + size

    def _check_inner(self, inside: memoryview, at: int, offset: int, size: int) -> None:
        magic = inside[at + MAGIC_AT]
        if magic != self.magic:
            raise corrupt(offset, at, f"magic {magic} within magic {self.magic}")
        check_entry(offset, size, magic, at)
        if size > len(inside) - at - AFTER_LENGTH:
            raise corrupt(offset, at, f"a size of {size} bytes where {len(inside) - at - AFTER_LENGTH} remain")
        if inside[at + _ATTRIBUTES_AT] & CODEC_BITS:
            raise corrupt(offset, at, "compressed within compressed messages, which Kafka does not allow")


def read_message_set(view: memoryview, at: int) -> MessageSet:
    """Return the batch that begins with the entry at position `at`. This entry must be complete. Raises CorruptRecordError."""
    offset, size = OFFSET_AND_SIZE.unpack_from(view, at)
    check_entry(offset, size, view[at + MAGIC_AT], at)
    end = at + AFTER_LENGTH + size
    if codec_of(view[at + _ATTRIBUTES_AT], offset, at):
        return CompressedMessages(view[at:end])
    return _read_plain(view, at, end)


def _read_plain(view: memoryview, at: int, end: int) -> PlainMessages:
    """Return a batch of the message with the entry view[at:end], and of the following messages that can be in the same batch."""
    records = ConvertedRecords()
    records.add(*read_message(view, at, end))
    is_sound = has_checksum(view, at, end)
    if is_sound:
        end = _add_neighbours(records, view, at, end)
    return PlainMessages(view[at:end], records, is_sound)


def _add_neighbours(records: ConvertedRecords, view: memoryview, start: int, at: int) -> int:
    """Add the messages from position `at` on that can be in one batch with the message at `start`. Return the position after them."""
    kind = bytes(view[start + MAGIC_AT : start + MAGIC_AT + 2])
    append_time = records.base_timestamp if kind[0] and kind[1] & LOG_APPEND_TIME else None
    stop = min(len(view), start + _MAX_RUN_BYTES)
    while stop - at > _ATTRIBUTES_AT and view[at + MAGIC_AT : at + MAGIC_AT + 2] == kind:
        offset, size = OFFSET_AND_SIZE.unpack_from(view, at)
        end = at + AFTER_LENGTH + size
        is_next = records.last_offset < offset <= records.base_offset + _MAX_OFFSET_DELTA
        if not is_next or size < LEAST_LENGTH[kind[0]] or end > stop or not has_checksum(view, at, end):
            break
        try:
            message = read_message(view, at, end)
            if append_time is not None and message[1] != append_time:
                break
            records.add(*message)
        except CorruptRecordError:
            # Not an error here: the next batch begins with this message, and reading that batch raises the error.
            break
        at = end
    return at
