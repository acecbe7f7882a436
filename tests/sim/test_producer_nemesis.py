"""Random faults, seeded, against the real APIs in virtual time: what the clients told and what the logs hold pass every check (M-P1 to 4).

`make test-faults` has more of these seeds, and `make soak` as many as are asked for. A failure names the command that runs its seed again,
and the shortest plan that fails like it.
"""

from __future__ import annotations

import pytest

from chaos_plan import FAULTS, Step, draw
from chaos_verdict import explained, failure_of
from chaos_world import World, run
from seed_parts import parts_of

SEEDS = 200
IN_EVERY_RUN = 80


@pytest.mark.parametrize("seed", parts_of(SEEDS, 1, IN_EVERY_RUN))
def test_M_P1_M_P2_M_P3_M_P4_hold_whatever_happens(seed: int) -> None:
    plan = draw(seed)
    failure = failure_of(plan)
    if failure is not None:
        pytest.fail(explained(plan, failure), pytrace=False)


def test_a_seed_always_gives_the_same_run() -> None:
    runs = []
    for _ in range(2):
        worlds: list[World] = []
        run(draw(11), worlds.append)
        runs.append(worlds[0].events)
    assert runs[0] == runs[1]


def test_the_seeds_hold_every_fault() -> None:
    names = {step.name for seed in range(IN_EVERY_RUN) for step in draw(seed).steps}
    assert names >= {draw_one.__name__.removeprefix("_") for draw_one in FAULTS} | {"send", "wait", "poll"}


def test_a_failure_is_explained_by_the_shortest_plan_and_the_command_that_runs_it() -> None:
    """A step that does not exist is the failure here."""
    plan = draw(3, steps=60)
    plan = plan._replace(steps=(*plan.steps[:30], Step("explode", (7,)), *plan.steps[30:]))
    failure = failure_of(plan)
    assert failure is not None
    assert failure.kind == "AttributeError"
    text = explained(plan, failure)
    assert "1 of its 61 steps are enough" in text
    assert "  explode(7)" in text
    assert text.endswith("run it again: make soak SEED=3")
