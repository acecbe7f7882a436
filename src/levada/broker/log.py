"""The log of one partition, in memory.

Batches are kept as the bytes that came in, with only the base offset and the leader epoch patched (a new timestamp type too, under
LogAppendTime), and are handed out as slices of the segments that hold them: neither append nor read looks at a single record.
Segments are the unit of retention, as in Kafka. A read in Kafka ends where its segment does; segments of memory are so much smaller than
segment.bytes usually is that a read goes on in the next one here, and copies.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter

from levada.broker.segment import Segment
from levada.record.batch import RecordBatch, assign_offsets, read_batches

# Memory is taken in pieces, each twice as large as the one before: a topic of ten records must not cost megabytes.
FIRST_CHUNK_BYTES = 64 * 1024
CHUNK_BYTES = 8 * 1024 * 1024

_BASE_OFFSET = attrgetter("base_offset")


class PartitionLog:
    """Record batches with ascending offsets from start_offset to end_offset. high_watermark: the offset up to which readers see them."""

    def __init__(self, *, segment_bytes: int = CHUNK_BYTES) -> None:
        self._max_capacity = min(segment_bytes, CHUNK_BYTES)
        self._capacity = min(FIRST_CHUNK_BYTES, self._max_capacity)
        self._segments: list[Segment] = [Segment(0, 0, 0)]
        self.start_offset = 0
        self.high_watermark = 0
        self.end_offset = 0

    @property
    def size_bytes(self) -> int:
        """Bytes held, over all segments."""
        return self._end_position - self._segments[0].base_position

    def append(self, batch: RecordBatch, *, leader_epoch: int, log_append_time_ms: int | None = None) -> int:
        """Append one checked batch and return the base offset it got.

        log_append_time_ms: overwrite the records' timestamps with this one (message.timestamp.type=LogAppendTime).
        """
        base_offset = self.end_offset
        next_offset = base_offset + batch.last_offset_delta + 1
        timestamp = batch.max_timestamp if log_append_time_ms is None else log_append_time_ms
        place = self._active(batch.size_bytes).append(batch.data, next_offset, timestamp)
        assign_offsets(place, base_offset=base_offset, leader_epoch=leader_epoch, log_append_time_ms=log_append_time_ms)
        self.end_offset = next_offset
        return base_offset

    def copy(self, batch: RecordBatch) -> None:
        """Append a batch of another replica's log, which keeps the offsets it has there."""
        self._active(batch.size_bytes).append(batch.data, batch.next_offset, batch.max_timestamp)
        self.end_offset = batch.next_offset

    def advance_high_watermark(self, offset: int) -> None:
        """Let readers see records up to an offset, the log's end at most."""
        self.high_watermark = max(self.high_watermark, min(offset, self.end_offset))

    def restart(self, offset: int) -> None:
        """Drop everything and go on at an offset, as a replica does whose leader has dropped what it would copy next."""
        self._segments = [Segment(offset, self._end_position, 0)]
        self.start_offset = self.high_watermark = self.end_offset = offset

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> memoryview:
        """Return whole batches from the one that holds `offset`; empty at the log's end.

        The caller has checked that start_offset <= offset <= end_offset. The first batch may begin before `offset`.
        """
        index = self._index_at(offset)
        first = self._segments[index]
        pieces = [first.read(offset, max_bytes, at_least_one=at_least_one)]
        start = first.position_of(offset)
        at = start + len(pieces[0])
        for segment in self._segments[index + 1 :]:
            if at < segment.base_position:
                # The one before it was not read to its end.
                break
            more = segment.read(segment.base_offset, start + max_bytes - at, at_least_one=False)
            if not more:
                break
            pieces.append(more)
            at += len(more)
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """Return how many bytes a reader at `offset` has before it, up to the batch that begins at `end_offset`, or the log's end."""
        return max(self._position_of(end_offset) - self._position_of(offset), 0)

    def _position_of(self, offset: int) -> int:
        return self._segments[self._index_at(offset)].position_of(offset)

    def batches_reaching(self, timestamp: int) -> Iterator[RecordBatch]:
        """Every readable batch with a record at or after `timestamp`, in order; the first is found by its index."""
        for segment in self._segments:
            for batch in read_batches(segment.reaching(timestamp)):
                if batch.max_timestamp >= timestamp and batch.next_offset > self.start_offset:
                    yield batch

    @property
    def newest_timestamp(self) -> int:
        """The largest timestamp of any record, -1 when there is none."""
        return max(segment.newest_timestamp for segment in self._segments)

    def batches(self) -> Iterator[RecordBatch]:
        """Every batch held, in order."""
        for segment in self._segments:
            yield from read_batches(segment.batches())

    def advance_start(self, offset: int) -> None:
        """Make records before `offset` unreadable and free the segments that hold nothing else (DeleteRecords, retention)."""
        self.start_offset = max(self.start_offset, min(offset, self.end_offset))
        while len(self._segments) > 1 and self._segments[0].next_offset <= self.start_offset:
            del self._segments[0]

    def truncate(self, end_offset: int) -> None:
        """Drop the batches that reach beyond an offset, as a replica does that follows a leader with fewer records."""
        kept = [(bytes(batch.data), batch.next_offset, batch.max_timestamp) for batch in self.batches() if batch.next_offset <= end_offset]
        first = self._segments[0]
        self._segments = [Segment(first.base_offset, first.base_position, first.size_bytes)]
        self.end_offset = first.base_offset
        for data, next_offset, timestamp in kept:
            self._active(len(data)).append(data, next_offset, timestamp)
            self.end_offset = next_offset
        self.start_offset = min(self.start_offset, self.end_offset)
        self.high_watermark = min(self.high_watermark, self.end_offset)

    def retain(self, *, retention_bytes: int, oldest_timestamp_ms: int) -> None:
        """Drop segments from the front: while the rest is still at least retention_bytes (-1: no limit), or all their records are too old.

        The newest segment goes only by age, as in Kafka.
        """
        while len(self._segments) > 1 and self._is_surplus(self._segments[0], retention_bytes, oldest_timestamp_ms):
            self.advance_start(self._segments[0].next_offset)
        active = self._segments[-1]
        if not active.is_empty and active.newest_timestamp < oldest_timestamp_ms:
            self._roll(0)
            self.advance_start(self.end_offset)

    def _is_surplus(self, segment: Segment, retention_bytes: int, oldest_timestamp_ms: int) -> bool:
        over_size = 0 <= retention_bytes <= self.size_bytes - segment.size_bytes
        return over_size or segment.newest_timestamp < oldest_timestamp_ms

    @property
    def _end_position(self) -> int:
        active = self._segments[-1]
        return active.base_position + active.size_bytes

    def _active(self, size: int) -> Segment:
        if not self._segments[-1].has_space_for(size):
            self._roll(size)
        return self._segments[-1]

    def _roll(self, size: int) -> None:
        fresh = Segment(self.end_offset, self._end_position, max(size, self._capacity) if size else 0)
        self._capacity = min(2 * self._capacity, self._max_capacity)
        if self._segments[-1].is_empty:
            self._segments.pop()
        self._segments.append(fresh)

    def _index_at(self, offset: int) -> int:
        return max(bisect_right(self._segments, offset, key=_BASE_OFFSET) - 1, 0)
