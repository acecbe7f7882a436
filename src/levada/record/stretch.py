# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Reads many small record batches at once, into columns or as ConsumerRecords.

A fetch brings dozens of small batches, and a RecordBatch object costs as much as the records of a small batch. A batch is called plain if
it is complete, valid, neither empty nor a control batch, and if it is uncompressed, or small. Consecutive plain batches with the same
leader epoch, codec and timestamp type form a stretch. They are measured together, and their records go into columns in one pass without the
interpreter lock, or become ConsumerRecords without a RecordBatch object for each batch. Compressed batches are decompressed while they are
measured. A large compressed batch is not plain: the cost of its object does not matter.

A stretch raises nothing for invalid data. It ends before the first batch that is not plain, for example a control batch, or a batch that is
corrupt or incomplete. RecordBatch reads that batch, and raises its errors.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

from levada.errors import CorruptRecordError, DecompressionError
from levada.record.compression import Codec, decompress
from levada.record.header import AFTER_LENGTH as _AFTER_LENGTH
from levada.record.header import CODEC_BITS as _CODEC_BITS
from levada.record.header import CONTROL as _CONTROL
from levada.record.header import CRC_FROM as _CRC_FROM
from levada.record.header import HEADER_SIZE as _HEADER_SIZE
from levada.record.header import LOG_APPEND_TIME as _LOG_APPEND_TIME
from levada.record.reader import MIN_RECORD_SIZE as _MIN_RECORD_SIZE
from levada.record.reader import RecordSink, RecordWalker
from levada.types import AnyRecord

# Assigned again, so that they are C numbers in compiled code.
AFTER_LENGTH = _AFTER_LENGTH
CRC_FROM = _CRC_FROM
HEADER_SIZE = _HEADER_SIZE
MIN_RECORD_SIZE = _MIN_RECORD_SIZE
MOST = 2**63 - 1
CODEC_BITS = _CODEC_BITS
CONTROL = _CONTROL
CODECS = tuple(Codec)
LAST_CODEC = len(CODECS) - 1
LOG_APPEND_TIME = _LOG_APPEND_TIME
MAGIC = 2
# The most bytes of a compressed batch, and of its decompressed records. In a larger batch the RecordBatch object is a small part of the
# cost.
MOST_PACKED = 64 * 1024
MOST_UNPACKED = 256 * 1024
# After so many decompressed bytes the stretch ends: they are copied while they are in the processor's cache, and their memory is used
# again.
ENOUGH_UNPACKED = 128 * 1024
ROOM = ENOUGH_UNPACKED + MOST_UNPACKED + 1024
SIZE = 4
SIZE_FORMAT = struct.Struct(">i")
UNSIGNED = 0xFFFFFFFF
LENGTH_AT, EPOCH_AT, MAGIC_AT, CRC_AT, DELTA_AT, TIMESTAMP_AT, MAX_TIMESTAMP_AT, COUNT_AT = 8, 12, 16, 17, 23, 27, 35, 57


def number(source: Any, at: int, size: int) -> int:
    """Return the signed big-endian number of `size` bytes at position `at`. The caller has checked that `source` has these bytes."""
    if cython.compiled:
        raw = 0
        for place in range(size):
            byte = source[at + place]
            raw = (raw << 8) | byte
        # Shifted left and back within 64 bits, so that the sign is extended.
        top = raw << (64 - 8 * size)
        return top >> (64 - 8 * size)
    return int.from_bytes(source[at : at + size], "big", signed=True)


def is_small(size: int, unpacked_size: int) -> bool:
    """Whether a compressed batch is small enough for a stretch. size, unpacked_size: bytes of the batch and of its decompressed records."""
    return size <= MOST_PACKED and unpacked_size <= MOST_UNPACKED


