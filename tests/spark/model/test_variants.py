"""The protocol writes each row once, or says why it cannot: a sample of what `make test-sink-model` explores."""

from __future__ import annotations

import pytest

from .coordinator import Brokers
from .exploring import Found, exhaustive, walk
from .spark import Query
from .variants import BOTH, RIGHT, VARIANTS, Expected
from .world import WRONG, Variant, Verdict

WALKS = 100
VERIFYING = [expected for expected in VARIANTS if expected.brokers == BOTH]


@pytest.mark.parametrize("expected", VERIFYING, ids=lambda expected: expected.variant.name)
@pytest.mark.parametrize("brokers", BOTH, ids=lambda brokers: brokers.value)
def test_random_schedules(expected: Expected, brokers: Brokers) -> None:
    found = Found()
    for seed in range(WALKS):
        found.add(*walk(expected.variant, brokers, seed))
    assert found.counts.keys() <= expected.verdicts, (found.whys, found.examples)
    assert found.total == WALKS


@pytest.mark.parametrize("brokers", BOTH, ids=lambda brokers: brokers.value)
@pytest.mark.parametrize(
    "variant",
    [Variant("inline", Query(sizes=(2, 2))), Variant("mixed", Query(sizes=(2,), slots=(False, True)))],
    ids=lambda variant: variant.name,
)
def test_every_schedule_with_one_fault(variant: Variant, brokers: Brokers) -> None:
    found = Found()
    for outcome, schedule in exhaustive(variant, brokers, 1):
        found.add(outcome, schedule)
    assert found.counts.keys() <= RIGHT, (found.whys, found.examples)
    assert found.total > 200


def test_a_lost_ledger_endangers_the_first_batch_only_where_a_missing_one_fails() -> None:
    (expected,) = (expected for expected in VARIANTS if expected.variant.name == "inline, ledger lost")
    outcomes = [walk(expected.variant, Brokers.TV2, seed)[0] for seed in range(1000)]
    wrong = {outcome.why for outcome in outcomes if outcome.verdict in WRONG}
    assert wrong
    assert wrong <= {"rows (batch, number) [(0, 0), (0, 1)]"}
    assert Verdict.REFUSED in {outcome.verdict for outcome in outcomes}
