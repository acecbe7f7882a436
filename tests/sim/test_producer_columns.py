"""Columns and records on the same way: one open batch per partition, one memory, one order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from levada import KafkaProducer
from levada.broker.node.node import BrokerNode
from levada.errors import ClosedError, KafkaError, Persisted, UnknownTopicOrPartitionError
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
    node = add_broker(sim, wall_offset_ms=EPOCH_MS, auto_create_topics_enable=False)
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


def a_reader(pieces: Iterator[list[bytes]]) -> pa.RecordBatchReader:
    schema = pa.schema([("value", pa.binary())])
    return pa.RecordBatchReader.from_batches(schema, (pa.record_batch([piece], schema=schema) for piece in pieces))


LONG = b"x" * 1_000
A_PIECE = 5_000
"""So many LONG rows are more than is sorted at once."""


def test_M_P3_rows_taken_before_a_close_keep_their_outcome_and_the_others_were_not_written(sim: Simulation, broker: BrokerNode) -> None:
    broker.create_topic("one", 1)
    producer = a_producer(sim)

    def pieces() -> Iterator[list[bytes]]:
        yield [LONG] * A_PIECE
        producer.close()
        yield [b"late"] * A_PIECE
        yield [b"later"] * A_PIECE

    delivery = producer.send_arrow("one", a_reader(pieces()), value="value")
    written = len(values(broker, "one", 0))
    assert 0 < written <= A_PIECE
    assert delivery.report() == (3 * A_PIECE, 3 * A_PIECE - written)
    report = delivery.to_arrow().to_pydict()
    assert [offset >= 0 for offset in report["offset"]] == [row < written for row in range(3 * A_PIECE)]
    error = delivery.exception()
    assert isinstance(error, ClosedError)
    assert error.persisted is Persisted.NO


def test_M_P3_a_close_before_the_first_row_is_raised(sim: Simulation, broker: BrokerNode) -> None:
    producer = a_producer(sim)

    def pieces() -> Iterator[list[bytes]]:
        producer.close()
        yield [b"late"]

    with pytest.raises(ClosedError) as raised:
        producer.send_arrow("t", a_reader(pieces()), value="value")
    assert raised.value.persisted is Persisted.NO


@pytest.mark.parametrize(("topic", "kind"), [("missing", UnknownTopicOrPartitionError), ("t", ClosedError)])
def test_M_P3_send_arrow_that_raises_says_that_nothing_was_written(
    sim: Simulation, broker: BrokerNode, topic: str, kind: type[KafkaError]
) -> None:
    producer = a_producer(sim, max_block_ms=1_000)
    if kind is ClosedError:
        producer.close()
    with pytest.raises(kind) as raised:
        producer.send_arrow(topic, a_table([b"v"], [None]), value="value")
    assert raised.value.persisted is Persisted.NO
