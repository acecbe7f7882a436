"""One partition as one share group reads it: which records are in flight, who has them, and up to where the group is done (KIP-932).

A group is done with everything before start_offset, the share-partition start offset. Records from there up to next_offset are in flight;
behind that, nothing was ever acquired. A fetch reads from the first record that is available. What it reads is acquired by whole record
batches, so that a member gets a few more records than it asked for rather than a part of a batch that has to be decompressed twice; a
member that asks for strict limits (KIP-1206) gets exactly as many as it wants. So no more than max_in_flight records are in flight, but
for the rest of one batch.

A record that cannot be processed may take those with it that are delivered in the same batch. So records that have failed often are given
out in ever smaller numbers, and for the last time one by one.

Everything here happens at once and in virtual time; locks end when expire() is called with a time behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import groupby, takewhile
from typing import NamedTuple

from levada.base.clock import NEVER_MS
from levada.broker.share.acknowledgements import Acknowledgement
from levada.broker.share.in_flight import InFlightRange, InFlightRanges
from levada.broker.share.record_states import Event, RecordState
from levada.error_codes import ErrorCode
from levada.errors import BrokerError

BY_BATCH, BY_RECORD = 0, 1
"""How the number of records is limited: up to the end of a batch, or strictly."""


class Limits(NamedTuple):
    """What a group allows. lock_ms: how long a member may keep a record. max_deliveries: of one record. max_in_flight: in records."""

    lock_ms: int
    max_deliveries: int
    max_in_flight: int

    @property
    def suspect_deliveries(self) -> int:
        """From how many deliveries on a record is given out with fewer others."""
        return max(2, (self.max_deliveries + 1) // 2)


class LogBatch(NamedTuple):
    """A record batch that was read: its first and last offset. is_aborted: its transaction was, and the group reads committed data."""

    first: int
    last: int
    is_aborted: bool = False


class Asked(NamedTuple):
    """What a member asks for. batch_size: how many records it wants to acknowledge at once, as far as batches allow."""

    max_records: int
    batch_size: int
    mode: int = BY_BATCH


class Acquired(NamedTuple):
    """Records that a member has been given, from one offset to another, both included, and how often they were delivered by now."""

    first: int
    last: int
    deliveries: int


class SharePartition:
    """See the module's theory. start_offset: where the group begins to read. in_flight: what was stored of records from there on, in
    order."""

    def __init__(self, start_offset: int, in_flight: Iterable[InFlightRange] = ()) -> None:
        self.start_offset = start_offset
        self.next_offset = start_offset
        self._ranges = InFlightRanges()
        for stored in in_flight:
            self._ranges.add(stored)
            self.next_offset = stored.last + 1
        # Nothing before it is available.
        self._searched_until = start_offset
        # When locks end that may be held still, with the offsets of the records: a heap.
        self._locks: list[tuple[int, int, int]] = []

    def __iter__(self) -> Iterator[InFlightRange]:
        return iter(self._ranges)

    @property
    def in_flight(self) -> int:
        """How many offsets lie between the first record that the group is not done with and the last one that was acquired."""
        return self.next_offset - self.start_offset

    @property
    def finished(self) -> int:
        """How many of the records in flight the group is done with."""
        return sum(found.records for found in self._ranges if found.is_final)

    @property
    def fetch_offset(self) -> int:
        """From where to read what can be acquired next."""
        available = self._ranges.first_from(self._searched_until, RecordState.AVAILABLE)
        self._searched_until = self.next_offset if available is None else available
        return self._searched_until

    @property
    def next_deadline_ms(self) -> int:
        """When a lock may end next."""
        return self._locks[0][0] if self._locks else NEVER_MS

    def has_room(self, limits: Limits) -> bool:
        """Whether anything could be acquired if it were in the log."""
        return self.fetch_offset < self.next_offset or self.in_flight < limits.max_in_flight

    # What members do

    def acquire(self, member: str, asked: Asked, batches: Sequence[LogBatch], limits: Limits, now_ms: int) -> list[Acquired]:
        """Give records to a member. batches: what was read from fetch_offset on."""
        offset = self.fetch_offset
        room, last = self._room(asked, offset, batches, limits)
        if room <= 0:
            return []
        self._archive_compacted(offset, batches[0].first)
        acquisition = _Acquisition(member, now_ms + limits.lock_ms, asked.mode, room, limits)
        first = max(batches[0].first, self.start_offset)
        for batch, held in groupby(self._ranges.between(first, last), key=lambda found: found.batch):
            acquisition.choose(list(held), self._ranges.end_of_batch(batch, max(first, batch)) - batch)
        for part in acquisition.chosen:
            self._ranges.change(part.first, part.last, acquisition.take)
        if acquisition.left > 0 and last >= self.next_offset:
            self._acquire_new(acquisition, asked, batches)
        acquired = self._without_aborted(acquisition.taken, batches)
        for one in acquired:
            heappush(self._locks, (acquisition.until_ms, one.first, one.last))
        self._advance_start()
        return acquired

    def acknowledge(self, member: str, told: Sequence[Acknowledgement], limits: Limits, now_ms: int) -> None:
        """Take over what a member says of its records, all of it or nothing. What the group is done with already is passed over.

        Raises INVALID_RECORD_STATE for records that the member does not hold, INVALID_REQUEST for records that were never acquired.
        """
        for one in told:
            self._check(member, one)
        for one in told:
            for part in self._ranges.between(max(one.first, self.start_offset), one.last):
                if one.event is Event.RENEW:
                    self._renew(part, now_ms + limits.lock_ms)
                else:
                    self._move(part, one.event, limits)
        self._advance_start()

    def give_back(self, member: str, limits: Limits) -> bool:
        """A member's session has ended: what it had is available again. Return whether it had anything."""
        parts = [found for found in self._ranges if found.state is RecordState.ACQUIRED and found.member == member]
        for part in parts:
            self._move(part, Event.LOSE_SESSION, limits)
        self._advance_start()
        return bool(parts)

    # What time, leaders and the log do

    def expire(self, limits: Limits, now_ms: int) -> bool:
        """End the locks whose time has come; return whether there were any."""
        ended = False
        while self._locks and self._locks[0][0] <= now_ms:
            _, first, last = heappop(self._locks)
            for part in self._ranges.between(first, last):
                if part.state is RecordState.ACQUIRED and part.locked_until_ms <= now_ms:
                    self._move(part, Event.TIME_OUT, limits)
                    ended = True
        self._advance_start()
        return ended

    def change_leader(self) -> None:
        """Another node leads: it knows what was stored, which is everything but who has acquired what."""
        for part in [found for found in self._ranges if found.state is RecordState.ACQUIRED]:
            self._ranges.change(part.first, part.last, InFlightRange.stored)
            self._searched_until = min(self._searched_until, part.first)
        self._locks.clear()

    def follow_log(self, log_start: int, log_end: int) -> None:
        """Forget what the log does not have any more: records that were deleted, and records that an unclean election has lost."""
        if log_start > self.start_offset:
            self._ranges.drop_before(log_start)
            self.start_offset, self.next_offset = log_start, max(self.next_offset, log_start)
        if log_end < self.next_offset:
            self._ranges.drop_from(log_end)
            self.start_offset, self.next_offset = min(self.start_offset, log_end), log_end
        self._searched_until = min(max(self._searched_until, self.start_offset), self.next_offset)
        self._advance_start()

    # Inside

    def _room(self, asked: Asked, offset: int, batches: Sequence[LogBatch], limits: Limits) -> tuple[int, int]:
        """Return how many records may be acquired, and up to which offset."""
        if not batches:
            return 0, -1
        room = min(asked.max_records, limits.max_in_flight - self.in_flight)
        if room > 0:
            return room, batches[-1].last
        # As many as may be are in flight, but some of them are available again.
        return min(asked.max_records, self.next_offset - offset), min(batches[-1].last, self.next_offset - 1)

    def _acquire_new(self, acquisition: _Acquisition, asked: Asked, batches: Sequence[LogBatch]) -> None:
        """Give a member records that were never acquired before."""
        fresh = [batch for batch in batches if batch.last >= self.next_offset]
        first, until = max(fresh[0].first, self.next_offset), acquisition.left
        last = next((batch.last for batch in fresh if batch.last - first + 1 >= until), fresh[-1].last)
        if asked.mode == BY_RECORD:
            self._add(acquisition, first, min(last, first + until - 1), last)
            return
        for batch in fresh:
            if first < batch.first <= last and batch.first - first >= asked.batch_size:
                self._add(acquisition, first, batch.first - 1, batch.first - 1)
                first = batch.first
        self._add(acquisition, first, last, last)

    def _add(self, acquisition: _Acquisition, first: int, acquired_last: int, last: int) -> None:
        """Begin to keep records as one batch, of which a member gets the first ones."""
        fresh = InFlightRange(first, last, first, RecordState.AVAILABLE)
        self._ranges.add(fresh)
        self._ranges.change(first, acquired_last, acquisition.take)
        self.next_offset = last + 1
        self._searched_until = min(self._searched_until, first)

    def _without_aborted(self, taken: Sequence[Acquired], batches: Sequence[LogBatch]) -> list[Acquired]:
        """Archive what belongs to aborted transactions; return the rest."""
        aborted = [batch for batch in batches if batch.is_aborted]
        left = list(taken)
        for batch in aborted:
            left = [part for one in left for part in _outside(one, batch)]
            for one in taken:
                self._ranges.change(max(one.first, batch.first), min(one.last, batch.last), lambda found: found.moved(Event.FILTER, 0))
        return left

    def _archive_compacted(self, offset: int, first_read: int) -> None:
        """Archive what is not in the log any more between where it was read from and what was read first."""
        for part in self._ranges.between(offset, first_read - 1):
            if part.state is RecordState.AVAILABLE:
                self._ranges.change(part.first, part.last, lambda found: found.moved(Event.COMPACT, 0))

    def _check(self, member: str, told: Acknowledgement) -> None:
        if told.last < self.start_offset:
            return
        if not len(self._ranges):
            raise _not_acquired(told, "nothing is acquired")
        if told.last >= self.next_offset:
            raise BrokerError(f"offset {told.last} was acknowledged and never acquired", code=ErrorCode.INVALID_REQUEST)
        for part in self._ranges.between(max(told.first, self.start_offset), told.last):
            if part.state is not RecordState.ACQUIRED:
                raise _not_acquired(told, f"offset {part.first} is {part.state}")
            if part.member != member:
                raise _not_acquired(told, f"another member has acquired offset {part.first}")

    def _renew(self, part: InFlightRange, until_ms: int) -> None:
        self._ranges.change(part.first, part.last, lambda found: found.renewed(until_ms))
        heappush(self._locks, (until_ms, part.first, part.last))

    def _move(self, part: InFlightRange, event: Event, limits: Limits) -> None:
        self._ranges.change(part.first, part.last, lambda found: found.moved(event, limits.max_deliveries))
        self._searched_until = min(self._searched_until, part.first)

    def _advance_start(self) -> None:
        """Forget records at the start that the group is done with."""
        unfinished = self._ranges.first_unfinished()
        self.start_offset = self.next_offset if unfinished is None else unfinished
        self._ranges.drop_before(self.start_offset)


