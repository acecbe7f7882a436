"""Runs 24 hours with faults in virtual time, and counts the objects of clients and brokers, to find leaks."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from random import Random

from chaos_plan import FAULTS, PARTITIONS, TRANSACTION_FAULTS, Step, draw_records, draw_transactions
from chaos_verdict import quiet
from chaos_world import World
from levada.testing import Simulation

HOUR_MS = 3_600_000
ROUND_MS = 120_000
KEPT_MS = 300_000
FAULTS_PER_ROUND = 0.5


def held(world: World) -> Counter[str]:
    """End all faults and pending work, and count the objects by type.

    Types outside of levada are counted together. Connections and used bytes of buffer.memory are counted as well.
    """
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
    """Yield the steps of a transaction with offsets. Sometimes the program is replaced afterwards, or a replaced program continues."""
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
        # The recorded history would grow, and only the memory of clients and brokers is of interest.
        world.events.clear()


DAYS = {
    "records": lambda: draw_records(24, steps=0, delivery_timeout_ms=60_000),
    "transactions version 2": lambda: draw_transactions(25, steps=0, delivery_timeout_ms=60_000, max_block_ms=60_000),
    "transactions version 0": lambda: draw_transactions(27, steps=0, delivery_timeout_ms=60_000, max_block_ms=60_000),
}


def held_in_a_day(name: str) -> list[Counter[str]]:
    """Return the counts of held() after 6, 12, 18 and 24 hours. name: a key of DAYS."""
    random = Random(24)
    with Simulation(seed=24, latency_ms=(1, 20)) as sim, quiet():
        world = World(sim, DAYS[name](), fetch_max_wait_ms=30_000, retention_ms=KEPT_MS)
        samples = []
        for _ in range(4):
            for _ in range(6):
                an_hour(world, random)
            samples.append(held(world))
    return samples
