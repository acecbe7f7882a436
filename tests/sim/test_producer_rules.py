"""Rules of the producer that only time shows, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from levada.broker.node.node import BrokerNode
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, BufferExhaustedError, Persisted
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS
from producer_kit import SimProducer, values
from sim_kit import broker as add_broker


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=5) as sim:
        yield sim


@pytest.fixture
def broker(sim: Simulation) -> BrokerNode:
    node = add_broker(sim, wall_offset_ms=EPOCH_MS, auto_create_topics_enable=False)
    node.create_topic("t", 1)
    return node


def test_A6_a_batch_is_as_old_as_its_first_record_not_as_the_wait_for_memory(sim: Simulation, broker: BrokerNode) -> None:
    """The second record waits 8 s for memory, and then 8 s for its answer: more than delivery.timeout.ms in all."""
    producer = SimProducer(
        sim, buffer_memory=8000, batch_size=5000, linger_ms=0, max_block_ms=60_000, request_timeout_ms=9_000, delivery_timeout_ms=10_000
    )
    producer.send("t", b"first").result()
    broker.faults.delay("Produce", 8_000, times=2)
    started = sim.now_ms
    before = producer.send("t", b"x" * 4900)
    after = producer.send("t", b"y" * 4900)
    assert sim.now_ms - started >= 8_000
    assert before.exception() is None
    assert after.exception() is None
    assert sim.now_ms - started >= 16_000
    assert values(broker, "t") == [b"first", b"x" * 4900, b"y" * 4900]


def test_K4_max_block_ms_bounds_the_waits_for_metadata_and_for_memory_together(sim: Simulation, broker: BrokerNode) -> None:
    broker.create_topic("new", 1)
    producer = SimProducer(sim, buffer_memory=8000, batch_size=5000, max_block_ms=2000)
    producer.send("t", b"first").result()
    broker.faults.fail_next("Produce", ErrorCode.NOT_ENOUGH_REPLICAS, times=1000)
    kept = producer.send("t", b"x" * 4900)
    broker.faults.delay("Metadata", 1500)
    started = sim.now_ms
    error = producer.send("new", b"x" * 4900).exception()
    assert isinstance(error, BufferExhaustedError)
    assert sim.now_ms - started == 2000
    broker.faults.clear()
    assert kept.result().offset == 1


def test_K17_a_batch_is_tried_again_as_often_as_retries_says(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, retries=2)
    producer.send("t", b"first").result()
    before = broker.faults.requests["Produce"]
    broker.faults.fail_next("Produce", ErrorCode.NOT_ENOUGH_REPLICAS, times=1000)
    error = producer.send("t", b"second").exception()
    assert isinstance(error, BrokerError)
    assert error.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert error.persisted is Persisted.NO
    assert broker.faults.requests["Produce"] - before == 3
