"""What the sections of the engine benchmark share: the broker, fresh topics, turns of the systems and their medians."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from engine_process import Figures, Worker, WorkerFailed

LEVADA = "levada"
BEFORE = "levada before issue 8"
AIO = "levada.aio"
CONFLUENT = "confluent-kafka"
AIOKAFKA = "aiokafka"

BEFORE_SOURCE = Path(__file__).parent.parent / ".bench" / "before" / "src"

LEADERS_TIMEOUT_S = 60

System = Callable[[], Figures]


@dataclass
class Target:
    """What one system was to reach, and what it did. text: the figure and what it is held against."""

    system: str
    text: str
    limit: float
    reached: float | None
    at_least: bool = False

    @property
    def missed(self) -> bool:
        if self.reached is None:
            return True
        return self.reached < self.limit if self.at_least else self.reached > self.limit

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        reached = "not measured" if self.reached is None else f"{self.reached:.2f}"
        return f"{'MISSED: ' if self.missed else ''}{self.text} {reached} ({sign} {self.limit:g})"


@dataclass
class Case:
    """The systems on one case: every turn's figures, notes on systems that did not run, and targets."""

    section: str
    name: str
    turns: dict[str, list[Figures]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)

    @property
    def systems(self) -> list[str]:
        """Those that ran, then those that did not."""
        return list(dict.fromkeys([*self.turns, *self.notes]))

    def add(self, system: str, figures: Figures) -> None:
        """Note one turn of a system."""
        self.turns.setdefault(system, []).append(figures)
        told = ", ".join(f"{name} {value:,.2f}" for name, value in figures.items())
        print(f"{self.name}: {system}: {told}", file=sys.stderr, flush=True)

    def fail(self, system: str, error: WorkerFailed) -> None:
        """Note that a system failed: its targets are missed, whatever it did in other turns."""
        self.notes[system] = f"failed: {str(error).splitlines()[-1]}"
        print(f"{self.name}: {system}: {error}", file=sys.stderr, flush=True)

    def medians(self, system: str) -> Figures:
        """The median of every figure of a system over its turns; nothing where it did not run."""
        turns = [] if system in self.notes else self.turns.get(system, [])
        return {name: median(turn[name] for turn in turns) for name in (turns[0] if turns else ())}

    def figure(self, system: str, name: str) -> float | None:
        """A system's median, None where it was not measured."""
        return self.medians(system).get(name)

    def ratio(self, name: str, system: str, other: str) -> float | None:
        """A system's figure divided by the other's, None where one is missing."""
        ours, theirs = self.figure(system, name), self.figure(other, name)
        return None if ours is None or not theirs else ours / theirs

    def hold(self, system: str, name: str, other: str, limit: float, *, at_least: bool = False) -> None:
        """Set a target: the system's figure as a multiple of the other's. A system that is skipped on purpose has none."""
        if system not in self.notes or self.notes[system].startswith("failed"):
            reached = self.ratio(name, system, other)
            self.targets.append(Target(system, f"{name} / {other}'s", limit, reached, at_least))


class Bench:
    """One broker, and how often and how long everything runs against it.

    quick: does it work at all? before: run levada as it was before issue 8 wherever levada runs beside others.
    """

    def __init__(self, bootstrap_servers: str, turns: int, *, quick: bool = False, before: bool = False) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.turns = turns
        self.quick = quick
        self.before = before
        self._admin = self._new_admin()

    def scaled(self, count: int) -> int:
        """A number of records, a fifth of it in a quick run."""
        return count // 5 if self.quick else count

    def job(self, topic: str, **more: Any) -> dict[str, Any]:
        """What every worker on the real broker is told."""
        return {"bootstrap_servers": self.bootstrap_servers, "topic": topic, **more}

    @contextmanager
    def topic(self, partitions: int, **config: str) -> Iterator[str]:
        """A topic of its own, whose data are gone afterwards: the disk is not to fill while others are measured.

        config: its settings, with underscores for dots.
        """
        name = f"engine-{uuid.uuid4().hex[:8]}"
        made = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in config.items()})
        self._admin.create_topics([made], operation_timeout=60)[name].result(timeout=60)
        try:
            self._await_leaders(name, partitions)
            yield name
        finally:
            self._admin.delete_topics([name], operation_timeout=60)[name].result(timeout=60)

    def _await_leaders(self, topic: str, partitions: int) -> None:
        """Wait until every partition answers: making a thousand logs takes the broker longer than saying that the topic is there.

        Each time a new client asks. One that was told that there is no leader yet goes on believing it.
        """
        deadline = time.monotonic() + LEADERS_TIMEOUT_S
        wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
        while True:
            admin = self._new_admin()
            asked = admin.list_offsets(wanted, request_timeout=LEADERS_TIMEOUT_S)
            errors = [error for answer in asked.values() if (error := answer.exception(LEADERS_TIMEOUT_S)) is not None]
            if not errors:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(errors)} partitions of {topic} do not answer: {errors[0]}")
            time.sleep(0.2)

    def _new_admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def run(self, case: Case, systems: Mapping[str, System | str], *, both_orders: bool = False) -> Case:
        """Let the systems take turns A B C A B C, so that a slow minute of the machine hits all; a text says why one does not run.

        A system that fails is told so in the table, and the others go on. both_orders: A B C C B A, where one may leave something behind
        that the next one pays for.
        """
        case.notes = {system: run for system, run in systems.items() if isinstance(run, str)}
        for turn in range(self.turns):
            order = reversed(systems.items()) if both_orders and turn % 2 else systems.items()
            for system, run in order:
                if not isinstance(run, str) and system not in case.notes:
                    try:
                        case.add(system, run())
                    except WorkerFailed as error:
                        case.fail(system, error)
        return case


def worker(runner: str, job: Mapping[str, Any], *, source: Path | None = None) -> System:
    """A system that is one process."""
    return lambda: Worker(runner, job, source=source).result()


def now_and_before(make: Callable[[Path | None], System], *, before: bool = True) -> dict[str, System | str]:
    """levada, and levada as it was before issue 8 where that is wanted. make: makes the system that imports levada from a folder."""
    systems: dict[str, System | str] = {LEVADA: make(None)}
    if before:
        there = BEFORE_SOURCE.is_dir()
        systems[BEFORE] = make(BEFORE_SOURCE) if there else "skipped: .bench/before is not built; `make bench-engine` does"
    return systems


def ours(runner: str, job: Mapping[str, Any], *, before: bool = True) -> dict[str, System | str]:
    """The same where it is one process."""
    return now_and_before(lambda source: worker(runner, job, source=source), before=before)


def worker_aio(runner: str, job: Mapping[str, Any]) -> System | str:
    """A worker on the asyncio API, or why there is none."""
    return worker(runner, job) if aio_reason() is None else f"skipped: {aio_reason()}"


def aio_reason() -> str | None:
    """Why the asyncio API cannot be measured; None if it can."""
    try:
        from levada.aio import KafkaConsumer, KafkaProducer  # noqa: F401
    except ImportError as error:
        return f"no asyncio API yet ({error})"
    return None
