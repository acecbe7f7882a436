"""Drivers of Spark as programs of their own (tests/spark/struck_job.py): run, killed, paused and woken, with all that they have started."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import levada as lv
import spark_strikes
import spark_verdict
from process_sessions import kill_session, members, session_of, signal_all
from spark_verdict import Verdict

JOB = Path(__file__).parents[1] / "spark" / "struck_job.py"
PATIENCE_S = 240
ROWS = 40
"""How many rows a kill meets, half of them in each of two tasks."""

EXACTLY_ONCE, AT_LEAST_ONCE, CONNECTOR = "exactly-once", "at-least-once", "Spark's connector"
WITH_SLOTS = "exactly-once, slots"
"""Every task writes a slot."""


@dataclass(frozen=True)
class Program:
    """What a driver runs: a query from topic to topic. sink: one of the constants above. options: more of the sink's."""

    kafka: Any
    source: str
    target: str
    folder: Path
    sink: str = EXACTLY_ONCE
    options: Mapping[str, Any] = field(default_factory=dict)
    jars: Sequence[Path] = ()
    for_each_batch: bool = False
    is_remote: bool = False
    master: str = "local[2]"
    settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def servers(self) -> str:
        """The brokers."""
        found: str = self.kafka.bootstrap_servers
        return found

    @property
    def checkpoint(self) -> Path:
        """The query's checkpoint."""
        return self.folder / "checkpoint"

    @property
    def strikes(self) -> Path:
        """The folder of strikes (spark_strikes)."""
        return self.folder / "strikes"

    def produce(self, start: int, count: int = ROWS) -> int:
        """Give the query rows; return the number of the next one."""
        with lv.KafkaProducer(bootstrap_servers=self.servers) as producer:
            for number in range(start, start + count):
                producer.send(self.source, b"%d" % number, partition=number % 2)
        return start + count

    def copied_to(self, folder: Path) -> Program:
        """Return the same program with a copy of the checkpoint and strikes of its own."""
        shutil.copytree(self.checkpoint, folder / "checkpoint")
        (folder / "strikes").mkdir()
        return replace(self, folder=folder)

    def strike(self, strike: str) -> None:
        """Have it struck: `before-decide.hold`."""
        (self.strikes / strike).touch()

    def is_within_a_batch(self) -> bool:
        """Whether Spark has planned a micro-batch and has not noted its end."""
        return _newest(self.checkpoint / "offsets") != _newest(self.checkpoint / "commits")

    @contextmanager
    def running(self) -> Iterator[Driver]:
        """Run it; what is left of it at the end of the block is killed."""
        log = self.folder / f"driver-{time.monotonic_ns()}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, str(JOB), json.dumps(self._asked())],
                stdout=file,
                stderr=file,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, _path())), **self.environment},
                cwd=self.folder,
                start_new_session=True,
            )
        driver = Driver(self, process, log)
        try:
            yield driver
        finally:
            driver.kill()

    def run(self) -> None:
        """Run it to its end."""
        with self.running() as driver:
            assert driver.wait() == 0, driver.said()

    def verdict(self, given: int) -> Verdict:
        """Look at what it has written."""
        ids = [f"levada-{spark_verdict.query_id(self.checkpoint)}"]
        return spark_verdict.verdict(self.servers, self.target, given, ids)

    def _asked(self) -> dict[str, Any]:
        servers = {"kafka.bootstrap.servers": self.servers}
        source = {**servers, "subscribe": self.source, "startingOffsets": "earliest"}
        sink = {**servers, "topic": self.target, **self.options}
        settings = dict(self.settings)
        if self.sink == CONNECTOR:
            settings["spark.jars"] = ",".join(map(str, self.jars))
        else:
            # A task for each partition.
            source["recordsPerTask"] = "1"
            sink["delivery"] = EXACTLY_ONCE if self.sink == WITH_SLOTS else self.sink
            if self.sink == WITH_SLOTS:
                sink["inlineMaxBytes"] = "1"
        is_struck = self.sink != CONNECTOR and not self.for_each_batch
        if is_struck:
            sink["strikes"] = str(self.strikes)
        return {
            "source_format": "kafka" if self.sink == CONNECTOR else "levada",
            "sink_format": spark_strikes.NAME if is_struck else "kafka" if self.sink == CONNECTOR else "levada",
            "source": source,
            "sink": sink,
            "strikes": str(self.strikes),
            "checkpoint": str(self.checkpoint),
            "for_each_batch": self.for_each_batch,
            "is_remote": self.is_remote,
            "master": self.master,
            "settings": settings,
        }


class Driver:
    """A program while it runs."""

    def __init__(self, program: Program, process: subprocess.Popen[bytes], log: Path) -> None:
        self._program = program
        self._process = process
        self._log = log

    def held_at(self, step: str) -> int:
        """Wait until a process waits at a step; return its id."""
        held = self._program.strikes / f"{step}.held"
        self.wait_until(held.exists, f"nothing came to {step}")
        return int(held.read_text())

    def release(self, step: str) -> None:
        """Let the process go on that waits at a step."""
        (self._program.strikes / f"{step}.held").unlink()

    def wait_until(self, condition: Callable[[], bool], why: str) -> None:
        """Wait for something that the program does."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert self._process.poll() is None, self.said()
            assert time.monotonic() < deadline, why
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill -9: the driver, its JVM, executors and every Python worker."""
        kill_session(self._process.pid)
        self._process.wait(PATIENCE_S)
        for held in self._program.strikes.glob("*.held"):
            if session_of(int(held.read_text())) is None:
                held.unlink()

    def pause(self) -> None:
        """Stop all of it where it is."""
        signal_all(members(self._process.pid), signal.SIGSTOP)

    def wake(self) -> None:
        """Let all of it go on."""
        signal_all(members(self._process.pid), signal.SIGCONT)

    def wait(self) -> int:
        """Wait for its end; return the exit code."""
        return self._process.wait(PATIENCE_S)

    def said(self) -> str:
        """Return what it has said."""
        return self._log.read_text()


def _newest(folder: Path) -> int | None:
    numbers = [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
    return max(numbers, default=None)


def _path() -> list[Path]:
    return [Path(lv.__file__).parents[1], Path(__file__).parent]
