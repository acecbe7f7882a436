"""Loops over a consumer of either API: `for record in consumer`, and `async for`.

A loop polls, and gives out what each poll brought record by record; what it was not given is taken back when it is left. It ends by itself
when all partitions are read to their ends, those given to assign() or, with stop.at.end, those found when it began; and when no record came
for consumer.timeout.ms. With stop.at.end the partitions are bounded for as long as the loop runs, unless they have ends already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import length_hint
from typing import TYPE_CHECKING, Any

from levada.base.clock import NEVER_MS
from levada.base.flow import CallerFlow
from levada.consumer.reading import Reading
from levada.consumer.scan.loop_ends import beyond, bound, unbound_beyond
from levada.errors import ClosedError
from levada.types import AnyRecord, ConsumerRecords, OffsetAndMetadata, OffsetSpec, TopicPartition

if TYPE_CHECKING:
    from levada.api.consumer.consuming import Consuming

POLL_MS = 60_000


class Iteration:
    """The records that a loop over a consumer has, and how many it was given. is_over: it may have no more of them.

    coming: gives the loop one record after another, and nothing after end(). Only it counts: a statement per record would take as long as
    making the record does. committed: how many the loop was given when the program committed what it was given.
    """

    __slots__ = ("_given", "coming", "committed", "generation", "is_over", "records")

    def __init__(self, records: Sequence[AnyRecord], generation: int) -> None:
        self.records = records
        self.generation = generation
        self.coming: Any = iter(records)
        self.committed = 0
        self.is_over = False
        self._given = 0

    @property
    def given(self) -> int:
        """How many records the loop was given."""
        return self._given if self.is_over else len(self.records) - length_hint(self.coming)

    @property
    def left(self) -> Sequence[AnyRecord]:
        """What it was not given."""
        return self.records[self.given :]

    def end(self) -> None:
        """Give the loop no more."""
        self._given = self.given
        self.is_over = True
        # Behind the last record, wherever it stands: the loop that is in the midst of them finds no more.
        self.coming.__setstate__(len(self.records))


class Iterations:
    """What loops over one consumer are given, and which of it they are done with.

    A loop is done with a record when it asks for the next one. One that is left was given a last record, of which nobody knows whether it
    was worked off: the program's next call for records, or a commit, says so. What is committed without being asked for leaves it out.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._iteration: Iteration | None = None
        self._last: tuple[AnyRecord, int] | None = None
        """The last record that a loop was given which was left, and the newest generation then."""

    def begin(self, records: ConsumerRecords[Any, Any]) -> Iteration:
        """Let a loop have these records one by one."""
        self._iteration = Iteration(records, self._reading.look(lambda core: core.subscription.generations.newest))
        return self._iteration

    @property
    def left(self) -> Sequence[AnyRecord]:
        """What the loop was not given yet of the records that it has."""
        return self._iteration.left if self._iteration is not None else ()

    def end(self) -> None:
        """Take back what a loop has not been given yet, before anything is read, moved, or asked about positions.

        The loop itself may come too late for that: asyncio ends a generator that a loop was left with only some time later.
        """
        iteration, self._iteration = self._iteration, None
        if iteration is not None:
            iteration.end()
            with suppress(ClosedError):
                if iteration.left:
                    self._reading.change(lambda core, _: core.rewind(iteration.left, iteration.generation))
                if iteration.given > iteration.committed:
                    newest = self._reading.look(lambda core: core.subscription.generations.newest)
                    self._last = iteration.records[iteration.given - 1], newest

    def done_with_all(self) -> None:
        """The program is done with all that loops were given."""
        self._last = None
        if self._iteration is not None:
            self._iteration.committed = self._iteration.given

    def done_before(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """The program is done with what is before these offsets."""

        def is_done(record: AnyRecord) -> bool:
            at = offsets.get(TopicPartition(record.topic, record.partition))
            return at is not None and record.offset < at.offset

        iteration = self._iteration
        if iteration is not None and iteration.given and is_done(iteration.records[iteration.given - 1]):
            iteration.committed = iteration.given
        if self._last is not None and is_done(self._last[0]):
            self._last = None

    def take_back_last(self) -> None:
        """Nothing is asked for any more: the last record of a loop that was left is not committed."""
        last, self._last = self._last, None
        if last is not None:
            record, generation = last
            self._reading.change(lambda core, _: core.rewind([record], generation))


class Loop:
    """One loop. is_over: whether it has ended by itself. read: polls with a timeout in seconds, poll_in_loop() unless given."""

    def __init__(self, consuming: Consuming, read: Callable[[float], CallerFlow[ConsumerRecords[Any, Any]]] | None = None) -> None:
        self.is_over = False
        self._consuming = consuming
        self._read = read or consuming.poll_in_loop
        self._stops_at_end = consuming.config.stop_at_end
        self._patience_ms = consuming.config.consumer_timeout_ms
        self._idle_until_ms: int | None = None
        """When it ends unless a record comes before; None while one has just come."""

    def poll(self, now_ms: int) -> CallerFlow[Iteration]:
        """Return the next records, maybe none. Polls once at most, so that what it brings can be taken back (see Reading.take_back)."""
        return self._consuming.iterate((yield from self.read(now_ms)))

    def read(self, now_ms: int) -> CallerFlow[ConsumerRecords[Any, Any]]:
        """Poll once, and see whether the loop is over."""
        consuming = self._consuming
        if consuming.loop is not self:
            consuming.leave_loop()
            consuming.loop = self
        if self._stops_at_end:
            yield from self._bound()
        if self._idle_until_ms is None:
            self._idle_until_ms = NEVER_MS if self._patience_ms < 0 else now_ms + self._patience_ms
        wait_ms = min(max(self._idle_until_ms - now_ms, 0), POLL_MS)
        records = yield from self._read(wait_ms / 1000)
        if records:
            self._idle_until_ms = None
        elif consuming.now_ms() >= self._idle_until_ms:
            self.is_over = True
        elif consuming.is_finished:
            self.is_over = not (yield from self._is_beyond())
        return records

    def leave(self) -> None:
        """The loop has ended, or was left."""
        if self._consuming.loop is self:
            self._consuming.leave_loop()

    def _bound(self) -> CallerFlow[None]:
        """Have the partitions without an end read up to where they end now."""
        reading = self._consuming.reading
        unbounded = reading.look(lambda core: [state.tp for state in core.subscription if state.stop_offset is None])
        if unbounded:
            ends = yield from self._consuming.ends(unbounded, OffsetSpec.LATEST, None)
            reading.change(lambda core, _: bound(core.subscription, ends))

    def _is_beyond(self) -> CallerFlow[bool]:
        """Return whether a position is behind the end of its log, as a committed one may be: nothing of that log was read yet."""
        reading = self._consuming.reading
        found = reading.look(lambda core: beyond(core.subscription))
        if not found:
            return False
        ends = yield from self._consuming.ends(found, OffsetSpec.LATEST, None)
        return reading.look(lambda core: unbound_beyond(core.subscription, ends))
