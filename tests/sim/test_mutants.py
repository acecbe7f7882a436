"""The history checker finds every client and broker that is broken on purpose, and nothing wrong with the same runs unbroken."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from chaos_plan import Plan
from chaos_verdict import quiet
from chaos_world import run
from levada.testing.history import CHECKS
from levada.testing.history.group_checks import GROUP_CHECKS
from mutants import MUTANTS, Mutant
from transactional_mutants import TRANSACTIONAL

SEEDS = range(40)
STEPS = 120


@cache
def violated(draw: Callable[..., Plan], seed: int) -> frozenset[str]:
    return run(draw(seed, STEPS)).violated


@pytest.mark.parametrize("mutant", (*MUTANTS, *TRANSACTIONAL), ids=lambda mutant: mutant.name)
def test_a_broken_one_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = set(mutant.finds)
    with quiet():
        for seed in SEEDS:
            assert violated(mutant.draw, seed) == set(), "unbroken, the run is clean"
            with monkeypatch.context() as patch:
                mutant.break_it(patch)
                missing -= run(mutant.draw(seed, STEPS, **mutant.settings)).violated
            if not missing:
                return
    pytest.fail(f"not found by {', '.join(sorted(missing))} in {len(SEEDS)} runs")


def test_every_check_of_records_is_shown_to_find_something() -> None:
    mutants = (*MUTANTS, *TRANSACTIONAL)
    assert len({mutant.name for mutant in mutants}) == len(mutants) >= 30
    # K13 has its own test: memory and connections are no matter of records. Groups have mutants of their own.
    assert frozenset().union(*(mutant.finds for mutant in mutants)) == set(CHECKS) - set(GROUP_CHECKS) - {"K13"}