class Stretch:
    """Consecutive plain batches, which measure() has found in the data between the positions `begin` and `end`.

    rows: the number of records in the batches. size_bytes: the total size of the batches; for compressed batches, that of the decompressed
    records. next_offset: the offset after the last batch. leader_epoch, stamped_by_broker: the same for all batches; stamped_by_broker is 1
    with LogAppendTime, 0 without, -1 if there is no batch. walker: after fill(), the walker that has read the records.
    """

    def __init__(self, data: Any, stop: int, check: Callable[[Any], int] | None, max_decompressed: int) -> None:
        """stop: an offset; batches with this or a higher offset do not count as plain.

        check: the function that computes CRC-32C, or None to skip the check. max_decompressed: the most bytes to which one batch may
        decompress.
        """
        self.data = memoryview(data)
        # Walkers that enter() moves from batch to batch. `batches` is over the data and reads the batches' headers, too.
        self.batches = self.walker = RecordWalker(data, 0, 0, 0, 0, None)
        self.stop = stop
        self.check = check
        self.max_decompressed = min(max_decompressed, MOST_UNPACKED)
        self.begin_at(0, 0)

    def begin_at(self, begin: int, start: int) -> None:
        """Remove all batches, and begin at another position of the data.

        begin: the position of the first batch, in bytes. start: the first offset to read, not after the last offset of this batch.
        """
        self.begin = begin
        self.start = start
        self.forget()

    def forget(self) -> None:
        """Remove all batches from the stretch."""
        self.end = self.begin
        self.rows = self.size_bytes = 0
        self.next_offset = self.start
        self.leader_epoch = self.stamped_by_broker = self.codec = -1

    def measure(self, most_rows: int, most_bytes: int, row_bytes: int, room: bytearray) -> None:
        """Find the plain batches from position `begin` on, and set `end` and the other attributes.

        The batches have at most `most_rows` records. The search ends when the columns for the records may need `most_bytes` bytes, or after
        ENOUGH_UNPACKED decompressed bytes. row_bytes: the bytes that a row needs in the columns in addition to its bytes in the batch.
        room: memory for decompressed records. It is enlarged at its first use; the next call with the same `room` overwrites the records.
        """
        self.forget()
        self.unpacked_end = 0
        while self.rows < most_rows and (self.end == self.begin or self.size_bytes + self.rows * row_bytes < most_bytes):
            size = self.plain_size(self.end)
            if size == 0 or self.count_at(self.end) > most_rows - self.rows:
                break
            if self.check is not None and self.check(self.data[self.end + CRC_FROM : self.end + size]) != self.crc_at(self.end):
                break
            if not self.codec_at(self.end):
                self.take_in(size, size)
            elif self.unpacked_end > ENOUGH_UNPACKED or not self.unpack(size, room):
                break
        self.walker = RecordWalker(room, 0, 0, 0, 0, None) if self.unpacked_end else self.batches

    def unpack(self, size: int, room: bytearray) -> bool:
        """Decompress the next batch, store the size of its records and the records in `room`, and add the batch to the stretch.

        Returns False, and adds nothing, if the batch is corrupt or too large for a stretch. size: bytes of the compressed batch.
        """
        codec = CODECS[self.codec_at(self.end)]
        try:
            records = decompress(codec, self.data[self.end + HEADER_SIZE : self.end + size], self.max_decompressed)
        except DecompressionError:
            return False
        if self.count_at(self.end) > len(records) // MIN_RECORD_SIZE:
            return False
        if not room:
            room += bytes(ROOM)
        begin = self.unpacked_end + SIZE
        SIZE_FORMAT.pack_into(room, self.unpacked_end, len(records))
        self.unpacked_end = begin + len(records)
        room[begin : self.unpacked_end] = records
        self.take_in(size, len(records))
        return True

    def plain_size(self, at: int) -> int:
        """Return the size in bytes of the batch at position `at`, or 0 if the batch cannot belong to this stretch."""
        source, left = self.batches.source, self.batches.whole - at
        if left < HEADER_SIZE or source[at + MAGIC_AT] != MAGIC:
            return 0
        length = number(source, at + LENGTH_AT, 4)
        if length < HEADER_SIZE - AFTER_LENGTH or length > left - AFTER_LENGTH:
            return 0
        base, delta, count = number(source, at, 8), number(source, at + DELTA_AT, 4), number(source, at + COUNT_AT, 4)
        if base < 0 or delta < 0 or base >= MOST - delta or count < 1 or count > delta + 1:
            return 0
        if self.codec_at(at) == 0 and count > (length + AFTER_LENGTH - HEADER_SIZE) // MIN_RECORD_SIZE:
            return 0
        # After the first batch none may overlap the one before it, so that no offset is delivered twice if a log is out of order.
        if base + delta < self.start or base + delta >= self.stop or (self.end > self.begin and base < self.next_offset):
            return 0
        return length + AFTER_LENGTH if self.is_like_the_others(at, length) else 0

    def is_like_the_others(self, at: int, length: int) -> bool:
        """Whether a batch may follow the batches of this stretch.

        It must not be a control batch, nor compressed and large. Its codec, leader epoch and timestamp type must be those of the stretch.
        """
        source, codec = self.batches.source, self.codec_at(at)
        attributes = number(source, at + CRC_FROM, 2)
        if attributes & CONTROL or codec > LAST_CODEC or (codec != 0 and not is_small(length + AFTER_LENGTH, 0)):
            return False
        if self.end == self.begin:
            return True
        stamped = 1 if attributes & LOG_APPEND_TIME else 0
        return stamped == self.stamped_by_broker and codec == self.codec and number(source, at + EPOCH_AT, 4) == self.leader_epoch

    def codec_at(self, at: int) -> int:
        """Return the codec number of the batch at position `at`; 0 if the batch is not compressed."""
        return number(self.batches.source, at + CRC_FROM, 2) & CODEC_BITS

    def count_at(self, at: int) -> int:
        """Return the number of records of the batch at position `at`."""
        return number(self.batches.source, at + COUNT_AT, 4)

    def crc_at(self, at: int) -> int:
        """Return the checksum in the header of the batch at position `at`."""
        return number(self.batches.source, at + CRC_AT, 4) & UNSIGNED

    def take_in(self, size: int, unpacked_size: int) -> None:
        """Add the next batch to the stretch. size, unpacked_size: bytes of the batch, and of its decompressed records."""
        source, at = self.batches.source, self.end
        self.stamped_by_broker = 1 if number(source, at + CRC_FROM, 2) & LOG_APPEND_TIME else 0
        self.leader_epoch = number(source, at + EPOCH_AT, 4)
        self.next_offset = number(source, at, 8) + number(source, at + DELTA_AT, 4) + 1
        self.codec = self.codec_at(at)
        self.rows += self.count_at(at)
        self.size_bytes += unpacked_size
        self.end = at + size

    def consumer_records(self, topic: str, partition: int) -> list[AnyRecord]:
        """Return the records of all batches as ConsumerRecords.

        If a record is corrupt, the batch with that record and all later batches are removed from the stretch, and their records are not
        returned.
        """
        found: list[AnyRecord] = []
        kind, epoch = self.stamped_by_broker, self.leader_epoch
        at, place = self.begin, 0
        while at < self.end:
            size = number(self.batches.source, at + LENGTH_AT, 4) + AFTER_LENGTH
            place = self.enter_next(at, size, place)
            try:
                found += self.walker.consumer_records(topic, partition, kind, epoch, self.start)
            except CorruptRecordError:
                self.end_at(at)
                break
            at += size
        return found

    def fill(self, sink: RecordSink) -> bool:
        """Add the records of all batches to the sink's columns, which have memory for the records.

        Returns False if a record is corrupt or does not fit. Then nothing has been added, and the batch with that record and all later
        batches are removed from the stretch.
        """
        before = sink.rows
        with cython.nogil:
            reached = self.run(sink)
        if reached < self.end:
            sink.rewind(before)
            self.walker.fault = 0
            self.walker.held = False
            self.end_at(reached)
            return False
        return True

    def run(self, sink: RecordSink) -> int:
        """Do the work of fill() without the interpreter lock. Return `end`, or the position of the batch that could not be added."""
        at, start, place = self.begin, self.start, 0
        while at < self.end:
            size = number(self.batches.source, at + LENGTH_AT, 4) + AFTER_LENGTH
            place = self.enter_next(at, size, place)
            if sink.run(self.walker, start, MOST, MOST) or self.walker.fault != 0:
                return at
            at += size
        self.walker.end = self.walker.whole
        return at

    def enter_next(self, at: int, size: int, place: int) -> int:
        """Move the walker to the records of the batch at position `at`, of `size` bytes. Return the `place` for the next batch.

        place: where in the decompressed records those of this batch begin, with their size before them.
        """
        if self.codec == 0:
            self.enter(at, at + HEADER_SIZE, at + size)
            return place
        records = place + SIZE
        end = records + number(self.walker.source, place, SIZE)
        self.enter(at, records, end)
        return end

    def enter(self, at: int, records: int, end: int) -> None:
        """Move the walker to the records of the batch at position `at`. records, end: the positions where the records begin and end."""
        source = self.batches.source
        time_at = MAX_TIMESTAMP_AT if self.stamped_by_broker == 1 else TIMESTAMP_AT
        self.walker.enter(
            records,
            end,
            self.count_at(at),
            number(source, at, 8),
            number(source, at + DELTA_AT, 4),
            number(source, at + time_at, 8),
            self.stamped_by_broker == 1,
        )

    def end_at(self, end: int) -> None:
        """Remove the batches from position `end` of the data on."""
        last, codec, place = self.end, self.codec, 0
        self.forget()
        while self.end < min(end, last):
            size = unpacked_size = number(self.batches.source, self.end + LENGTH_AT, 4) + AFTER_LENGTH
            if codec != 0:
                unpacked_size = number(self.walker.source, place, SIZE)
                place += SIZE + unpacked_size
            self.take_in(size, unpacked_size)
