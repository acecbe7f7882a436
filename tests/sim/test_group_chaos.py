"""Groups of both protocols under seeded faults in virtual time: members join, leave, die and are slow, coordinators move, requests and
answers are lost.

What the members told passes every check: nothing is skipped, doubled or committed too far. `make test-faults` has more of these seeds, and
`make soak` as many as are asked for.
"""

from __future__ import annotations

import pytest

from chaos_verdict import explained, failure_of, quiet
from group_chaos_mutants import GROUP_MUTANTS, GroupMutant
from group_chaos_plan import FAULTS, PROGRAMS, PROTOCOLS, draw_group
from group_chaos_world import GroupWorld, run_group
from levada.testing.history.group_checks import GROUP_CHECKS
from seed_parts import parts_of

SEEDS = 200
IN_EVERY_RUN = 60
AT_ONCE = 20
MUTANT_SEEDS = 60


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("first", parts_of(SEEDS, AT_ONCE, IN_EVERY_RUN))
def test_M_B17_M_A30_M_A20_groups_lose_and_double_nothing(protocol: str, first: int) -> None:
    with quiet():
        for seed in range(first, first + AT_ONCE):
            plan = draw_group(seed, group_protocol=protocol)
            failure = failure_of(plan, run_group)
            if failure is not None:
                pytest.fail(explained(plan, failure, run_group), pytrace=False)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_seed_of_a_group_always_gives_the_same_run(protocol: str) -> None:
    runs = []
    for _ in range(2):
        worlds: list[GroupWorld] = []
        run_group(draw_group(7, group_protocol=protocol), worlds.append)
        runs.append(worlds[0].events)
    assert runs[0] == runs[1]


def test_the_seeds_hold_every_fault_of_groups() -> None:
    names = {step.name for seed in range(IN_EVERY_RUN) for step in draw_group(seed).steps}
    assert names == {*FAULTS, *PROGRAMS}


@pytest.mark.parametrize("mutant", GROUP_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_member_or_coordinator_is_found(mutant: GroupMutant, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = set(mutant.finds)
    mutant.break_it(monkeypatch)
    with quiet():
        for seed in range(MUTANT_SEEDS):
            failure = failure_of(draw_group(seed, **mutant.settings), run_group)
            missing -= set(failure.kind.split()) if failure is not None else set()
            if not missing:
                return
    pytest.fail(f"not found by {', '.join(sorted(missing))} in {MUTANT_SEEDS} runs")


def test_every_check_of_groups_is_shown_to_find_something() -> None:
    assert frozenset().union(*(mutant.finds for mutant in GROUP_MUTANTS)) >= set(GROUP_CHECKS)
