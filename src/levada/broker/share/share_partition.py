"""A share partition, that is, a partition as one share group reads it: records in flight, their members, and the start offset (KIP-932).

Everything before start_offset, the share-partition start offset (SPSO), is finished. Records from there up to next_offset are in flight;
behind it, nothing was ever acquired. A fetch reads from the first available record. Records are acquired by whole record batches, so a
member may get a few more records than it asked for; otherwise parts of a batch would be decompressed twice. A member that asks for strict
limits (KIP-1206) gets no more than it wants; the rest of the batch is in flight as well. So at most max_in_flight records are in flight,
plus the rest of one batch.

A record that cannot be processed may make the others fail that are delivered in the same batch. So records that have failed often are
delivered in smaller and smaller batches, and for the last time one by one.

Nothing here waits or reads a clock. Locks expire when expire() is called with a later time.
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
    """The limits of a share group. lock_ms: how long a record is locked. max_deliveries: how often a record may be delivered.
    max_in_flight: the maximum number of records in flight.
    """

    lock_ms: int
    max_deliveries: int
    max_in_flight: int

    @property
    def suspect_deliveries(self) -> int:
        """The number of deliveries from which a record is delivered together with fewer other records."""
        return max(2, (self.max_deliveries + 1) // 2)


class LogBatch(NamedTuple):
    """The first and the last offset of a batch that was read from the log. is_aborted: whether its records must not be delivered, because
    the group reads committed records only and the transaction was aborted.
    """

    first: int
    last: int
    is_aborted: bool = False


class Asked(NamedTuple):
    """The number of records that a member wants to acquire. batch_size: the number of records that it wants in one acquired batch; batches
    of the log are not split for this. mode: BY_BATCH or BY_RECORD.
    """

    max_records: int
    batch_size: int
    mode: int = BY_BATCH


class Acquired(NamedTuple):
    """Records that a member has acquired, from one offset to another, both included. deliveries: how often they were delivered."""

    first: int
    last: int
    deliveries: int


class SharePartition:
    """The records of one partition that a share group has in flight.

    start_offset: the lowest offset that the group has not finished. in_flight: the stored records from there on, in order.
    """

    def __init__(self, start_offset: int, in_flight: Iterable[InFlightRange] = ()) -> None:
        self.start_offset = start_offset
        self.next_offset = start_offset
        self._ranges = InFlightRanges()
        for stored in in_flight:
            self._ranges.add(stored)
            self.next_offset = stored.last + 1
        # No record before this offset is available.
        self._searched_until = start_offset
        # A heap of the expiry times of locks, with the offsets of their records. Some of these locks may have been released.
        self._locks: list[tuple[int, int, int]] = []

    def __iter__(self) -> Iterator[InFlightRange]:
        return iter(self._ranges)

    @property
    def in_flight(self) -> int:
        """The number of offsets from the start offset to the end of the last batch that was acquired."""
        return self.next_offset - self.start_offset

    @property
    def finished(self) -> int:
        """The number of records in flight that are acknowledged or archived."""
        return sum(found.records for found in self._ranges if found.is_final)

    @property
    def fetch_offset(self) -> int:
        """The offset at which to begin to read records from the log for the next acquisition."""
        available = self._ranges.first_from(self._searched_until, RecordState.AVAILABLE)
        self._searched_until = self.next_offset if available is None else available
        return self._searched_until

    @property
    def next_deadline_ms(self) -> int:
        """The time at which the next lock may expire, NEVER_MS if nothing is locked."""
        return self._locks[0][0] if self._locks else NEVER_MS

    def has_room(self, limits: Limits) -> bool:
        """Return whether members could acquire records: those in flight that are available again, or new ones if the log has any."""
        return self.fetch_offset < self.next_offset or self.in_flight < limits.max_in_flight

    # Requests of members

    def acquire(self, member: str, asked: Asked, batches: Sequence[LogBatch], limits: Limits, now_ms: int) -> list[Acquired]:
        """Acquire records for a member; return them without those of aborted transactions, which are archived.

        batches: the batches that were read from fetch_offset on. Available offsets before the first batch are archived, because compaction
        has removed their records.
        """
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
        """Apply a member's acknowledgements. If one is invalid, none is applied. Records before the start offset are skipped.

        Raises INVALID_RECORD_STATE for records that another or no member has acquired, such as finished ones, and whenever nothing is in
        flight; INVALID_REQUEST for records that were never in flight.
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

    def release_all_of(self, member: str, limits: Limits) -> bool:
        """Make a member's records available again, because its session has ended. Those that may not be delivered again are archived.
        Returns whether the member had any.
        """
        parts = [found for found in self._ranges if found.state is RecordState.ACQUIRED and found.member == member]
        for part in parts:
            self._move(part, Event.LOSE_SESSION, limits)
        self._advance_start()
        return bool(parts)

    # Events of time, leaders and the log

    def expire(self, limits: Limits, now_ms: int) -> bool:
        """Make records available again whose locks have expired. Those that may not be delivered again are archived. Returns whether there
        were any.
        """
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
        """Make all acquired records available, because another leader continues. It knows the stored states, but not which members have
        acquired records. The deliveries in progress do not count.
        """
        for part in [found for found in self._ranges if found.state is RecordState.ACQUIRED]:
            self._ranges.change(part.first, part.last, InFlightRange.stored)
            self._searched_until = min(self._searched_until, part.first)
        self._locks.clear()

    def follow_log(self, log_start: int, log_end: int) -> None:
        """Remove records that are not in the log any more, because they were deleted or lost in an unclean election."""
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
        """Return how many records may be acquired, and the last offset that may be acquired."""
        if not batches:
            return 0, -1
        room = min(asked.max_records, limits.max_in_flight - self.in_flight)
        if room > 0:
            return room, batches[-1].last
        # The maximum is in flight, but some of these records are available again.
        return min(asked.max_records, self.next_offset - offset), min(batches[-1].last, self.next_offset - 1)

    def _acquire_new(self, acquisition: _Acquisition, asked: Asked, batches: Sequence[LogBatch]) -> None:
        """Acquire records that no member has acquired before."""
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
        """Add the records from `first` to `last` as one batch. The member acquires those up to `acquired_last`; the others are
        available.
        """
        fresh = InFlightRange(first, last, first, RecordState.AVAILABLE)
        self._ranges.add(fresh)
        self._ranges.change(first, acquired_last, acquisition.take)
        self.next_offset = last + 1
        self._searched_until = min(self._searched_until, first)

    def _without_aborted(self, taken: Sequence[Acquired], batches: Sequence[LogBatch]) -> list[Acquired]:
        """Archive the acquired records that belong to aborted transactions; return the others."""
        aborted = [batch for batch in batches if batch.is_aborted]
        left = list(taken)
        for batch in aborted:
            left = [part for one in left for part in _outside(one, batch)]
            for one in taken:
                self._ranges.change(max(one.first, batch.first), min(one.last, batch.last), lambda found: found.moved(Event.FILTER, 0))
        return left

    def _archive_compacted(self, offset: int, first_read: int) -> None:
        """Archive offsets that compaction has removed: the available ones from `offset` up to the first batch that was read."""
        for part in self._ranges.between(offset, first_read - 1):
            if part.state is RecordState.AVAILABLE:
                self._ranges.change(part.first, part.last, lambda found: found.moved(Event.COMPACT, 0))

    def _check(self, member: str, told: Acknowledgement) -> None:
        if told.last < self.start_offset:
            return
        if not len(self._ranges):
            raise _not_acquired(told, "nothing is acquired")
        if told.last >= self.next_offset:
            raise BrokerError(f"offset {told.last} was acknowledged but never acquired", code=ErrorCode.INVALID_REQUEST)
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
        """Raise the start offset to the first record that is not finished."""
        unfinished = self._ranges.first_unfinished()
        self.start_offset = self.next_offset if unfinished is None else unfinished
        self._ranges.drop_before(self.start_offset)


