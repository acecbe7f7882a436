"""A part of one partition's log in memory: whole record batches back to back, and an index over them.

A segment is written once from front to back and never moves, so a reader may keep a slice of it while the writer goes on behind
that slice, and dropping a segment frees its memory as soon as the last such slice is gone.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right


class Segment:
    """Batches of one partition from base_offset on, in a buffer of fixed capacity."""

    __slots__ = ("_buffer", "_ends", "_newest", "_next_offsets", "base_offset", "base_position", "size_bytes")

    def __init__(self, base_offset: int, base_position: int, capacity: int) -> None:
        self.base_offset = base_offset
        self.base_position = base_position
        self.size_bytes = 0
        self._buffer = memoryview(bytearray(capacity))
        self._next_offsets = array("q")
        self._ends = array("q")
        # The largest timestamp of any batch up to and including this one: never falls, so it can be searched.
        self._newest = array("q")

    @property
    def next_offset(self) -> int:
        """The offset after the last batch."""
        return self._next_offsets[-1] if self._next_offsets else self.base_offset

    @property
    def newest_timestamp(self) -> int:
        """The largest timestamp in the segment, -1 when it is empty."""
        return self._newest[-1] if self._newest else -1

    @property
    def is_empty(self) -> bool:
        """Whether there is no batch in it yet."""
        return not self._ends

    def has_space_for(self, size: int) -> bool:
        """Whether a batch of this size still fits."""
        return self.size_bytes + size <= len(self._buffer)

    def append(self, data: bytes | bytearray | memoryview, next_offset: int, max_timestamp: int) -> memoryview:
        """Copy a batch in and return the writable place where it now stands, to be patched before it is read."""
        start, end = self.size_bytes, self.size_bytes + len(data)
        place = self._buffer[start:end]
        place[:] = data
        self._next_offsets.append(next_offset)
        self._ends.append(end)
        self._newest.append(max(max_timestamp, self.newest_timestamp))
        self.size_bytes = end
        return place

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> memoryview:
        """Return the batches from the one that holds `offset`, as many whole ones as fit into max_bytes, in one slice.

        at_least_one: return the first batch even when it alone is larger (KIP-74).
        """
        first = bisect_right(self._next_offsets, offset)
        start = self._end_of(first - 1)
        last = bisect_right(self._ends, start + max_bytes, lo=min(first, len(self._ends)))
        if last == first and at_least_one and first < len(self._ends):
            last = first + 1
        return self._buffer[start : max(start, self._end_of(last - 1))].toreadonly()

    def position_of(self, offset: int) -> int:
        """Return how many bytes of the whole log lie before the batch that holds `offset`."""
        return self.base_position + self._end_of(bisect_right(self._next_offsets, offset) - 1)

    def reaching(self, timestamp: int) -> memoryview:
        """Return the segment from the first batch whose largest timestamp is at or after `timestamp`."""
        index = bisect_left(self._newest, timestamp)
        return self._buffer[self._end_of(index - 1) : self.size_bytes].toreadonly()

    def batches(self) -> memoryview:
        """Return everything in the segment."""
        return self._buffer[: self.size_bytes].toreadonly()

    def _end_of(self, index: int) -> int:
        return self._ends[index] if index >= 0 else 0
