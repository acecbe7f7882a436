"""Cases that take turns on one processor core, and the best of their rounds.

Processor time of this process counts, because wall time says little on a machine with other load. The best round is the least disturbed
one. Because the cases take turns, a slow minute affects all of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

SAMPLE_S = 0.05


@dataclass
class Case:
    """One way to do one thing. run: does it once with `units` records or messages, and returns how many there were.

    subject: cases with the same subject are compared. value_bytes: the size of all payloads together, 0 without payloads.
    """

    subject: str
    name: str
    run: Callable[[], int]
    units: int
    value_bytes: int = 0
    seconds: float = float("inf")


def pin_to_one_core() -> int:
    """Keep this process on one core, the last one that it may use; return the number of the core."""
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def measure(cases: Sequence[Case], rounds: int) -> None:
    """Set each case's `seconds` to the time of one run. Raises RuntimeError if a case does not do all its work."""
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
