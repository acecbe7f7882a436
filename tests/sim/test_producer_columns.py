"""Columns and records on the same way: one open batch per partition, one memory, one order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from levada import KafkaProducer
from levada.broker.node import BrokerNode
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS
from producer_kit import batches, values
from sim_kit import HOST, PORT
from sim_kit import broker as add_broker

PARTITIONS = 3


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=8) as sim:
        yield sim


@pytest.fixture
def broker(sim: Simulation) -> BrokerNode:
    node = add_broker(sim, wall_offset_ms=EPOCH_MS)
    node.create_topic("t", PARTITIONS)
    return node


def a_producer(sim: Simulation, **settings: Any) -> KafkaProducer:
    return sim.producer(bootstrap_servers=f"{HOST}:{PORT}", **settings)


def a_table(values: list[bytes], partitions: list[int | None]) -> pa.Table:
    return pa.table({"value": pa.array(values, pa.binary()), "partition": pa.array(partitions, pa.int32())})


def test_small_tables_and_records_make_one_batch_per_partition(sim: Simulation, broker: BrokerNode) -> None:
    with a_producer(sim, linger_ms=100) as producer:
        expected: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        for turn in range(10):
            table = [b"row %d of %d" % (number, turn) for number in range(PARTITIONS)]
            producer.send_arrow("t", a_table(table, list(range(PARTITIONS))), value="value", partition="partition")
            for number in range(PARTITIONS):
                producer.send("t", b"record of %d" % turn, partition=number)
                expected[number] += [table[number], b"record of %d" % turn]
        producer.flush()
    for number in range(PARTITIONS):
        assert values(broker, "t", number) == expected[number]
        assert len(batches(broker, "t", number)) == 1


def test_keyless_rows_of_small_tables_stay_with_a_partition_until_a_batch_is_full(sim: Simulation, broker: BrokerNode) -> None:
    with a_producer(sim, linger_ms=100) as producer:
        for _ in range(20):
            producer.send_arrow("t", a_table([b"v"] * 5, [None] * 5), value="value")
        producer.flush()
    assert sorted(len(values(broker, "t", number)) for number in range(PARTITIONS)) == [0, 0, 100]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_I14_rows_wait_for_memory_and_survive_lost_answers_each_written_once(sim: Simulation, broker: BrokerNode, codec: str) -> None:
    rows = [b"%05d" % number + b"x" * 300 for number in range(400)]
    with a_producer(sim, buffer_memory=20_000, batch_size=4_000, request_timeout_ms=1_000, compression_type=codec) as producer:
        pool = producer._core.pool
        sim.network.drop_response("Produce", nth=2)
        where: list[int | None] = [number % PARTITIONS for number in range(400)]
        delivery = producer.send_arrow("t", a_table(rows, where), value="value", partition="partition")
        assert 0 <= pool.available < pool.total
        assert delivery.result(100).failed == 0
        report = delivery.to_arrow().to_pydict()
        producer.flush()
        assert pool.available == pool.total
    for number in range(PARTITIONS):
        assert values(broker, "t", number) == rows[number::PARTITIONS]
    assert report["row"] == list(range(400))
    assert report["offset"] == [number // PARTITIONS for number in range(400)]
