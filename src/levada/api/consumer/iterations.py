"""The records of a poll that a loop over a consumer is given one by one, and what is taken back when the loop is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import length_hint
from typing import Any

from levada.consumer.consumer_flows import ConsumerFlows
from levada.errors import ClosedError
from levada.types import AnyRecord, ConsumerRecords, OffsetAndMetadata, TopicPartition

POLL_MS = 60_000
"""How long a loop waits in one poll."""


class Iteration:
    """The records of one poll that a loop over a consumer goes through. is_over: whether the loop gets no more of these records.

    coming: an iterator over the records; after end() it yields none. Its length hint counts the given records, because a Python statement
    per record would take as long as making the record. committed: how many records had been given to the loop at the program's last commit.
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
        """How many records were given to the loop."""
        return self._given if self.is_over else len(self.records) - length_hint(self.coming)

    @property
    def left(self) -> Sequence[AnyRecord]:
        """The records that were not given to the loop yet."""
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
        """Return an Iteration that gives these records to a loop one by one."""
        self._iteration = Iteration(records, self._reading.look(lambda core: core.subscription.generations.newest))
        return self._iteration

    @property
    def left(self) -> Sequence[AnyRecord]:
        """The records of the running loop that were not given to it yet."""
        return self._iteration.left if self._iteration is not None else ()

    def end(self) -> None:
        """End the running loop's iteration, and move positions back to the records that were not given to the loop.

        Called before the consumer reads, seeks or returns a position. The end of the loop itself may come too late: asyncio closes the
        generator of a loop that was left only some time later.
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
        """Note that the program is done with every record that was given to a loop."""
        self._last = None
        if self._iteration is not None:
            self._iteration.committed = self._iteration.given

    def done_before(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note that the program is done with all records before these offsets."""

        def is_done(record: AnyRecord) -> bool:
            at = offsets.get(TopicPartition(record.topic, record.partition))
            return at is not None and record.offset < at.offset

        iteration = self._iteration
        if iteration is not None and iteration.given and is_done(iteration.records[iteration.given - 1]):
            iteration.committed = iteration.given
        if self._last is not None and is_done(self._last[0]):
            self._last = None

    def take_back_last(self) -> None:
        """Move the position back to the last record of a loop that was left, because it is unknown whether the program has processed that
        record.
        """
        last, self._last = self._last, None
        if last is not None:
            record, generation = last
            self._reading.change(lambda core, _: core.rewind([record], generation))
