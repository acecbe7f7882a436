"""Each rule of the protocol is needed: without it some schedule comes to wrong rows, or to a batch that nobody can finish."""

from __future__ import annotations

import pytest

from .coordinator import Brokers
from .exploring import shortened, walk
from .sink import RULES
from .variants import MUTANTS, Mutant
from .world import parsed, run, shown

WALKS = 5000
BROKEN = [(mutant, brokers) for mutant in MUTANTS for brokers in mutant.brokers]


@pytest.mark.parametrize(("mutant", "brokers"), BROKEN, ids=lambda value: getattr(value, "rule", None) or value.value)
def test_a_protocol_without_the_rule_fails(mutant: Mutant, brokers: Brokers) -> None:
    for seed in range(mutant.first, mutant.first + WALKS):
        outcome, schedule = walk(mutant.variant, brokers, seed)
        if outcome.verdict in mutant.finds:
            short = shortened(mutant.variant, brokers, schedule, outcome.verdict)
            assert run(mutant.variant, brokers, shown(short)).verdict is outcome.verdict, "a schedule can be replayed"
            assert parsed(shown(short)) == short
            return
        if seed % 4 == 0:
            whole, schedule = walk(mutant.whole, brokers, seed)
            assert whole.verdict not in mutant.finds, f"with the rule: {shown(schedule)}"
    pytest.fail(f"not found in {WALKS} walks")


def test_every_rule_has_a_mutant() -> None:
    assert {mutant.rule for mutant in MUTANTS} == set(RULES)