class _Acquisition:
    """Which records one request is given. room: how many, at most; as many more as the rest of a batch has, unless `mode` is BY_RECORD.

    chosen: what is to be taken of the records in flight.
    """

    def __init__(self, member: str, until_ms: int, mode: int, room: int, limits: Limits) -> None:
        self.until_ms = until_ms
        self.left = room
        self.chosen: list[InFlightRange] = []
        self.taken: list[Acquired] = []
        self._member = member
        self._mode = mode
        self._limits = limits

    def choose(self, held: Sequence[InFlightRange], batch_records: int) -> None:
        """Choose among what was read of one batch, which has so many records. Suspect ones are chosen alone."""
        ready = [found for found in held if found.state is RecordState.AVAILABLE]
        if not ready or self.left <= 0:
            return
        is_suspect = max(found.deliveries for found in ready) >= self._limits.suspect_deliveries
        if not is_suspect:
            self._choose(ready, sum(found.records for found in ready))
            return
        if not self.chosen:
            self._choose_suspects(ready, batch_records)
        self.left = 0

    def take(self, found: InFlightRange) -> InFlightRange:
        """Take records."""
        acquired = found.acquired(self._member, self.until_ms)
        self.taken.append(Acquired(acquired.first, acquired.last, acquired.deliveries))
        return acquired

    def _choose(self, ready: Sequence[InFlightRange], count: int) -> None:
        """Choose so many records, or fewer if the limit is strict."""
        wanted = min(count, self.left) if self._mode == BY_RECORD else count
        self.left -= wanted
        for found in ready:
            if wanted > 0:
                self.chosen.append(found.within(found.first, found.first + wanted - 1))
            wanted -= found.records

    def _choose_suspects(self, ready: Sequence[InFlightRange], batch_records: int) -> None:
        """Choose fewer records the more often they were delivered, and one for the last time by itself."""
        suspect = self._limits.suspect_deliveries
        others = list(takewhile(lambda found: not self._is_last_chance(found), ready))
        if not others:
            self._choose(ready[:1], 1)
            return
        count = sum(found.records for found in others)
        before = sum(found.records for found in takewhile(lambda found: found.deliveries < suspect, others))
        deliveries = next((found.deliveries for found in others if found.deliveries >= suspect), suspect)
        fewer = max(1, batch_records >> (deliveries - suspect + 1))
        # As in Kafka: behind more than that of records that are not suspect, the suspect ones are not held back.
        if before < fewer:
            count = min(count, fewer)
        self._choose(others, count)

    def _is_last_chance(self, found: InFlightRange) -> bool:
        return found.deliveries >= self._limits.max_deliveries - 1 > 1


def _outside(one: Acquired, batch: LogBatch) -> list[Acquired]:
    """Return the parts of what was acquired that are not in a batch."""
    parts = (one._replace(last=min(one.last, batch.first - 1)), one._replace(first=max(one.first, batch.last + 1)))
    return [part for part in parts if part.first <= part.last]


def _not_acquired(told: Acknowledgement, fault: str) -> BrokerError:
    return BrokerError(f"the offsets {told.first} to {told.last} cannot be acknowledged: {fault}", code=ErrorCode.INVALID_RECORD_STATE)
