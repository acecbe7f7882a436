"""What is measured, and how: wall time and the client's own processor time over the same stretch of work."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
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


class FamilyCpu:
    """Processor time of a process by itself and of what it started, since this was made."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._before = _family_ticks(process)

    def seconds(self) -> tuple[float, float]:
        """Return the process's own time, and that of its children and theirs.

        A process that ends is counted by the one that waits for it, with all it ever took; where nobody waits, it is lost. So two sums are
        too small at times, and neither is too large: the larger one counts.
        """
        now, before = _family_ticks(self._process), self._before
        own = sum(now[self._process][:2]) - sum(before[self._process][:2])
        with_waited = sum(map(sum, now.values())) - sum(map(sum, before.values())) - own
        alive = sum(sum(ticks[:2]) - sum(before.get(process, ())[:2]) for process, ticks in now.items() if process != self._process)
        per_second = os.sysconf("SC_CLK_TCK")
        return own / per_second, max(with_waited, alive) / per_second


@contextmanager
def measured(records: int) -> Iterator[Sample]:
    """Fill in a sample with the time that its block takes."""
    sample = Sample(records)
    cpu, start = own_cpu_seconds(), time.perf_counter()
    yield sample
    sample.seconds = time.perf_counter() - start
    sample.cpu_seconds = own_cpu_seconds() - cpu


def _family(process: int) -> Iterator[int]:
    yield process
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for child in _read(children).split():
            yield from _family(int(child))


def _family_ticks(process: int) -> dict[int, list[int]]:
    return {member: _cpu_ticks(member) for member in _family(process)}


def _cpu_ticks(process: int) -> list[int]:
    fields = _read(Path(f"/proc/{process}/stat")).rpartition(")")[2].split()
    return [int(field) for field in fields[11:15]]  # utime, stime, and both of the children waited for


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process has ended meanwhile
        return ""