class _Acquisition:
    """The records that one request acquires.

    mode: BY_RECORD for at most `room` records; otherwise the rest of the last batch may be added. until_ms: when the locks expire. chosen:
    the records in flight that are to be acquired.
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
        """Choose available records from the records in flight of one batch. If some of them were delivered often, they are chosen only by a
        request that has chosen nothing before, and that request then acquires nothing after them.

        batch_records: the number of records in the batch.
        """
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
        """Acquire the records of a range; return the range as acquired."""
        acquired = found.acquired(self._member, self.until_ms)
        self.taken.append(Acquired(acquired.first, acquired.last, acquired.deliveries))
        return acquired

    def _choose(self, ready: Sequence[InFlightRange], count: int) -> None:
        """Choose the first `count` records of these ranges. In the mode BY_RECORD, no more are chosen than the request may still
        acquire.
        """
        wanted = min(count, self.left) if self._mode == BY_RECORD else count
        self.left -= wanted
        for found in ready:
            if wanted > 0:
                self.chosen.append(found.within(found.first, found.first + wanted - 1))
            wanted -= found.records

    def _choose_suspects(self, ready: Sequence[InFlightRange], batch_records: int) -> None:
        """Choose records that were delivered often: the more often, the fewer at once. For its last delivery a record is chosen alone, if
        the group allows more than two deliveries.
        """
        suspect = self._limits.suspect_deliveries
        others = list(takewhile(lambda found: not self._is_last_chance(found), ready))
        if not others:
            self._choose(ready[:1], 1)
            return
        count = sum(found.records for found in others)
        before = sum(found.records for found in takewhile(lambda found: found.deliveries < suspect, others))
        deliveries = next((found.deliveries for found in others if found.deliveries >= suspect), suspect)
        fewer = max(1, batch_records >> (deliveries - suspect + 1))
        # As in Kafka: if more records than that can be acquired before them, these are not limited.
        if before < fewer:
            count = min(count, fewer)
        self._choose(others, count)

    def _is_last_chance(self, found: InFlightRange) -> bool:
        return found.deliveries >= self._limits.max_deliveries - 1 > 1


def _outside(one: Acquired, batch: LogBatch) -> list[Acquired]:
    """Return the parts of acquired records that are outside of a batch."""
    parts = (one._replace(last=min(one.last, batch.first - 1)), one._replace(first=max(one.first, batch.last + 1)))
    return [part for part in parts if part.first <= part.last]


def _not_acquired(told: Acknowledgement, fault: str) -> BrokerError:
    return BrokerError(f"the offsets {told.first} to {told.last} cannot be acknowledged: {fault}", code=ErrorCode.INVALID_RECORD_STATE)
