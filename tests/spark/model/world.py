"""One schedule: drivers take steps, and at each step something may happen instead.

A schedule is text, such as `9:unanswered 14:crash`: at which step what happens. Whatever it does not name goes well, so the same text is
the same run, and a failing one can be replayed and shortened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from .coordinator import Answer, Brokers, Coordinator, State
from .sink import LEDGER, Ask, Policy, Refused, Sink, Undecidable, Wait
from .spark import Checkpoint, Driver, Point, Query, Stopped, TaskDied

MOST_RUNS = 30
MOST_STEPS = 2000
REFUSALS = 2
"""Runs in a row that are refused before nobody starts another."""

CONSEQUENCES = ("switch", "late")
"""These choose when something shows of which a fault has happened before."""


class Verdict(Enum):
    """What became of a schedule, the worst first."""

    DUPLICATE = "duplicate"
    LOSS = "loss"
    MIXED = "mixed"
    BLOCKED = "blocked"
    UNDECIDABLE = "undecidable"
    REFUSED = "refused"
    HELD = "held"
    OK = "ok"


WRONG = frozenset({Verdict.DUPLICATE, Verdict.LOSS, Verdict.MIXED})


@dataclass(frozen=True)
class Variant:
    """What is explored. without: rules that the sink lacks. faults: beside those that every variant has. only: these and no others, if any.

    prompt: a decision, and what follows from it, takes less than the fifth of transaction.timeout.ms that slots must have before it, and no
    late request of their tasks arrives meanwhile. operator_skips: somebody gives onOtherRows=skip after a batch was refused for its rows.
    """

    name: str
    query: Query = field(default_factory=Query)
    without: frozenset[str] = frozenset()
    policy: Policy = field(default_factory=Policy)
    faults: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    prompt: bool = False
    operator_skips: bool = False

    def has(self, fault: str) -> bool:
        """Whether a fault may happen."""
        return fault in self.faults


class Outcome(NamedTuple):
    """What became of a schedule. why: for people."""

    verdict: Verdict
    why: str


@dataclass(slots=True)
class Process:
    """A driver that runs. pending: what it does next."""

    driver: Driver
    steps: Any
    pending: Any


class World:
    """Brokers, checkpoints and drivers. choose: is given the number of the step, and what may happen at it; "" is nothing."""

    def __init__(self, variant: Variant, brokers: Brokers, choose: Callable[[int, World], str]) -> None:
        self.variant = variant
        self.brokers = brokers
        self.kafka = Coordinator(brokers)
        self.told: list[str] | None = None
        self._choose = choose
        self._policy = variant.policy
        self._checkpoints = [Checkpoint("query", "")]
        self._checkpoint = self._checkpoints[0]
        self._runs = 0
        self._live: Process | None = None
        self._paused: Process | None = None
        self._late: list[Ask] = []
        self._described: set[str] = set()

    def play(self) -> Outcome:
        """Let it happen to its end."""
        for step in range(MOST_STEPS):
            if self._live is None and not self._start():
                return self._outcome()
            choice = self._choose(step, self)
            self._tell(step, choice)
            self._take(choice)
        return Outcome(Verdict.BLOCKED, "it does not end")

    def options(self) -> Iterator[str]:
        """Yield what may happen at this step."""
        if not self.variant.only:
            return self._options()
        return (option for option in self._options() if option.partition(":")[0] in self.variant.only)

    def _options(self) -> Iterator[str]:
        assert self._live is not None
        pending = self._live.pending
        if self._paused is not None:
            yield "switch"
        spared = self._spared() if self.variant.prompt else ()
        for number, request in enumerate(self._late):
            if request.arguments[:1] not in [(name,) for name in spared]:
                yield f"late:{number}"
        if isinstance(pending, Ask):
            yield from ("unanswered", "delayed", "crash", "crash-after", "crash-delayed")
            if pending.task:
                yield from ("task-dies", "stage-again", "stop")
        elif isinstance(pending, Point):
            yield "crash"
            if pending.name == "tasks":
                yield "stop"
            elif pending.name == "task":
                yield from ("task-dies", "stage-again")
        if self._paused is None and not isinstance(pending, Wait):
            yield "pause"
        yield from self._events(spared)

    def _spared(self) -> set[str]:
        """Return the names of slots that are decided, or were found to have time enough for it."""
        entry = self.kafka.offsets.get(LEDGER)
        decided = {part.handle.name for part in entry.parts if part.handle is not None} if entry is not None else set()
        return decided | self._described

    def _events(self, spared: Collection[str]) -> Iterator[str]:
        """What happens to brokers and checkpoints."""
        for name, known in self.kafka.transactions.items():
            if known.state is State.ONGOING and name not in spared:
                yield f"timeout:{name}"
            elif self.variant.has("expiry") and known.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
                yield f"expire:{name}"
        if any(known.state in (State.PREPARE_COMMIT, State.PREPARE_ABORT) for known in self.kafka.transactions.values()):
            yield "markers"
        if self.variant.has("ledger lost") and LEDGER in self.kafka.offsets:
            yield "forget"
        if self._paused is None:
            if self.variant.has("copy") and len(self._checkpoints) == 1:
                yield "copy"
            if self.variant.has("new checkpoint") and len(self._checkpoints) == 1:
                yield "new"
            if self.variant.has("restore") and self._checkpoint.committed:
                yield from ("restore", "restore-replan")

    def _take(self, choice: str) -> None:
        assert self._live is not None
        what, _, which = choice.partition(":")
        pending = self._live.pending
        if what in ("", "unanswered", "delayed"):
            self._advance(self._answer(pending, what))
        elif what in ("task-dies", "stage-again"):
            self._throw(TaskDied(what == "stage-again"))
        elif what == "stop":
            self._throw(Stopped())
        elif what.startswith("crash"):
            self._answer(pending, what.removeprefix("crash-") if what != "crash" else "not sent")
            self._live = None
            self._checkpoint.failure = None
            self._checkpoint.refusals = 0
        elif what == "switch":
            assert self._paused is not None
            self._live, self._paused = self._paused, self._live
            self._checkpoint = self._live.driver.checkpoint
        elif what == "late":
            self._request(self._late.pop(int(which)))
        elif what in ("pause", "copy", "new"):
            self._paused, self._live = self._live, None
            if what != "pause":
                self._fork(what)
        else:
            self._happen(what, which)

    def _answer(self, pending: Any, what: str) -> Answer | None:
        """Return the answer to what a process does, None without one."""
        if isinstance(pending, Wait):
            self.kafka.write_markers()
        elif isinstance(pending, Ask):
            if what == "delayed":
                self._late.append(pending)
            elif what != "not sent":
                answer = self._request(pending)
                return answer if what == "" else None
        return None

    def _request(self, request: Ask) -> Answer:
        answer: Answer = getattr(self.kafka, request.call)(*request.arguments)
        if request.call == "describe_transactions":
            self._described.update(request.arguments[0])
        if self.told is not None:
            self.told.append(f"        {answer.error}")
        return answer

    def _happen(self, what: str, which: str) -> None:
        if what == "timeout":
            self.kafka.abort_by_coordinator(which)
        elif what == "expire":
            self.kafka.expire(which)
            self._late.clear()  # No request is under way for days.
        elif what == "markers":
            self.kafka.write_markers()
        elif what == "forget":
            del self.kafka.offsets[LEDGER]
        else:
            self._live = None
            self._checkpoint.restore(None if what == "restore" else f"planned by run {self._runs + 1}")

    def _fork(self, what: str) -> None:
        source = f"{what} by run {self._runs + 1}"
        forked = self._checkpoint.copied(source) if what == "copy" else Checkpoint("another query", source)
        self._checkpoints.append(forked)
        self._checkpoint = forked

    def _start(self) -> bool:
        """Start a run, or let the paused one go on. False when nothing is left to be done."""
        unfinished = next(filter(self._needs_a_run, (self._checkpoint, *self._checkpoints)), None)
        if unfinished is not self._checkpoint and self._paused is not None:
            self._live, self._paused = self._paused, None
            self._checkpoint = self._live.driver.checkpoint
            return True
        if unfinished is None:
            return False
        self._checkpoint = unfinished
        self._runs += 1
        driver = Driver(self.variant.query, unfinished, self._runs, self._new_sink)
        self._live = Process(driver, driver.steps(), None)
        self._advance(None)
        return self._live is not None or self._start()

    def _needs_a_run(self, checkpoint: Checkpoint) -> bool:
        """Whether somebody would start the query again."""
        is_done = len(checkpoint.committed) == len(self.variant.query.sizes)
        return not is_done and self._runs < MOST_RUNS and checkpoint.refusals < REFUSALS

    def _new_sink(self, run: int) -> Sink:
        query = self.variant.query
        return Sink(self.brokers, run, self._policy, self.variant.without, query.slots_of(run), query.processes)

    def _advance(self, answer: Answer | None) -> None:
        assert self._live is not None
        try:
            self._live.pending = self._live.steps.send(answer)
        except StopIteration:
            self._ended()

    def _throw(self, error: Exception) -> None:
        assert self._live is not None
        try:
            self._live.pending = self._live.steps.throw(error)
        except StopIteration:
            self._ended()

    def _ended(self) -> None:
        assert self._live is not None
        driver = self._live.driver
        checkpoint, refused = driver.checkpoint, isinstance(driver.ended_by, Refused)
        checkpoint.failure = driver.ended_by
        checkpoint.refusals = checkpoint.refusals + 1 if refused else 0
        if isinstance(driver.ended_by, Undecidable):
            checkpoint.refusals = REFUSALS
        if refused and self.variant.operator_skips and "other rows" in str(driver.ended_by):
            self._policy = self._policy._replace(other_rows="skip")
        if self.told is not None:
            self.told.append(f"    run {driver.run} ends: {driver.ended_by or 'all is written'}")
        self._live = None

    def _tell(self, step: int, choice: str) -> None:
        if self.told is None:
            return
        assert self._live is not None
        pending = self._live.pending
        what = f"{pending.call}{pending.arguments}" if isinstance(pending, Ask) else str(pending)
        self.told.append(f"{step:4} run {self._live.driver.run}: {what}{f'   <<< {choice}' if choice else ''}")

    # What became of it

    def _outcome(self) -> Outcome:
        """Judge when all is over: late requests have arrived and markers are written, but nothing has timed out."""
        for request in self._late:
            self._request(request)
        self.kafka.write_markers()
        return self._rows() or self._end()

    def _rows(self) -> Outcome | None:
        query, visible = self.variant.query, self.kafka.visible
        most = query.writes if query.equal_writes else 1
        seen: Counter[tuple[int, int]] = Counter()
        for row, count in visible.items():
            seen[row.batch, row.number] += count
        if twice := [row for row, count in seen.items() if count > most]:
            return Outcome(Verdict.DUPLICATE, f"rows (batch, number) {twice}")
        for checkpoint in self._checkpoints:
            for batch in checkpoint.committed:
                planned = checkpoint.plans[batch]
                expected = [row for write in range(query.writes) for task in query.rows(batch, planned, 0, write) for row in task]
                there: Counter[tuple[int, int]] = Counter()
                for row, count in visible.items():
                    if row.batch == batch and row.plan == planned:
                        there[row.batch, row.number] += count
                if missing := Counter((row.batch, row.number) for row in expected) - there:
                    return Outcome(Verdict.LOSS, f"rows (batch, number) {sorted(missing)} of a batch that Spark has committed")
        versions = {(row.batch, row.version) for row in visible if row.number < 10}
        if len(versions) > len({batch for batch, _ in versions}):
            return Outcome(Verdict.MIXED, "rows of two computations of one batch")
        return None

    def _end(self) -> Outcome:
        batches = len(self.variant.query.sizes)
        for failure in (checkpoint.failure for checkpoint in self._checkpoints if len(checkpoint.committed) < batches):
            if isinstance(failure, Undecidable):
                return Outcome(Verdict.UNDECIDABLE, str(failure))
            return Outcome(Verdict.REFUSED if isinstance(failure, Refused) else Verdict.BLOCKED, str(failure))
        if held := self.kafka.held():
            return Outcome(Verdict.HELD, ", ".join(held))
        return Outcome(Verdict.OK, "")


def parsed(schedule: str) -> dict[int, str]:
    """Read a schedule. Raises ValueError."""
    steps = {}
    for part in schedule.split():
        step, _, choice = part.partition(":")
        steps[int(step)] = choice
    return steps


def shown(schedule: dict[int, str]) -> str:
    """Write a schedule."""
    return " ".join(f"{step}:{choice}" for step, choice in sorted(schedule.items()))


def run(variant: Variant, brokers: Brokers, schedule: str) -> Outcome:
    """Play a schedule."""
    chosen = parsed(schedule)
    return World(variant, brokers, lambda step, _: chosen.get(step, "")).play()


def told(variant: Variant, brokers: Brokers, schedule: str) -> str:
    """Play a schedule, and return what happened, line by line."""
    chosen = parsed(schedule)
    world = World(variant, brokers, lambda step, _: chosen.get(step, ""))
    world.told = []
    outcome = world.play()
    return "\n".join([*world.told, f"{outcome.verdict.value}: {outcome.why}"])
