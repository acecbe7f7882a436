"""The producer's suspicious corners in virtual time: each test is a way to lose a wake-up, a record, or track of one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from levada.broker.node.node import BrokerNode
from levada.error_codes import ErrorCode
from levada.errors import DeliveryTimeout
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS
from producer_kit import SimProducer
from sim_kit import broker as add_broker


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=12) as sim:
        yield sim


@pytest.fixture
def broker(sim: Simulation) -> BrokerNode:
    node = add_broker(sim, wall_offset_ms=EPOCH_MS, auto_create_topics_enable=False)
    node.create_topic("t", 1)
    return node


def test_I12_batches_behind_an_expired_one_are_sent_as_soon_as_the_gap_is_known(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=0, batch_size=1, delivery_timeout_ms=5000, retry_backoff_ms=2000, retry_backoff_max_ms=2000)
    producer.send("t", b"begins the sequence")
    producer.flush()
    broker.faults.fail_next("Produce", ErrorCode.REQUEST_TIMED_OUT, topic="t", times=3)
    expiring = producer.send("t", b"expires")
    sim.advance(4500)
    behind = producer.send("t", b"behind it")
    sim.advance(600)
    assert isinstance(expiring.exception(0), DeliveryTimeout)
    assert behind.done(), "it waits for its own expiry otherwise"
    assert behind.result().offset == 1
