"""The history checker finds every client and broker that is broken on purpose, and nothing wrong with the same runs unbroken."""

from __future__ import annotations

from functools import cache

import pytest

from chaos_plan import draw
from chaos_verdict import quiet
from chaos_world import run
from mutants import MUTANTS, Mutant

SEEDS = range(12)
STEPS = 120


@cache
def violated(seed: int) -> frozenset[str]:
    return run(draw(seed, STEPS)).violated


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_one_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = set(mutant.finds)
    with quiet():
        for seed in SEEDS:
            assert violated(seed) == set(), "unbroken, the run is clean"
            with monkeypatch.context() as patch:
                mutant.break_it(patch)
                missing -= run(draw(seed, STEPS, **mutant.settings)).violated
            if not missing:
                return
    pytest.fail(f"not found by {', '.join(sorted(missing))} in {len(SEEDS)} runs")


def test_there_are_twenty_of_them() -> None:
    assert len({mutant.name for mutant in MUTANTS}) >= 20
