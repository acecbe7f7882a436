"""Measures wall time and the client's own processor time of the same work."""

from __future__ import annotations

import os
import resource
import threading
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


def own_cpu_seconds() -> float:
    """Return the processor time of this process with all its threads, user plus system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def cpu_seconds(process: int) -> float:
    """Return the processor time of another process, user plus system; 0 if it has ended."""
    return _cpu_ticks(process) / os.sysconf("SC_CLK_TCK")


class FamilyCpu:
    """Measures the processor time of a process, and of all processes that it starts, during a `with` block.

    The time of a process cannot be read after it has ended, and its parent does not always wait for it. So all are read a few times a
    second.
    """

    LOOK_S = 0.2

    def __init__(self, process: int) -> None:
        self._process = process
        self._before: dict[int, int] = {}
        self._ticks: dict[int, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_looking, daemon=True)

    def __enter__(self) -> FamilyCpu:
        self._look()
        self._before = dict(self._ticks)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._look()

    def _keep_looking(self) -> None:
        while not self._ended.wait(self.LOOK_S):
            self._look()

    def _look(self) -> None:
        self._ticks |= {member: ticks for member in _family(self._process) if (ticks := _cpu_ticks(member))}

    @property
    def seconds(self) -> tuple[float, float]:
        """Return the processor time of the process itself, and of the others."""
        spent = {member: (ticks - self._before.get(member, 0)) / os.sysconf("SC_CLK_TCK") for member, ticks in self._ticks.items()}
        own = spent.pop(self._process)
        return own, sum(spent.values())


@contextmanager
def measured(records: int) -> Iterator[Sample]:
    """Measure the `with` block, and fill in the sample."""
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


def _cpu_ticks(process: int) -> int:
    fields = _read(Path(f"/proc/{process}/stat")).rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:13])  # utime and stime


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process has ended meanwhile
        return ""
