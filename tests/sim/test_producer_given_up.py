"""flush() that runs out of time, and records that the program gives up, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from levada.broker.node.node import BrokerNode
from levada.errors import AbortedError, FlushTimeout, Persisted
from levada.producer.delivery.delivery import Delivery
from levada.sync.producer import KafkaProducer
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS
from producer_kit import values
from sim_kit import HOST, PORT
from sim_kit import broker as add_broker

SERVERS = f"{HOST}:{PORT}"


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=11) as sim:
        yield sim


@pytest.fixture
def broker(sim: Simulation) -> BrokerNode:
    node = add_broker(sim, wall_offset_ms=EPOCH_MS, num_partitions=1)
    node.create_topic("t", 1)
    return node


def send_all(producer: KafkaProducer, topic: str, count: int, start: int = 0) -> list[Delivery]:
    return [producer.send(topic, b"%d" % number) for number in range(start, start + count)]


def numbered(*ranges: range) -> list[bytes]:
    return [b"%d" % number for piece in ranges for number in piece]


def given_up(deliveries: list[Delivery]) -> set[Persisted]:
    errors = [delivery.exception() for delivery in deliveries]
    assert all(type(error) is AbortedError for error in errors)
    return {error.persisted for error in errors if error is not None}


# flush(timeout)


def test_A22_a_flush_that_runs_out_of_time_says_how_many_records_remain(sim: Simulation, broker: BrokerNode) -> None:
    with sim.producer(bootstrap_servers=SERVERS, linger_ms=0) as producer:
        producer.send("t", b"first").result()
        broker.faults.delay("Produce", ms=3000)
        send_all(producer, "t", 1)
        sim.advance(100)
        send_all(producer, "t", 4)
        with pytest.raises(FlushTimeout, match=r"flush\(\): not done within 2000 ms; 5 records not acknowledged yet") as raised:
            producer.flush(timeout=2)
        assert raised.value.remaining == 5
        assert not raised.value.retriable
        producer.flush(timeout=5)
    assert len(values(broker, "t")) == 6


def test_A22_records_that_follow_a_flush_do_not_count_for_it(sim: Simulation, broker: BrokerNode) -> None:
    with sim.producer(bootstrap_servers=SERVERS) as producer:
        producer.send("t", b"first").result()
        flushing = producer._producing.core.flushing()
        assert flushing.remaining == 0
        send_all(producer, "t", 3)
        assert flushing.remaining == 0
        assert producer._producing.core.flushing().remaining == 3


def test_A21_A22_the_records_of_a_split_batch_are_counted_in_its_parts(sim: Simulation, broker: BrokerNode) -> None:
    broker.create_topic("small", 1, {"max.message.bytes": "400"})
    with sim.producer(bootstrap_servers=SERVERS, batch_size=2000) as producer:
        send_all(producer, "small", 100)
        sim.advance(8)
        flushing = producer._producing.core.flushing()
        while flushing.remaining == 100:
            sim.advance(1)
        assert 0 < flushing.remaining < 100
        producer.flush()
        assert flushing.remaining == 0
    assert values(broker, "small") == numbered(range(100))


# abort_pending()


def test_A23_what_was_never_sent_is_given_up_for_certain(sim: Simulation, broker: BrokerNode) -> None:
    with sim.producer(bootstrap_servers=SERVERS, linger_ms=10_000) as producer:
        producer.send("t", b"first", partition=0)
        producer.flush()
        called: list[object] = []
        pending = send_all(producer, "t", 3)
        pending.append(producer.send("t", b"x", on_delivery=lambda metadata, error: called.append(error)))
        assert producer.abort_pending() == 4
        assert given_up(pending) == {Persisted.NO}
        assert called == [pending[-1].exception()]
        assert "t-0: given up by abort_pending(), not sent yet; persisted: no" in str(pending[0].exception())
        send_all(producer, "t", 2)
        assert producer.abort_pending() == 2
        assert producer.abort_pending() == 0
        assert producer.send("t", b"last") is not None
    assert values(broker, "t") == [b"first", b"last"]


def test_A23_what_a_broker_may_have_is_given_up_as_unknown_and_never_doubled(sim: Simulation, broker: BrokerNode) -> None:
    with sim.producer(bootstrap_servers=SERVERS, linger_ms=0, request_timeout_ms=1000) as producer:
        producer.send("t", b"first").result()
        broker.faults.drop_response("Produce", nth=1)
        sent = send_all(producer, "t", 2)
        sim.advance(500)
        assert producer.abort_pending() == 2
        assert given_up(sent) == {Persisted.UNKNOWN}
        assert "unanswered so far (1 attempt); persisted: unknown" in str(sent[0].exception())
        after = send_all(producer, "t", 3, start=10)
        producer.flush()
        assert all(delivery.exception() is None for delivery in after)
    assert values(broker, "t") == [b"first", *numbered(range(2), range(10, 13))]


def test_A23_an_answer_that_comes_late_changes_nothing(sim: Simulation, broker: BrokerNode) -> None:
    with sim.producer(bootstrap_servers=SERVERS, linger_ms=0) as producer:
        producer.send("t", b"first").result()
        broker.faults.delay("Produce", ms=2000)
        sent = send_all(producer, "t", 1)
        sim.advance(100)
        waiting = send_all(producer, "t", 2, start=1)
        producer.abort_pending()
        assert given_up(sent) == {Persisted.UNKNOWN}
        sim.advance(10_000)
        assert given_up(sent + waiting) >= {Persisted.UNKNOWN}
        assert producer.send("t", b"last").result(timeout=5).offset >= 2
    assert values(broker, "t")[-1] == b"last"


def test_A23_memory_of_records_given_up_comes_back(sim: Simulation, broker: BrokerNode) -> None:
    with sim.producer(bootstrap_servers=SERVERS, linger_ms=10_000, buffer_memory=20_000, max_block_ms=1000) as producer:
        producer.partitions_for("t")
        producer.send("t", b"x" * 15_000)
        producer.abort_pending()
        pool = producer._producing.core.pool
        assert pool.available == pool.total
        producer.send("t", b"y" * 15_000)
    assert values(broker, "t") == [b"y" * 15_000]
