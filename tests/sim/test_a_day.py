"""24 hours with faults, in virtual time: what clients and brokers hold after a day is what they held after six hours (X-K13)."""

from __future__ import annotations

import gc
from collections import Counter
from random import Random

from chaos_plan import FAULTS, PARTITIONS, draw_records
from chaos_verdict import quiet
from chaos_world import World
from levada.testing import Simulation

HOUR_MS = 3_600_000
ROUND_MS = 120_000
KEPT_MS = 300_000
FAULTS_PER_ROUND = 0.5
MORE = 1.02
"""How much a count may vary with the moment at which it is taken."""


def held(world: World) -> Counter[str]:
    """Return how many objects of each of levada's types there are, and of all others together, when nothing is under way."""
    world.heal()
    world.app.producer.flush()
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


def an_hour(world: World, random: Random) -> None:
    for _ in range(HOUR_MS // ROUND_MS):
        if random.random() < FAULTS_PER_ROUND:
            fault = random.choice(FAULTS)(random)
            getattr(world, fault.name)(*fault.arguments)
        for _ in range(3):
            world.send(random.randrange(PARTITIONS), random.randint(0, 120))
        world.poll(100)
        world.wait(ROUND_MS)
        # What was told is not kept: this is about the clients.
        world.events.clear()


def test_X_K13_a_day_with_faults_leaves_nothing_behind() -> None:
    random = Random(24)
    with Simulation(seed=24, latency_ms=(1, 20)) as sim, quiet():
        world = World(sim, draw_records(24, steps=0, delivery_timeout_ms=60_000), fetch_max_wait_ms=30_000, retention_ms=KEPT_MS)
        samples = []
        for _ in range(4):
            for _ in range(6):
                an_hour(world, random)
            samples.append(held(world))
    grown = {name: [sample[name] for sample in samples] for name in samples[-1] if samples[-1][name] > samples[0][name] * MORE + 20}
    assert not grown
    assert samples[-1]["bytes of buffer.memory"] == 0
