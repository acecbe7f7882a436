"""24 hours with faults, in virtual time: what clients and brokers hold after a day is what they held after six hours (X-K13)."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from chaos_plan import FAULTS, PARTITIONS, TRANSACTION_FAULTS, Plan, Step, draw_records, draw_transactions
from chaos_verdict import quiet
from chaos_world import World
from levada.testing import Simulation

HOUR_MS = 3_600_000
ROUND_MS = 120_000
KEPT_MS = 300_000
FAULTS_PER_ROUND = 0.5
SOME, SOME_OTHERS = 20, 200
"""How much more there may be of one type, and of all others together, at the last moment than at the first: counts vary with what goes on.
There are 540 rounds between the two, so an object that only every other round leaves behind makes 270 more.
"""


def held(world: World) -> Counter[str]:
    """Return how many objects of each of levada's types there are, and of all others together, when nothing is under way."""
    world.heal()
    world.commit(1)
    world.app.producer.flush()
    world.close_replaced(0)
    world.sim.advance(KEPT_MS * 2)
    world.poll(1000)
    world.events.clear()
    gc.collect()
    types = Counter(map(type, gc.get_objects()))
    counts: Counter[str] = Counter()
    for kind, number in types.items():
        counts[f"{kind.__module__}.{kind.__name__}" if str(kind.__module__).startswith("levada") else "others"] += number
    counts["connections"] = len(world.sim.network._links)
    counts["bytes of buffer.memory"] = world.app.producer._core.pool.total - world.app.producer._core.pool.available
    return counts


def records(random: Random) -> Iterator[Step]:
    if random.random() < FAULTS_PER_ROUND:
        yield random.choice(FAULTS)(random)
    for _ in range(3):
        yield Step("send", (random.randrange(PARTITIONS), random.randint(0, 120)))


def a_transaction(random: Random) -> Iterator[Step]:
    """One with offsets; now and then its program is replaced, and the one before goes on."""
    yield Step("begin")
    if random.random() < FAULTS_PER_ROUND:
        yield random.choice(TRANSACTION_FAULTS)(random)
    for _ in range(3):
        yield Step("send", (random.randrange(PARTITIONS), random.randint(0, 120)))
    yield Step("offsets", (random.randrange(1000),))
    yield Step("abort" if random.random() < 0.25 else "commit", (1,))
    if random.random() < 0.05:
        yield Step("take_over")
    if random.random() < 0.05:
        yield Step("zombie", (random.randrange(PARTITIONS),))


def an_hour(world: World, random: Random) -> None:
    what = a_transaction if world.plan.is_transactional else records
    for _ in range(HOUR_MS // ROUND_MS):
        for step in what(random):
            getattr(world, step.name)(*step.arguments)
        world.close_replaced(1)
        world.poll(100)
        world.wait(ROUND_MS)
        # What was told is not kept: this is about the clients.
        world.events.clear()


PLANS = [
    pytest.param(draw_records(24, steps=0, delivery_timeout_ms=60_000), id="records"),
    pytest.param(
        draw_transactions(25, steps=0, delivery_timeout_ms=60_000, max_block_ms=60_000),
        id="transactions version 2",
        marks=pytest.mark.matrix,
    ),
    pytest.param(
        draw_transactions(27, steps=0, delivery_timeout_ms=60_000, max_block_ms=60_000),
        id="transactions version 0",
        marks=pytest.mark.matrix,
    ),
]


@pytest.mark.parametrize("plan", PLANS)
def test_X_K13_a_day_with_faults_leaves_nothing_behind(plan: Plan) -> None:
    random = Random(24)
    with Simulation(seed=24, latency_ms=(1, 20)) as sim, quiet():
        world = World(sim, plan, fetch_max_wait_ms=30_000, retention_ms=KEPT_MS)
        samples = []
        for _ in range(4):
            for _ in range(6):
                an_hour(world, random)
            samples.append(held(world))
    more = samples[-1] - samples[0]
    assert not {name: [sample[name] for sample in samples] for name in more if more[name] > (SOME_OTHERS if name == "others" else SOME)}
    assert samples[-1]["bytes of buffer.memory"] == 0
