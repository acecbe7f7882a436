"""A mark for each of many offsets, stored as runs. Pure.

Whole batches are acquired and acknowledged at once, so the marks of a hundred thousand offsets usually take one or two runs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple


class Mark(IntEnum):
    """The mark of an acquired offset. GAP and the marks after it have the values of the acknowledgement types in the protocol."""

    RENEWED = -3
    """Its lock was renewed, and the next poll() returns it again."""
    RENEWING = -2
    """A request to renew its lock is not answered yet."""
    UNDECIDED = -1
    """The program has it, and has not acknowledged it."""
    GAP = 0
    """There is no record with this offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Run(NamedTuple):
    """Adjacent offsets from first to last, both included, with the same mark."""

    first: int
    last: int
    mark: Mark

    @property
    def length(self) -> int:
        """The number of offsets. A broken broker may make it too large for a list."""
        return self.last - self.first + 1

    @property
    def offsets(self) -> range:
        """The offsets."""
        return range(self.first, self.last + 1)


class OffsetMarks:
    """Marks of offsets, stored as runs. Adjacent offsets with the same mark form one run."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._marks: list[Mark | None] = []
        """The mark from each start to the next one; None for offsets without a mark."""

    def __bool__(self) -> bool:
        """Whether any offset has a mark."""
        return bool(self._starts)

    def at(self, offset: int) -> Mark | None:
        """Return the mark of an offset; None if it has none."""
        place = bisect_right(self._starts, offset) - 1
        return self._marks[place] if place >= 0 else None

    def put(self, first: int, last: int, mark: Mark | None) -> None:
        """Set the mark of the offsets from first to last; None removes their marks."""
        after = self.at(last + 1)
        low, high = bisect_left(self._starts, first), bisect_right(self._starts, last + 1)
        before = self._marks[low - 1] if low else None
        changes = [(first, mark)] if mark != before else []
        if after != mark:
            changes.append((last + 1, after))
        self._starts[low:high] = [start for start, _ in changes]
        self._marks[low:high] = [change for _, change in changes]

    def runs(self, first: int | None = None, last: int | None = None) -> Iterator[Run]:
        """Yield the runs in order, cut to the offsets from first to last (None: no limit). Marks may be changed during the iteration."""
        if not self._starts:
            return
        low = 0 if first is None else max(bisect_right(self._starts, first) - 1, 0)
        high = len(self._starts) if last is None else bisect_right(self._starts, last)
        ends = [*self._starts[low + 1 : high + 1], *[0] * (high == len(self._starts))]
        for start, end, mark in zip(self._starts[low:high], ends, self._marks[low:high], strict=True):
            begin = start if first is None else max(start, first)
            stop = end - 1 if last is None else min(end - 1, last)
            if mark is not None and begin <= stop:
                yield Run(begin, stop, mark)

    def covers(self, first: int, last: int, marks: frozenset[Mark]) -> bool:
        """Whether every offset from first to last has one of these marks."""
        if first == last:
            return self.at(first) in marks
        found = [run for run in self.runs(first, last) if run.mark in marks]
        return sum(run.length for run in found) == last - first + 1


def runs_of(offsets: Iterable[int], mark: Mark) -> list[Run]:
    """Return offsets, which must ascend, as runs with one mark."""
    runs: list[Run] = []
    for offset in offsets:
        if runs and runs[-1].last + 1 == offset:
            runs[-1] = Run(runs[-1].first, offset, mark)
        else:
            runs.append(Run(offset, offset, mark))
    return runs
