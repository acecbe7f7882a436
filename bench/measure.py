"""What is measured, and how: wall time and the client's own processor time over the same stretch of work."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Sample:
    """One run of one system on one case."""

    records: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Job:
    """What a worker is told: where the broker is, which topic, how many records of what size, and the codec."""

    bootstrap_servers: str
    topic: str
    partitions: int
    records: int
    value_bytes: int
    codec: str


def own_cpu_seconds() -> float:
    """Processor time of this process with all its threads, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def family_cpu_seconds() -> float:
    """Processor time of this process and everything it started: a Spark driver, its JVM and that one's Python workers.

    Children that have ended count once their parent has waited for them.
    """
    ticks = sum(sum(_cpu_ticks(process)) for process in _family(os.getpid()))
    return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def measured(records: int, cpu_seconds: Callable[[], float] = own_cpu_seconds) -> Iterator[Sample]:
    """Fill in a sample with the time that its block takes."""
    sample = Sample(records)
    cpu, start = cpu_seconds(), time.perf_counter()
    yield sample
    sample.seconds = time.perf_counter() - start
    sample.cpu_seconds = cpu_seconds() - cpu


def _family(process: int) -> Iterator[int]:
    yield process
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for child in _read(children).split():
            yield from _family(int(child))


def _cpu_ticks(process: int) -> list[int]:
    fields = _read(Path(f"/proc/{process}/stat")).rpartition(")")[2].split()
    return [int(field) for field in fields[11:15]]  # utime, stime, and both of the children waited for


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process has ended meanwhile
        return ""
