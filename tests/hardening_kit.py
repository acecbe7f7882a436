"""Measuring what hostile input costs, and the table that says so at the end of a run.

Memory is measured in a process of its own: the peak of its resident set while the measured part runs, less what was resident before. The
peak is set back in between, because a new process inherits the maximum of the one that started it (`ru_maxrss` shows the parent's).
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

MIB = 1 << 20
FULL = os.environ.get("PENSTOCK_HARDENING", "") not in ("", "0")
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
    """What the measured part of a case took, and the text it came to. cpu_ms: the fastest of the times it ran."""

    grown_mib: float
    cpu_ms: float
    outcome: str


FIGURES: list[Figure] = []


def scaled(full: int, quick: int) -> int:
    """How often: in `make test-hardening`, and otherwise."""
    return full if FULL else quick


def note(row: str, what: str, measured: object, limit: object) -> None:
    """Put a figure into the table."""
    FIGURES.append(Figure(row, what, str(measured), str(limit)))


def cost_of(case: str, *arguments: object, address_space: int | None = None) -> Cost:
    """Run "module:function" in a new process: a generator that prepares, yields once, is measured, and returns a text.

    address_space: the most bytes the process may have; for those that would take all there is.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", "import hardening_kit; hardening_kit.main()", case, json.dumps([arguments, address_space])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return Cost(*json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """The new process."""
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
