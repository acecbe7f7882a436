"""Spark, as far as the sink sees it.

- A batch has its rows from the moment it is planned (`offsets/N`), and is repeated with them until `commits/N` is written. A new run has
  the same query id and another run id. The division of rows into tasks may differ from run to run, and so may their values.
- commit() is called once for a batch in a run, with a message for each task. When it raises, abort() is called in a new process, the run
  ends, and nobody repeats a batch within a run.
- stop() while tasks run calls abort() without their messages. While commit() runs it lets that finish, writes no `commits/N`, and calls
  nothing.
- A task that died is tried again under the next attempt number; a stage that is run again counts attempts from 0. What the first ones
  have written stays. The same comes of a task that speculation lets run twice.
- The driver of a run that everybody takes for dead may go on. Only one driver can write `commits/N`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from .coordinator import Row
from .sink import Batch, Failed, Message, Sink, Steps


class Point(NamedTuple):
    """A step of Spark that is no request: something may happen there. name: tasks, or log."""

    name: str


class TaskDied(Exception):
    """A task is tried again. same_attempt: its stage is run again."""

    def __init__(self, same_attempt: bool) -> None:
        self.same_attempt = same_attempt


class Stopped(Exception):
    """The user stops the query."""


@dataclass(frozen=True)
class Query:
    """What is computed. sizes: rows of each batch. slots: for each task, whether it writes a slot.

    varies: nothing, division (a row is another task's in another run), or values (it has another value as well). writes: how often
    foreachBatch writes, other rows each time unless equal_writes. swaps: whether another run's tasks write slots where this one's do not.
    processes: how many processes of a driver commit batches, in turn.
    """

    sizes: tuple[int, ...] = (2, 2, 2)
    slots: tuple[bool, ...] = (False, False)
    varies: str = "nothing"
    writes: int = 1
    equal_writes: bool = False
    swaps: bool = False
    processes: int = 1

    def rows(self, batch: int, plan: str, run: int, write: int) -> tuple[tuple[Row, ...], ...]:
        """Return the rows of a write, by task."""
        tasks: list[list[Row]] = [[] for _ in self.slots]
        first = 0 if self.equal_writes else 10 * write
        for number in range(self.sizes[batch]):
            shift = run if self.varies != "nothing" else 0
            version = run if self.varies == "values" else 0
            tasks[(number + shift) % len(tasks)].append(Row(batch, first + number, plan, version))
        return tuple(map(tuple, tasks))

    def slots_of(self, run: int) -> tuple[bool, ...]:
        """Return which tasks of a run write slots."""
        return tuple(not slot for slot in self.slots) if self.swaps and run % 2 else self.slots


@dataclass
class Checkpoint:
    """A query's checkpoint. plans: what each batch was planned with. source: what a batch is planned with now.

    failure: of the last run. refusals: in a row.
    """

    query: str
    source: str
    committed: set[int] = field(default_factory=set)
    plans: dict[int, str] = field(default_factory=dict)
    failure: Failed | None = None
    refusals: int = 0

    def copied(self, source: str) -> Checkpoint:
        """Return a copy, whose source has other rows from now on."""
        return Checkpoint(self.query, source, set(self.committed), dict(self.plans))

    def restore(self, source: str | None) -> None:
        """Go back to an older state. source: the batches that are forgotten have other rows from now on; None: the same ones."""
        self.committed.discard(max(self.committed, default=-1))
        if source is not None:
            self.source = source
            self.plans = {number: plan for number, plan in self.plans.items() if number in self.committed}


@dataclass
class Driver:
    """A run of a query. ended_by: what it raised."""

    query: Query
    checkpoint: Checkpoint
    run: int
    new_sink: Callable[[int], Sink]
    ended_by: Failed | None = None

    def steps(self) -> Steps:
        """Run batches until none is left, or one fails."""
        sink = self.new_sink(self.run)
        checkpoint = self.checkpoint
        for number in range(len(self.query.sizes)):
            if number in checkpoint.committed:
                continue
            plan = checkpoint.plans.setdefault(number, checkpoint.source)
            for write in range(self.query.writes):
                if not (yield from self._write(sink, Batch(number, checkpoint.query, self.run), plan, write)):
                    return
            yield Point("log")
            if number in checkpoint.committed:
                self.ended_by = Failed("another driver has committed the batch")
                return
            checkpoint.committed.add(number)

    def _write(self, sink: Sink, batch: Batch, plan: str, write: int) -> Steps:
        """Return whether the run goes on."""
        messages: list[Message | None] = [None] * len(self.query.slots)
        try:
            yield Point("tasks")
            for number, rows in enumerate(self.query.rows(batch.number, plan, self.run, write)):
                messages[number] = yield from self._task(sink, batch, number, rows)
            yield from sink.commit(batch, messages)
        except (Failed, Stopped) as failure:
            self.ended_by = failure if isinstance(failure, Failed) else Failed("stopped")
            lost = isinstance(failure, Stopped)
            try:
                yield from self.new_sink(self.run).abort(batch, [None if lost else message for message in messages])
            except Failed:
                return False
            return False
        return True

    def _task(self, sink: Sink, batch: Batch, number: int, rows: tuple[Row, ...]) -> Steps:
        attempt = died = 0
        while True:
            try:
                message = yield from sink.task(batch, number, attempt, rows)
                if message.handle is not None:
                    yield Point("task")
                return message
            except TaskDied as death:
                attempt += not death.same_attempt
            except Failed:
                died += 1
                attempt += 1
                if died > 1:
                    raise
