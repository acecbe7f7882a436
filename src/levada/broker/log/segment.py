"""A segment of a partition's log: whole record batches one after another, and an index over them.

A segment is written once from front to back and never moves. So a reader may keep a slice of it while the writer appends behind that slice.
A dropped segment's memory is free when the last such slice is gone. A segment with a file is in memory only while it is active; later
reads are from the file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Self

from levada.broker.log.storage import SegmentFile
from levada.record.batch import RecordBatch


class Segment:
    """A part of a replica's log: batches from base_offset on, in a buffer of fixed size.

    A closed segment that has a file has no buffer; its batches are read from the file.
    """

    __slots__ = ("_buffer", "_ends", "_newest", "_next_offsets", "base_offset", "base_position", "file", "size_bytes")

    def __init__(self, base_offset: int, base_position: int, capacity: int, file: SegmentFile | None = None) -> None:
        self.base_offset = base_offset
        self.base_position = base_position
        self.file = file
        self.size_bytes = 0
        self._buffer: memoryview | None = memoryview(bytearray(capacity))
        self._next_offsets = array("q")
        self._ends = array("q")
        # The largest timestamp up to and including each batch. It never falls, so it can be searched.
        self._newest = array("q")

    @classmethod
    def stored(cls, base_offset: int, base_position: int, file: SegmentFile, batches: Iterable[RecordBatch]) -> Self:
        """Return a closed segment with the batches that were read from its file. base_position: the position of the segment in the log, in
        bytes.
        """
        segment = cls(base_offset, base_position, 0, file)
        segment._buffer = None
        for batch in batches:
            segment._note(segment.size_bytes + batch.size_bytes, batch.next_offset, batch.max_timestamp)
        return segment

    @property
    def next_offset(self) -> int:
        """The offset after the last batch."""
        return self._next_offsets[-1] if self._next_offsets else self.base_offset

    @property
    def newest_timestamp(self) -> int:
        """The largest timestamp in the segment, -1 if it is empty."""
        return self._newest[-1] if self._newest else -1

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, -1 if the segment is empty."""
        return self._newest[0] if self._newest else -1

    @property
    def is_empty(self) -> bool:
        """Whether the segment has no batch."""
        return not self._ends

    def has_space_for(self, size: int) -> bool:
        """Return whether a batch of this size in bytes fits in the segment."""
        return self._buffer is not None and self.size_bytes + size <= len(self._buffer)

    def place(self, data: bytes | bytearray | memoryview) -> memoryview:
        """Copy a batch behind the last one in the buffer; return the copy, in which header fields can still be changed. add() then appends
        it.
        """
        assert self._buffer is not None
        place = self._buffer[self.size_bytes : self.size_bytes + len(data)]
        place[:] = data
        return place

    def add(self, batch: RecordBatch) -> None:
        """Append a batch that place() has copied to the buffer."""
        if self.file is not None:
            self.file.append(batch)
        self._note(self.size_bytes + batch.size_bytes, batch.next_offset, batch.max_timestamp)

    def _note(self, end: int, next_offset: int, max_timestamp: int) -> None:
        self._next_offsets.append(next_offset)
        self._ends.append(end)
        self._newest.append(max(max_timestamp, self.newest_timestamp))
        self.size_bytes = end

    def seal(self) -> None:
        """Close the segment, to which nothing will be appended. If it has a file, its buffer is given up."""
        if self.file is not None:
            self._buffer = None

    def truncate(self, end_offset: int) -> None:
        """Delete the batches that have records at or after `end_offset`, and close the segment."""
        kept = bisect_right(self._next_offsets, end_offset)
        del self._next_offsets[kept:], self._newest[kept:], self._ends[kept:]
        self.size_bytes = self._end_of(kept - 1)
        if self.file is not None:
            self.file.truncate(self.size_bytes)
        self.seal()

    def delete(self) -> None:
        """Delete the segment's file, if it has one."""
        if self.file is not None:
            self.file.delete()

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> memoryview:
        """Return whole batches of up to max_bytes together, from the batch that contains `offset` on.

        at_least_one: return the first batch even if it is larger than max_bytes (KIP-74).
        """
        first = bisect_right(self._next_offsets, offset)
        start = self._end_of(first - 1)
        last = bisect_right(self._ends, start + max_bytes, lo=min(first, len(self._ends)))
        if last == first and at_least_one and first < len(self._ends):
            last = first + 1
        return self._bytes(start, max(start, self._end_of(last - 1)))

    def position_of(self, offset: int) -> int:
        """Return the position of the batch that contains `offset`, in bytes from the beginning of the log."""
        return self.base_position + self._end_of(bisect_right(self._next_offsets, offset) - 1)

    def reaching(self, timestamp: int) -> memoryview:
        """Return the bytes of the segment's batches, from the first batch whose largest timestamp is at least `timestamp`."""
        index = bisect_left(self._newest, timestamp)
        return self._bytes(self._end_of(index - 1), self.size_bytes)

    def batches(self) -> memoryview:
        """Return the bytes of all batches in the segment."""
        return self._bytes(0, self.size_bytes)

    def _bytes(self, start: int, end: int) -> memoryview:
        if self._buffer is not None:
            return self._buffer[start:end].toreadonly()
        return memoryview(self.file.read(start, end) if self.file is not None and end > start else b"")

    def _end_of(self, index: int) -> int:
        return self._ends[index] if index >= 0 else 0
