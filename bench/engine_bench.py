"""The common part of the engine benchmark's sections: the broker, new topics, turns of the systems and their medians."""

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
BEFORE = "levada before"
AIO = "levada.aio"
CONFLUENT = "confluent-kafka"
AIOKAFKA = "aiokafka"

LEADERS_TIMEOUT_S = 60

System = Callable[[], Figures]


@dataclass
class Target:
    """The target of one system, and its measured figure. text: the figure, and the figure that it is compared with."""

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
        """The systems that ran, then those that did not."""
        return list(dict.fromkeys([*self.turns, *self.notes]))

    def add(self, system: str, figures: Figures) -> None:
        """Note one turn of a system."""
        self.turns.setdefault(system, []).append(figures)
        told = ", ".join(f"{name} {value:,.2f}" for name, value in figures.items())
        print(f"{self.name}: {system}: {told}", file=sys.stderr, flush=True)

    def fail(self, system: str, error: WorkerFailed) -> None:
        """Note that a system failed. Its targets are missed, even if other turns succeeded."""
        self.notes[system] = f"failed: {str(error).splitlines()[-1]}"
        print(f"{self.name}: {system}: {error}", file=sys.stderr, flush=True)

    def medians(self, system: str) -> Figures:
        """Return the median of every figure of a system over its turns; empty if it did not run."""
        turns = [] if system in self.notes else self.turns.get(system, [])
        return {name: median(turn[name] for turn in turns) for name in (turns[0] if turns else ())}

    def figure(self, system: str, name: str) -> float | None:
        """Return a system's median; None if it was not measured."""
        return self.medians(system).get(name)

    def ratio(self, name: str, system: str, other: str) -> float | None:
        """Return a system's figure divided by the other system's; None if one is missing."""
        ours, theirs = self.figure(system, name), self.figure(other, name)
        return None if ours is None or not theirs else ours / theirs

    def hold(self, system: str, name: str, other: str, limit: float, *, at_least: bool = False) -> None:
        """Set a target: the system's figure as a multiple of the other's. A system that is skipped on purpose gets no target."""
        if system not in self.notes or self.notes[system].startswith("failed"):
            reached = self.ratio(name, system, other)
            self.targets.append(Target(system, f"{name} / {other}'s", limit, reached, at_least))


class Bench:
    """One broker, and how often and how long all systems run against it.

    quick: a short run that only tests whether everything works. before: a folder with an older levada, which runs too.
    """

    def __init__(self, bootstrap_servers: str, turns: int, *, quick: bool = False, before: Path | None = None) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.turns = turns
        self.quick = quick
        self.before = before
        self._admin = self._new_admin()

    def scaled(self, count: int) -> int:
        """Return a number of records, a fifth of `count` in a quick run."""
        return count // 5 if self.quick else count

    def job(self, topic: str, **more: Any) -> dict[str, Any]:
        """Return the job of a worker on the real broker."""
        return {"bootstrap_servers": self.bootstrap_servers, "topic": topic, **more}

    @contextmanager
    def topic(self, partitions: int, **config: str) -> Iterator[str]:
        """Yield a new topic, which is deleted afterwards, so that the disk does not fill during later measurements.

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
        """Wait until every partition answers: the broker needs longer to make a thousand logs than to report that the topic exists.

        Each attempt uses a new client, because a client that has learned that there is no leader does not refresh this.
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
        """Run the systems in turns A B C A B C, so that a slow minute of the machine affects all of them.

        systems: a text instead of a system says why it does not run. The table shows which system has failed; the others continue.
        both_orders: use the order A B C C B A, for systems that may leave work behind for the next one.
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
    """Return a system that is one process."""
    return lambda: Worker(runner, job, source=source).result()


def now_and_before(bench: Bench, make: Callable[[Path | None], System]) -> dict[str, System | str]:
    """Return levada, and the older levada if there is one. make: makes a system that imports levada from a folder."""
    systems: dict[str, System | str] = {LEVADA: make(None)}
    return systems if bench.before is None else systems | {BEFORE: make(bench.before)}


def ours(bench: Bench, runner: str, job: Mapping[str, Any]) -> dict[str, System | str]:
    """Do what now_and_before() does, for systems of one process."""
    return now_and_before(bench, lambda source: worker(runner, job, source=source))


def worker_aio(runner: str, job: Mapping[str, Any]) -> System | str:
    """Return a system on the asyncio API, or a text that says why there is none."""
    return worker(runner, job) if aio_reason() is None else f"skipped: {aio_reason()}"


def aio_reason() -> str | None:
    """Return why the asyncio API cannot be measured; None if it can."""
    try:
        from levada.aio import KafkaConsumer, KafkaProducer  # noqa: F401
    except ImportError as error:
        return f"no asyncio API yet ({error})"
    return None
