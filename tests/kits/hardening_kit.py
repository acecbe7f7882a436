"""Measures the memory and the processor time that hostile input costs, and collects the figures for a table at the end of a run.

Memory is measured in a new process: the peak of its resident set during the measured part, minus its resident set before. The peak is reset
before the measured part, because a new process inherits the peak of its parent (`ru_maxrss` shows the parent's).
"""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from levada.errors import ProtocolError

MIB = 1 << 20
FULL = os.environ.get("LEVADA_HARDENING", "") not in ("", "0")
PATIENCE_S = 100

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")

needs_peak_memory = pytest.mark.skipif(not _CLEAR_REFS.exists(), reason="the peak of a process's memory can be set back on Linux only")

Case = Callable[..., Generator[None, None, str]]


class Figure(NamedTuple):
    """One line of the table. row: of the fault matrix."""

    row: str
    what: str
    measured: str
    limit: str


class Cost(NamedTuple):
    """The cost of a case's measured part. grown_mib: peak memory in MiB. cpu_ms: processor time. outcome: the case's result."""

    grown_mib: float
    cpu_ms: float
    outcome: str


FIGURES: list[Figure] = []


def scaled(full: int, quick: int) -> int:
    """Return a number of repetitions: `full` in `make test-hardening`, otherwise `quick`."""
    return full if FULL else quick


def note(row: str, what: str, measured: object, limit: object) -> None:
    """Add a figure to the table."""
    FIGURES.append(Figure(row, what, str(measured), str(limit)))


def count(row: str, what: str, number: int, limit: object) -> None:
    """Add a number to a figure that several tests of a row share."""
    before = [figure for figure in FIGURES if figure[:2] == (row, what)]
    FIGURES[:] = [figure for figure in FIGURES if figure not in before]
    note(row, what, number + sum(int(figure.measured) for figure in before), limit)


# The beginning that an error text must have: the message, its version, and the position of the fault.
_SAYS_WHERE = re.compile(
    r"\w+ v\d+(, at byte \d+| (request|response) header, after byte \d+)"
    r"|record batch at offset |message at offset |compressed messages up to offset "
    r"|.+; a request of version -?\d+ came|a request of \d+ bytes"
)


class Tally:
    """Counts the outcomes of reads by type. vague: texts of ProtocolErrors without a position. Errors of other types are not caught."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.vague: list[str] = []

    def run(self, read: Callable[..., object], *arguments: object) -> str:
        """Call read(*arguments) once. Returns "read", or the text of the ProtocolError."""
        try:
            read(*arguments)
        except ProtocolError as error:
            self.outcomes[type(error).__name__] += 1
            if not _SAYS_WHERE.match(str(error)):
                self.vague.append(str(error))
            return str(error)
        self.outcomes["read"] += 1
        return "read"

    def note(self, row: str, what: str) -> None:
        """Add the counts to the table."""
        parts = ", ".join(f"{number} {outcome}" for outcome, number in self.outcomes.most_common())
        note(row, what, f"{self.outcomes.total()}: {parts}", "all typed")


def cost_of(case: str, *arguments: object, address_space: int | None = None) -> Cost:
    """Run a case in a new process, and return its cost.

    case: "module:function" of a generator that prepares, yields once, runs the measured part, and returns a text. address_space: the limit
    of the process's address space in bytes, for cases that would use all memory; None for no limit.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", "import hardening_kit; hardening_kit.main()", case, json.dumps([arguments, address_space])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return Cost(*json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Run as the new process of cost_of(): run the case, and print its cost as JSON."""
    case, (arguments, address_space) = sys.argv[1], json.loads(sys.argv[2])
    module, _, name = case.partition(":")
    prepared = getattr(import_module(module), name)(*arguments)
    if address_space is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    print(json.dumps(_measured(prepared)))


def _measured(prepared: Generator[None, None, str]) -> Cost:
    next(prepared)
    gc.collect()
    _CLEAR_REFS.write_text("5")
    before, started = _status("VmRSS"), time.process_time()
    try:
        next(prepared)
    except StopIteration as end:
        taken = time.process_time() - started
        return Cost((_status("VmHWM") - before) / 1024, taken * 1000, str(end.value))
    raise RuntimeError("a case yields once")


def _status(field: str) -> int:
    (line,) = [line for line in _STATUS.read_text().splitlines() if line.startswith(field + ":")]
    return int(line.split()[1])
