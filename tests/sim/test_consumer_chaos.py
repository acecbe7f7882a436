"""M-P4 under a random mixture of faults: every record once, in order, whatever brokers and connections do."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from consumer_sim import PORT, World
from levada.client.requests.retry import Reaction
from levada.consumer.fetch.fetch_response import ON_FETCH_ERROR
from levada.testing.simulation import Simulation
from levada.types import TopicPartition

PARTITIONS = [TopicPartition("t", number) for number in range(4)]
PASSING = [code for code, reaction in ON_FETCH_ERROR.on_error.items() if reaction in (Reaction.REFRESH, Reaction.RETRY)]
ROUNDS = 120


def troubles(world: World, random: Random) -> list[Callable[[], None]]:
    """What may happen between two polls."""

    def host() -> str:
        return f"b{random.randint(1, len(world.nodes))}"

    def fail() -> None:
        tp = random.choice(PARTITIONS)
        random.choice(world.nodes).faults.fail_next("Fetch", random.choice(PASSING), topic="t", partition=tp.partition)

    return [
        fail,
        lambda: world.network.disconnect(host(), PORT),
        lambda: world.network.delay_response("Fetch", ms=random.randint(1, 3_000)),
        lambda: world.network.drop_response("Fetch"),
        lambda: world.network.drop_response("Metadata"),
        lambda: world.move_leader("t", random.choice(PARTITIONS).partition, random.randint(1, len(world.nodes))),
        lambda: world.simulation.advance(random.randint(1, 5_000)),
        lambda: setattr(world.network, "chunk_bytes", random.choice([7, 1_000, 1 << 20])),
    ]


@pytest.mark.parametrize("seed", range(12))
def test_M_P4_every_record_once_and_in_order(seed: int) -> None:
    random = Random(seed)
    with Simulation(seed=seed, latency_ms=(1, 20)) as simulation:
        world = World(simulation, nodes=3)
        world.topic("t", len(PARTITIONS))
        written: dict[int, list[bytes]] = {tp.partition: [] for tp in PARTITIONS}
        read: dict[int, list[bytes | None]] = {tp.partition: [] for tp in PARTITIONS}
        consumer = world.consumer(*PARTITIONS, request_timeout_ms=2_000, max_partition_fetch_bytes=random.choice([1, 500, 1 << 20]))

        def poll(timeout: float) -> None:
            for record in consumer.poll(timeout, max_records=random.choice([1, 7, 500])):
                read[record.partition].append(record.value)

        for _ in range(ROUNDS):
            tp = random.choice(PARTITIONS)
            values = [b"%d" % n for n in range(len(written[tp.partition]), len(written[tp.partition]) + random.randint(1, 20))]
            world.append("t", values, tp.partition)
            written[tp.partition] += values
            if random.random() < 0.3:
                random.choice(troubles(world, random))()
            poll(random.random() / 10)
        for _ in range(2_000):
            if read == written:
                break
            poll(1)
        assert read == written
        assert [consumer.position(tp) for tp in PARTITIONS] == [len(written[tp.partition]) for tp in PARTITIONS]
