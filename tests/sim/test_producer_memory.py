"""buffer.memory bounds what a producer holds: until callbacks have run, and for records that never got into a batch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from levada.base.flow import Until
from levada.broker.node.node import BrokerNode
from levada.errors import BufferExhaustedError, ClosedError, Persisted, RecordTooLargeError
from levada.producer.append.record_accumulator import ToSend
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS
from producer_kit import SimProducer, values
from sim_kit import broker as add_broker


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=8) as sim:
        yield sim


@pytest.fixture
def broker(sim: Simulation) -> BrokerNode:
    node = add_broker(sim, wall_offset_ms=EPOCH_MS)
    node.create_topic("t", 1)
    return node


def a_record(value: bytes, callback: object = None) -> ToSend:
    return ToSend("t", 0, None, value, (), 1, callback)  # type: ignore[arg-type]


def test_B12_memory_comes_back_when_the_callbacks_have_run(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=0)
    pool = producer.core.pool
    seen: list[int] = []
    producer.send("t", b"v" * 100, on_delivery=lambda *_: seen.append(pool.available))
    producer.flush()
    assert seen[0] < pool.total, "it was answered, and its callback had not run"
    assert pool.available == pool.total


def test_B12_a_record_that_failed_before_a_batch_is_charged_until_its_callback_has_run(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, max_request_size=5000)
    pool = producer.core.pool
    seen: list[tuple[int, type[Exception]]] = []
    delivery = producer.send("t", b"v" * 9000, on_delivery=lambda _, error: seen.append((pool.available, type(error))))
    assert pool.available < pool.total
    producer.flush()
    assert seen == [(pool.total - 1024, RecordTooLargeError)]
    assert delivery.done()
    assert pool.available == pool.total


def test_B12_failed_records_alone_make_send_wait_for_their_callbacks(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, max_request_size=900, buffer_memory=3000, max_block_ms=1000)
    producer.send("t", b"known")
    producer.flush()
    send = partial(producer.core.appending.send, a_record(b"v" * 2000, lambda *_: None))
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(send())
    waiting = send()
    step = next(waiting)
    assert isinstance(step, Until)
    assert step.deadline_ms == sim.now_ms + 1000
    with pytest.raises(StopIteration) as done:
        waiting.send(False)
    assert isinstance(done.value.value.exception(0), RecordTooLargeError)
    sim.advance(1)
    assert producer.core.pool.available == 3000
    assert producer.core.pool.queued == 0


def test_A19_what_is_on_the_wire_when_the_producer_ends_is_let_go(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=0)
    producer.send("t", b"known")
    producer.flush()
    broker.faults.drop_response("Produce")
    delivery = producer.send("t", b"v" * 100)
    sim.advance(5)
    assert producer.core.pool.available < producer.core.pool.total
    producer.core.abort()
    producer.driver.close()
    error = delivery.exception(0)
    assert isinstance(error, ClosedError)
    assert error.persisted is Persisted.UNKNOWN
    assert producer.core.pool.available == producer.core.pool.total


def test_send_in_a_callback_fails_at_once_when_memory_is_full(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=60_000, buffer_memory=4000, batch_size=2000, max_request_size=3000)
    producer.send("t", b"v" * 2000)
    with pytest.raises(StopIteration) as done:
        next(producer.core.appending.send(a_record(b"v" * 2500), may_wait=False))
    error = done.value.value.exception(0)
    assert isinstance(error, BufferExhaustedError)
    assert "a callback cannot wait for memory that callbacks give back" in str(error)
    assert producer.core.pool.queued == 0


def test_a_send_that_is_broken_off_holds_no_memory(sim: Simulation, broker: BrokerNode) -> None:
    """Ctrl-C, or a cancelled task, while send() waits for memory."""
    producer = SimProducer(sim, buffer_memory=4000, batch_size=2000, max_request_size=3000)
    producer.send("t", b"v" * 2000)
    waiting = producer.core.appending.send(a_record(b"v" * 2500))
    assert isinstance(next(waiting), Until)
    assert producer.core.pool.queued == 1
    waiting.close()
    assert producer.core.pool.queued == 0
    producer.flush()
    assert producer.core.pool.available == 4000
    assert values(broker, "t") == [b"v" * 2000]
