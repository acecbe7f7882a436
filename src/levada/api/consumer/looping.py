"""Loops over a consumer of either API: `for record in consumer`, and `async for`.

A loop polls, and yields the records of each poll one by one. When it is left, the records that it was not given are taken back. It ends by
itself when all partitions are read to their ends (those given to assign(), or with stop.at.end those at its beginning), and when no record
came for consumer.timeout.ms. With stop.at.end, partitions without an end get one for as long as the loop runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import length_hint
from typing import TYPE_CHECKING, Any

from levada.base.clock import NEVER_MS
from levada.base.flow import CallerFlow
from levada.consumer.consumer_flows import ConsumerFlows
from levada.consumer.scan.stop_at_end import beyond, bound, unbound_beyond
from levada.errors import ClosedError
from levada.types import AnyRecord, ConsumerRecords, OffsetAndMetadata, OffsetSpec, TopicPartition

if TYPE_CHECKING:
    from levada.api.consumer.consuming import Consuming

POLL_MS = 60_000


class Iteration:
    """The records that a loop over a consumer has, and how many of them it was given. is_over: it gets no more of them.

    coming: yields the records, and none after end(). It also counts them, because a statement per record would take as long as making the
    record. committed: how many the loop had been given when the program last committed.
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
        """The records that the loop was not given."""
        return self.records[self.given :]

    def end(self) -> None:
        """Give the loop no more records."""
        self._given = self.given
        self.is_over = True
        # Behind the last record, wherever it stands: the loop that is in the midst of them finds no more.
        self.coming.__setstate__(len(self.records))


class Iterations:
    """The records that loops over one consumer were given, and which of them the program is done with.

    A loop is done with a record when it asks for the next one. A loop that was left may or may not have processed its last record: the
    program's next call for records, or a commit without arguments, shows that it has. Automatic commits leave that record out.
    """

    def __init__(self, reading: ConsumerFlows) -> None:
        self._reading = reading
        self._iteration: Iteration | None = None
        self._last: tuple[AnyRecord, int] | None = None
        """The last record that a loop was given before it was left, and the newest generation then."""

    def begin(self, records: ConsumerRecords[Any, Any]) -> Iteration:
        """Give a loop these records one by one."""
        self._iteration = Iteration(records, self._reading.look(lambda core: core.subscription.generations.newest))
        return self._iteration

    @property
    def left(self) -> Sequence[AnyRecord]:
        """The records that the loop was not given yet."""
        return self._iteration.left if self._iteration is not None else ()

    def end(self) -> None:
        """Take back the records that a loop was not given, before the consumer reads, seeks or is asked for a position.

        The loop's own end may come too late for that: asyncio ends the generator of a loop that was left only some time later.
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
        """Record that the program is done with every record that loops were given."""
        self._last = None
        if self._iteration is not None:
            self._iteration.committed = self._iteration.given

    def done_before(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Record that the program is done with everything before these offsets."""

        def is_done(record: AnyRecord) -> bool:
            at = offsets.get(TopicPartition(record.topic, record.partition))
            return at is not None and record.offset < at.offset

        iteration = self._iteration
        if iteration is not None and iteration.given and is_done(iteration.records[iteration.given - 1]):
            iteration.committed = iteration.given
        if self._last is not None and is_done(self._last[0]):
            self._last = None

    def take_back_last(self) -> None:
        """Leave the last record of a loop that was left out of the commit, because the program asks for no more records."""
        last, self._last = self._last, None
        if last is not None:
            record, generation = last
            self._reading.change(lambda core, _: core.rewind([record], generation))


class Loop:
    """One loop over a consumer. is_over: whether it has ended by itself. read: polls with a timeout in seconds; default: poll_in_loop()."""

    def __init__(self, consuming: Consuming, read: Callable[[float], CallerFlow[ConsumerRecords[Any, Any]]] | None = None) -> None:
        self.is_over = False
        self._consuming = consuming
        self._read = read or consuming.poll_in_loop
        self._stops_at_end = consuming.config.stop_at_end
        self._patience_ms = consuming.config.consumer_timeout_ms
        self._idle_until_ms: int | None = None
        """When the loop ends unless a record comes before; None right after a record."""

    def poll(self, now_ms: int) -> CallerFlow[Iteration]:
        """Return the next records, maybe none. It polls at most once, so that the result can be taken back (take_back())."""
        return self._consuming.iterate((yield from self.read(now_ms)))

    def read(self, now_ms: int) -> CallerFlow[ConsumerRecords[Any, Any]]:
        """Poll once, and check whether the loop is over."""
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
        """Remove the ends that the loop has given to partitions (stop.at.end). Has no effect if another loop has begun since."""
        if self._consuming.loop is self:
            self._consuming.leave_loop()

    def _bound(self) -> CallerFlow[None]:
        """Give partitions without an end the current end of their logs."""
        reading = self._consuming.reading
        unbounded = reading.look(lambda core: [state.tp for state in core.subscription if state.stop_offset is None])
        if unbounded:
            ends = yield from self._consuming.ends(unbounded, OffsetSpec.LATEST, None)
            reading.change(lambda core, _: bound(core.subscription, ends))

    def _is_beyond(self) -> CallerFlow[bool]:
        """Whether a position is behind the end of its log, as a committed position may be when the log was created anew."""
        reading = self._consuming.reading
        found = reading.look(lambda core: beyond(core.subscription))
        if not found:
            return False
        ends = yield from self._consuming.ends(found, OffsetSpec.LATEST, None)
        return reading.look(lambda core: unbound_beyond(core.subscription, ends))
