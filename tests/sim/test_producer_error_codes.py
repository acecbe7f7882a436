"""Every error code on Produce: once, three times, for ever. No hang, one copy at most, the truth about what may be written (M-B7, M-P3)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from levada.broker.node.node import BrokerNode
from levada.error_codes import ErrorCode
from levada.errors import DeliveryTimeout, KafkaError, Persisted
from levada.producer.send.reactions import ON_PRODUCE_ERROR, Action
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS
from producer_kit import SimProducer, values
from sim_kit import broker as add_broker

CODES = [code for code in ErrorCode if code is not ErrorCode.NONE]
FOR_EVER = 10_000
DELIVERY_TIMEOUT_MS = 5000
# What the sequence rules let the producer try again although Kafka does not list it as retriable.
CURED_BY_SEQUENCES = {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
# Given by a leader only before it appends. Written down here a second time on purpose.
CERTAINLY_NOT_WRITTEN = {
    *(2, 3, 5, 10, 17, 18, 19, 21, 29, 31, 32, 35, 43, 44, 45, 47, 48, 49, 51, 53, 59),
    *(74, 75, 76, 87, 89, 90, 100, 103, 120),
}


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=5) as sim:
        yield sim


@pytest.fixture
def broker(sim: Simulation) -> BrokerNode:
    node = add_broker(sim, wall_offset_ms=EPOCH_MS)
    node.create_topic("t", 1)
    return node


@pytest.fixture(params=[True, False], ids=["idempotent", "plain"])
def producer(sim: Simulation, request: pytest.FixtureRequest) -> SimProducer:
    return SimProducer(
        sim,
        linger_ms=0,
        delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
        request_timeout_ms=3000,
        enable_idempotence=request.param,
    )


def outcome(producer: SimProducer, value: bytes = b"x") -> KafkaError | None:
    """Send and wait for as long as a record may take, and a second."""
    delivery = producer.send("t", value)
    producer.sim.advance(DELIVERY_TIMEOUT_MS + 1000)
    assert delivery.done(), "no call hangs longer than its time-out (P5)"
    return delivery.exception()


def may_be_tried_again(code: ErrorCode, producer: SimProducer) -> bool:
    return code.retriable or (code in CURED_BY_SEQUENCES and producer.core.idempotence is not None)


def test_the_table_has_a_row_for_every_code() -> None:
    assert set(ON_PRODUCE_ERROR) == set(ErrorCode)
    assert {code.value for code, reaction in ON_PRODUCE_ERROR.items() if reaction.persisted is Persisted.NO} == CERTAINLY_NOT_WRITTEN
    assert all(reaction.refresh_metadata == code.stale_metadata for code, reaction in ON_PRODUCE_ERROR.items())
    assert all(reaction.action is Action.RETRY for code, reaction in ON_PRODUCE_ERROR.items() if code.retriable)


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_M_B7_an_error_that_passes(producer: SimProducer, broker: BrokerNode, code: ErrorCode, times: int) -> None:
    broker.faults.fail_next("Produce", code, times=times)
    error = outcome(producer)
    if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        assert error is None
    elif may_be_tried_again(code, producer):
        assert error is None
        assert values(broker, "t") == [b"x"]
    else:
        assert error is not None
        assert getattr(error, "code", None) is code
        assert values(broker, "t") == []


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_M_B7_an_error_for_ever(producer: SimProducer, broker: BrokerNode, code: ErrorCode) -> None:
    broker.faults.fail_next("Produce", code, times=FOR_EVER)
    error = outcome(producer)
    if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        assert error is None
        return
    assert error is not None
    assert isinstance(error, DeliveryTimeout) == may_be_tried_again(code, producer)
    assert error.persisted is (Persisted.NO if code.value in CERTAINLY_NOT_WRITTEN else Persisted.UNKNOWN)
    assert f"persisted: {error.persisted.value}" in str(error)
    assert code.name in str(error)
    assert producer.core.pool.available == producer.core.pool.total


@pytest.mark.parametrize("times", [1, 3, FOR_EVER])
@pytest.mark.parametrize("code", [code for code in CODES if code.value not in CERTAINLY_NOT_WRITTEN], ids=lambda code: code.name)
def test_M_P3_what_was_written_behind_an_error_is_never_called_not_written(
    sim: Simulation, broker: BrokerNode, code: ErrorCode, times: int
) -> None:
    producer = SimProducer(sim, linger_ms=0, delivery_timeout_ms=DELIVERY_TIMEOUT_MS, request_timeout_ms=3000)
    broker.faults.fail_next("Produce", code, times=times, applied=True)
    error = outcome(producer)
    assert values(broker, "t") == [b"x"], "written once, however often it was sent"
    assert error is None or error.persisted is Persisted.UNKNOWN


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_M_B7_the_next_record_is_written_unless_the_producer_may_not_go_on(sim: Simulation, broker: BrokerNode, code: ErrorCode) -> None:
    producer = SimProducer(sim, linger_ms=0, delivery_timeout_ms=DELIVERY_TIMEOUT_MS, request_timeout_ms=3000)
    assert outcome(producer, b"0") is None
    broker.faults.fail_next("Produce", code)
    first, second = outcome(producer, b"1"), outcome(producer, b"2")
    if ON_PRODUCE_ERROR[code].action is Action.FAIL_PRODUCER:
        assert second is not None
        assert "the producer cannot go on" in str(second)
        assert second.persisted is Persisted.NO
    else:
        assert second is None
        lost = first is not None or code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        assert values(broker, "t") == ([b"0", b"2"] if lost else [b"0", b"1", b"2"])
