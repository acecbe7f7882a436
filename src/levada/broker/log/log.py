"""The log of one partition.

Batches are stored as the bytes that were received. Only the base offset and the leader epoch are set, and with LogAppendTime the
timestamp. Reads return slices of the segments. So neither append nor read looks at single records. Segments are the unit of retention and
of compaction, as in Kafka. Kafka's reads end with a segment. Segments in memory are usually much smaller than segment.bytes, so a read
continues here in the next one, and copies.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter

from levada.broker.config.checks import MAX_INT64
from levada.broker.log.segment import Segment
from levada.broker.log.storage import NO_FILES, LogFiles, SegmentFile
from levada.record.batch import RecordBatch, assign_offsets
from levada.record.memory_records import read_batches

# Memory is allocated in pieces, each twice as large as the one before: a topic of ten records must not cost megabytes.
FIRST_CHUNK_BYTES = 64 * 1024
CHUNK_BYTES = 8 * 1024 * 1024

_BASE_OFFSET = attrgetter("base_offset")


class PartitionLog:
    """The log of one replica: batches with ascending offsets from start_offset to end_offset, in segments.

    high_watermark: the offset up to which consumers can read. clean_until: the offset up to which the log is compacted.
    """

    def __init__(self, *, segment_bytes: int = CHUNK_BYTES, segment_ms: int = MAX_INT64) -> None:
        self._files: LogFiles = NO_FILES
        self._capacity = FIRST_CHUNK_BYTES
        self.configure(segment_bytes=segment_bytes, segment_ms=segment_ms)
        self._segments: list[Segment] = [Segment(0, 0, 0)]
        self.start_offset = 0
        self.high_watermark = 0
        self.end_offset = 0
        self.clean_until = 0

    def configure(self, *, segment_bytes: int, segment_ms: int) -> None:
        """Set the limits of a segment. A new segment begins if a batch does not fit, or if its timestamp is more than segment_ms after that
        of the segment's first batch.

        A segment has at most segment_bytes and at most CHUNK_BYTES, unless a single batch is larger. The first segments are smaller.
        """
        self._max_capacity = min(segment_bytes, CHUNK_BYTES)
        self._capacity = min(self._capacity, self._max_capacity)
        self._segment_ms = segment_ms

    @property
    def size_bytes(self) -> int:
        """The size of all segments in bytes."""
        return self._end_position - self._segments[0].base_position

    def append(self, batch: RecordBatch, *, leader_epoch: int, log_append_time_ms: int | None = None) -> int:
        """Append a batch that was validated; return the base offset that the batch gets.

        log_append_time_ms: the broker's time, which replaces the timestamps of the records (message.timestamp.type=LogAppendTime). None
        keeps the timestamps.
        """
        base_offset = self.end_offset
        timestamp = batch.max_timestamp if log_append_time_ms is None else log_append_time_ms
        segment = self._active(batch.size_bytes, timestamp)
        place = segment.place(batch.data)
        assign_offsets(place, base_offset=base_offset, leader_epoch=leader_epoch, log_append_time_ms=log_append_time_ms)
        self._add(segment, RecordBatch(place))
        return base_offset

    def copy(self, batch: RecordBatch) -> None:
        """Append a batch from the leader's log without changing its offsets."""
        segment = self._active(batch.size_bytes, batch.max_timestamp)
        segment.place(batch.data)
        self._add(segment, batch)

    def _add(self, segment: Segment, batch: RecordBatch) -> None:
        segment.add(batch)
        self.end_offset = batch.next_offset

    def keep_in(self, files: LogFiles) -> None:
        """Write all segments to files from now on. The log must be empty."""
        self._files = files

    def load(self, segments: list[Segment], start_offset: int, clean_until: int) -> None:
        """Load stored segments and begin a new active segment after them, because nothing is appended to stored segments.

        start_offset: the log start offset. clean_until: the offset up to which the log is compacted.
        """
        self._segments = [*segments, Segment(segments[-1].next_offset, _end_of(segments[-1]), 0)]
        self.end_offset = self._segments[-1].base_offset
        self.start_offset = min(max(start_offset, segments[0].base_offset), self.end_offset)
        self.clean_until = min(clean_until, self.end_offset)

    def advance_high_watermark(self, offset: int) -> None:
        """Raise the high watermark to an offset, or to the log end offset if that is lower."""
        self.high_watermark = max(self.high_watermark, min(offset, self.end_offset))

    def restart(self, offset: int) -> None:
        """Delete all records and continue at an offset. A follower does this if the leader has deleted the records that the follower would
        copy next.
        """
        position = self._end_position
        for segment in self._segments:
            segment.delete()
        self._segments = [Segment(offset, position, 0)]
        self.start_offset = self.high_watermark = self.end_offset = offset
        self._files.start_at(offset)

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> memoryview:
        """Return whole batches, from the batch that contains `offset` on; no bytes if `offset` is the log end offset.

        The first batch may begin before `offset`, which must be between start_offset and end_offset. at_least_one: return the first batch
        even if it is larger than max_bytes.
        """
        index = self._index_at(offset)
        first = self._segments[index]
        pieces = [first.read(offset, max_bytes, at_least_one=at_least_one)]
        start = first.position_of(offset)
        at = start + len(pieces[0])
        for segment in self._segments[index + 1 :]:
            if at < segment.base_position:
                # The segment before this one was not read to its end.
                break
            more = segment.read(segment.base_offset, start + max_bytes - at, at_least_one=False)
            if not more:
                break
            pieces.append(more)
            at += len(more)
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """Return the size in bytes of the batches from the one that contains `offset` up to the one that begins at `end_offset`, or to the
        end of the log.
        """
        return max(self._position_of(end_offset) - self._position_of(offset), 0)

    def _position_of(self, offset: int) -> int:
        return self._segments[self._index_at(offset)].position_of(offset)

    def batches_reaching(self, timestamp: int) -> Iterator[RecordBatch]:
        """Yield, in order, the batches that end after the log start offset and have a record with this timestamp or a later one. An index
        finds the first of these batches.
        """
        for segment in self._segments:
            for batch in read_batches(segment.reaching(timestamp)):
                if batch.max_timestamp >= timestamp and batch.next_offset > self.start_offset:
                    yield batch

    @property
    def newest_timestamp(self) -> int:
        """The largest timestamp of any record, -1 if there is none."""
        return max(segment.newest_timestamp for segment in self._segments)

    def batches(self) -> Iterator[RecordBatch]:
        """Yield all batches, in order."""
        for segment in self._segments:
            yield from read_batches(segment.batches())

    def advance_start(self, offset: int) -> None:
        """Raise the log start offset, at most to the log end offset, and delete the closed segments that have only records before it. A
        lower offset has no effect.
        """
        start_offset = min(offset, self.end_offset)
        if start_offset <= self.start_offset:
            return
        self.start_offset = start_offset
        self._files.start_at(start_offset)
        while len(self._segments) > 1 and self._segments[0].next_offset <= self.start_offset:
            self._segments.pop(0).delete()

    def truncate(self, end_offset: int) -> None:
        """Delete the batches that have records at or after `end_offset`. A follower does this with batches that its leader does
        not have.
        """
        while len(self._segments) > 1 and self._segments[-1].base_offset >= end_offset:
            self._segments.pop().delete()
        self._segments[-1].truncate(end_offset)
        self.end_offset = self._segments[-1].next_offset
        if self._segments[-1].is_empty:
            self._segments[-1].delete()
            self._segments[-1] = Segment(self.end_offset, self._segments[-1].base_position, 0)
        else:
            self._segments.append(Segment(self.end_offset, self._end_position, 0))
        self.clean_until = min(self.clean_until, self.end_offset)
        self.start_offset = min(self.start_offset, self.end_offset)
        self.high_watermark = min(self.high_watermark, self.end_offset)

    def retain(self, *, retention_bytes: int, oldest_timestamp_ms: int) -> None:
        """Delete the oldest segments, as retention.bytes and retention.ms require.

        The oldest segment is deleted if the log without it still has at least `retention_bytes` (-1: no limit), or if all its timestamps
        are before `oldest_timestamp_ms`. The active segment is deleted only because of its timestamps, as in Kafka.
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

    # Compaction

    def sealed_until(self, end_offset: int, *, newest_timestamp_ms: int) -> int:
        """Return the offset up to which the log may be compacted; the beginning of its first segment if nothing may be.

        This is the end offset of the last closed segment that ends at or before `end_offset`, if neither it nor a segment before it has a
        timestamp after `newest_timestamp_ms`; otherwise that of an earlier segment for which this is true.
        """
        until = self._segments[0].base_offset
        for segment in self._segments[:-1]:
            if segment.next_offset > end_offset or segment.newest_timestamp > newest_timestamp_ms:
                break
            until = segment.next_offset
        return until

    def first_timestamp_at(self, offset: int) -> int:
        """Return the largest timestamp in the first batch of the segment that contains an offset, -1 for an empty segment."""
        return self._segments[self._index_at(offset)].first_timestamp

    def replace(self, until: int, kept: Sequence[RecordBatch]) -> None:
        """Replace all segments before the offset `until` by new segments with the batches `kept`, whose offsets do not change. Raises
        BrokerError if the disk fails.
        """
        old, rest = self._segments[: self._index_at(until)], self._segments[self._index_at(until) :]
        position = rest[0].base_position - sum(batch.size_bytes for batch in kept)
        base_offset = self._segments[0].base_offset
        pieces = list(_pieces(kept, self._max_capacity))
        files = self._files.rewrite([segment.file for segment in old if segment.file is not None], pieces, until)
        segments: list[Segment] = []
        for at, batches in enumerate(pieces):
            segment = _segment_of(batches, base_offset, position, files[at] if files else None)
            segments.append(segment)
            position += segment.size_bytes
            base_offset = segment.next_offset
        self._segments = segments + rest
        self.clean_until = until

    @property
    def _end_position(self) -> int:
        return _end_of(self._segments[-1])

    def _active(self, size: int, timestamp: int) -> Segment:
        active = self._segments[-1]
        is_late = not active.is_empty and timestamp - active.first_timestamp > self._segment_ms
        if is_late or not active.has_space_for(size):
            self._roll(size)
        return self._segments[-1]

    def _roll(self, size: int) -> None:
        capacity = max(size, self._capacity) if size else 0
        fresh = Segment(self.end_offset, self._end_position, capacity, self._files.begin(self.end_offset) if size else None)
        self._capacity = min(2 * self._capacity, self._max_capacity)
        self._segments[-1].seal()
        if self._segments[-1].is_empty:
            self._segments.pop().delete()
        self._segments.append(fresh)

    def _index_at(self, offset: int) -> int:
        return max(bisect_right(self._segments, offset, key=_BASE_OFFSET) - 1, 0)


def _end_of(segment: Segment) -> int:
    return segment.base_position + segment.size_bytes


def _segment_of(batches: Sequence[RecordBatch], base_offset: int, position: int, file: SegmentFile | None) -> Segment:
    """Return a closed segment with these batches. position: the position of the segment in the log, in bytes.

    file: the file with the batches; None to keep them in memory.
    """
    if file is not None:
        return Segment.stored(base_offset, position, file, batches)
    segment = Segment(base_offset, position, sum(batch.size_bytes for batch in batches))
    for batch in batches:
        segment.place(batch.data)
        segment.add(batch)
    return segment


def _pieces(batches: Sequence[RecordBatch], size: int) -> Iterator[list[RecordBatch]]:
    """Yield the batches in consecutive groups. The total size of a group is at most `size` bytes, unless it has a single batch."""
    piece: list[RecordBatch] = []
    left = size
    for batch in batches:
        if piece and batch.size_bytes > left:
            yield piece
            piece, left = [], size
        piece.append(batch)
        left -= batch.size_bytes
    if piece:
        yield piece
