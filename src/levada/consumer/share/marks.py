"""A mark for each of many offsets, kept as runs. Pure.

Whole batches are acquired and acknowledged at once, so what is said of a hundred thousand offsets is mostly said in one or two runs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple


class Mark(IntEnum):
    """What is known of an offset that was acquired. From GAP on: how it is acknowledged, as the wire has it."""

    RENEWED = -3
    """Its lock runs anew, and the program gets it once more with the next call for records."""
    RENEWING = -2
    """Its lock was asked to be renewed, and nobody has answered yet."""
    UNDECIDED = -1
    """The program has it, and has not said what became of it."""
    GAP = 0
    """There is no record at this offset that a program could get."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Run(NamedTuple):
    """Offsets from first to last, both included, with one mark."""

    first: int
    last: int
    mark: Mark

    @property
    def length(self) -> int:
        """How many offsets it has: a number that a broken broker may make larger than any list could be."""
        return self.last - self.first + 1

    @property
    def offsets(self) -> range:
        """The offsets."""
        return range(self.first, self.last + 1)


class OffsetMarks:
    """Which mark an offset has. Runs that touch and have the same mark are one."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._marks: list[Mark | None] = []
        """What holds from the start at the same place to the next one; None: these offsets have no mark."""

    def __bool__(self) -> bool:
        """Whether any offset has a mark."""
        return bool(self._starts)

    def at(self, offset: int) -> Mark | None:
        """Return an offset's mark, None without one."""
        place = bisect_right(self._starts, offset) - 1
        return self._marks[place] if place >= 0 else None

    def put(self, first: int, last: int, mark: Mark | None) -> None:
        """Mark the offsets from first to last, or take their marks away."""
        after = self.at(last + 1)
        low, high = bisect_left(self._starts, first), bisect_right(self._starts, last + 1)
        before = self._marks[low - 1] if low else None
        changes = [(first, mark)] if mark != before else []
        if after != mark:
            changes.append((last + 1, after))
        self._starts[low:high] = [start for start, _ in changes]
        self._marks[low:high] = [change for _, change in changes]

    def runs(self, first: int | None = None, last: int | None = None) -> Iterator[Run]:
        """Yield the runs that have a mark, in order, cut to the offsets from first to last. They may be changed meanwhile."""
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
    """Return ascending offsets as runs."""
    runs: list[Run] = []
    for offset in offsets:
        if runs and runs[-1].last + 1 == offset:
            runs[-1] = Run(runs[-1].first, offset, mark)
        else:
            runs.append(Run(offset, offset, mark))
    return runs
