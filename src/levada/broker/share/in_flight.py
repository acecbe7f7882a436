"""The records in flight of a share partition: from the first record that is not finished to the end of the last batch that was acquired.

Consecutive records of a batch with the same state, deliveries and lock form one range, so the cost of a change depends on the number of
ranges that it touches, not of records. Ranges are in order and do not overlap. Between them there are gaps only where the log has no such
offsets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from operator import attrgetter
from typing import NamedTuple

from levada.base.clock import NEVER_MS
from levada.base.state_table import following
from levada.broker.share.record_states import COUNTED, FINAL, TRANSITIONS, Event, RecordState

NO_MEMBER = ""

_FIRST = attrgetter("first")


class InFlightRange(NamedTuple):
    """Consecutive records of a share partition that are in the same state. first, last: their first and last offset.

    batch: the first offset of the acquired batch to which they belong. After a restart, each stored range is a batch. deliveries: how often
    the records were delivered. member: the member that has acquired them, "" if none has. locked_until_ms: when its lock expires, NEVER_MS
    without a lock.
    """

    first: int
    last: int
    batch: int
    state: RecordState
    deliveries: int = 0
    member: str = NO_MEMBER
    locked_until_ms: int = NEVER_MS

    @property
    def records(self) -> int:
        """The number of offsets in the range, including offsets without a record."""
        return self.last - self.first + 1

    @property
    def is_final(self) -> bool:
        """Whether the records are finished: acknowledged or archived."""
        return self.state in FINAL

    def within(self, first: int, last: int) -> InFlightRange:
        """Return the part of the range between two offsets, both included. There must be such a part."""
        return self._replace(first=max(self.first, first), last=min(self.last, last))

    def acquired(self, member: str, until_ms: int) -> InFlightRange:
        """Return the records after a member has acquired them. until_ms: when the member's lock expires."""
        state = self._after(Event.ACQUIRE)
        return self._replace(state=state, deliveries=self.deliveries + 1, member=member, locked_until_ms=until_ms)

    def renewed(self, until_ms: int) -> InFlightRange:
        """Return the records with their lock extended to `until_ms`."""
        return self._replace(state=self._after(Event.RENEW), locked_until_ms=until_ms)

    def moved(self, event: Event, max_deliveries: int) -> InFlightRange:
        """Return the records after an event that changes their state. No member has them afterwards.

        Records that were delivered `max_deliveries` times are archived instead of made available again, except by LOSE_LEADER: that
        delivery does not count.
        """
        if event in COUNTED and self.deliveries >= max_deliveries:
            event = Event.EXHAUST
        deliveries = self.deliveries - 1 if event is Event.LOSE_LEADER else self.deliveries
        return self._replace(state=self._after(event), deliveries=deliveries, member=NO_MEMBER, locked_until_ms=NEVER_MS)

    def _after(self, event: Event) -> RecordState:
        return following(TRANSITIONS, self.state, event, "a record of a share group")

    def stored(self) -> InFlightRange:
        """Return the records in the form in which they are stored. Acquired records are stored as available, without the delivery in
        progress.
        """
        return self.moved(Event.LOSE_LEADER, 0) if self.state is RecordState.ACQUIRED else self

    def _continues(self, before: InFlightRange) -> bool:
        return before.last + 1 == self.first and before[2:] == self[2:]


class InFlightRanges:
    """The ranges of records in flight of a share partition, in the order of their offsets."""

    def __init__(self) -> None:
        self._ranges: list[InFlightRange] = []

    def __len__(self) -> int:
        return len(self._ranges)

    def __iter__(self) -> Iterator[InFlightRange]:
        return iter(self._ranges)

    def add(self, added: InFlightRange) -> None:
        """Append a range after all others."""
        self._splice(len(self._ranges), len(self._ranges), [added])

    def between(self, first: int, last: int) -> list[InFlightRange]:
        """Return the ranges between two offsets, both included. The first and the last range are cut at these offsets."""
        if first > last:
            return []
        start, end = self._at(first, last)
        return [found.within(first, last) for found in self._ranges[start:end]]

    def first_from(self, offset: int, wanted: RecordState) -> int | None:
        """Return the lowest offset, at or after `offset`, of a record in the state `wanted`; None if there is none."""
        start, _ = self._at(offset, offset)
        for found in islice(self._ranges, start, None):
            if found.state is wanted:
                return max(found.first, offset)
        return None

    def end_of_batch(self, batch: int, offset: int) -> int:
        """Return the offset after the records that were acquired as one batch. batch: the batch's first offset. offset: an offset in it."""
        start, _ = self._at(offset, offset)
        return max(found.last for found in takewhile(lambda found: found.batch == batch, islice(self._ranges, start, None))) + 1

    def change(self, first: int, last: int, changed: Callable[[InFlightRange], InFlightRange]) -> None:
        """Replace the ranges between two offsets, both included. changed: returns the new range for an old one."""
        start, end = self._at(first, last)
        if first > last or start == end:
            return
        head, tail = self._ranges[start], self._ranges[end - 1]
        pieces = [changed(found.within(first, last)) for found in self._ranges[start:end]]
        if head.first < first:
            pieces.insert(0, head._replace(last=first - 1))
        if tail.last > last:
            pieces.append(tail._replace(first=last + 1))
        self._splice(start, end, pieces)

    def drop_before(self, offset: int) -> None:
        """Remove the records before an offset."""
        start, _ = self._at(offset, offset)
        del self._ranges[:start]
        if self._ranges and self._ranges[0].first < offset:
            self._ranges[0] = self._ranges[0]._replace(first=offset)

    def drop_from(self, offset: int) -> None:
        """Remove the records at and after an offset."""
        start, _ = self._at(offset, offset)
        del self._ranges[start + 1 :]
        if self._ranges[start:]:
            cut = self._ranges.pop()
            if cut.first < offset:
                self._ranges.append(cut._replace(last=offset - 1))

    def first_unfinished(self) -> int | None:
        """Return the lowest offset whose record is neither acknowledged nor archived, None if there is none."""
        return next((found.first for found in self._ranges if not found.is_final), None)

    def _at(self, first: int, last: int) -> tuple[int, int]:
        """Return two indexes of ranges: of the first range that ends at or after `first`, and of the first range that begins
        after `last`.
        """
        start = max(bisect_right(self._ranges, first, key=_FIRST) - 1, 0)
        if start < len(self._ranges) and self._ranges[start].last < first:
            start += 1
        return start, max(bisect_right(self._ranges, last, key=_FIRST), start)

    def _splice(self, start: int, end: int, pieces: Iterable[InFlightRange]) -> None:
        """Replace the ranges from index `start` to `end` by others. Adjacent ranges that differ only in their offsets become one."""
        before = max(start - 1, 0)
        self._ranges[before : end + 1] = _joined([*self._ranges[before:start], *pieces, *self._ranges[end : end + 1]])


def _joined(ranges: Iterable[InFlightRange]) -> list[InFlightRange]:
    joined: list[InFlightRange] = []
    for one in ranges:
        if joined and one._continues(joined[-1]):
            joined[-1] = joined[-1]._replace(last=one.last)
        else:
            joined.append(one)
    return joined
