"""Cases that take turns on one processor core, and the best of their rounds.

What counts is processor time of this process: on a machine that others use as well, wall time says little. The best round is the one that
was disturbed least; turns let a slow minute hit everybody.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

SAMPLE_S = 0.05


@dataclass
class Case:
    """One way to do one thing. run does it once, to `units` records or messages, and returns how many there were.

    subject: what is compared with each other; value_bytes: of all units together, 0 where there is no payload.
    """

    subject: str
    name: str
    run: Callable[[], int]
    units: int
    value_bytes: int = 0
    seconds: float = float("inf")


def pin_to_one_core() -> int:
    """Keep this process on one core, the last that it may use; return which."""
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def measure(cases: Sequence[Case], rounds: int) -> None:
    """Fill in each case's `seconds` for one run. Raises RuntimeError when a case does not do all its work."""
    for case in cases:
        if (done := case.run()) != case.units:
            raise RuntimeError(f"{case.subject}, {case.name}: {done} units instead of {case.units}")
    for _ in range(rounds):
        for case in cases:
            case.seconds = min(case.seconds, _sample(case.run))


def _sample(run: Callable[[], int]) -> float:
    runs, start = 0, time.process_time()
    while (spent := time.process_time() - start) < SAMPLE_S:
        run()
        runs += 1
    return spent / runs
