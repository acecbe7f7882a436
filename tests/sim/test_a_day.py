"""24 hours with faults, in virtual time: what clients and brokers hold after a day is what they held after six hours (X-K13)."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from chaos_day import DAYS, held_in_a_day

SOME, SOME_OTHERS = 20, 200
"""How much more there may be of one type, and of all others together, at the last moment than at the first: counts vary with what goes on.
There are 540 rounds between the two, so an object that only every other round leaves behind makes 270 more.
"""


@pytest.mark.parametrize("day", [name if name == "records" else pytest.param(name, marks=pytest.mark.matrix) for name in DAYS])
def test_X_K13_a_day_with_faults_leaves_nothing_behind(day: str) -> None:
    # Objects are those of a whole process: in this one, other tests' threads and imports would count.
    with ProcessPoolExecutor(1, get_context("spawn")) as own:
        samples = own.submit(held_in_a_day, day).result()
    more = samples[-1] - samples[0]
    assert not {name: [sample[name] for sample in samples] for name in more if more[name] > (SOME_OTHERS if name == "others" else SOME)}
    assert samples[-1]["bytes of buffer.memory"] == 0
