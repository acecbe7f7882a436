"""What close() and leaving a `with` block do about a transaction, whatever its coordinator does, in virtual time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import levada as lv
from levada.broker.node.node import BrokerNode
from levada.error_codes import ErrorCode
from levada.errors import TransactionOutcomeUnknownError
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS
from log_lines import said

SERVERS = "kafka:9092"
SETTINGS: dict[str, Any] = {"linger_ms": 0, "request_timeout_ms": 1000, "delivery_timeout_ms": 60_000, "max_block_ms": 20_000}
MAX_BLOCK_S, ERROR_EXIT_S = 20, 5


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=9) as sim:
        yield sim


@pytest.fixture(params=[2, 1], ids=["TV2", "TV1"])
def broker(sim: Simulation, request: pytest.FixtureRequest) -> BrokerNode:
    node = BrokerNode(host="kafka", port=9092, random=sim.random, wall_offset_ms=EPOCH_MS, transaction_version=request.param)
    sim.network.add_server(node, "kafka", 9092)
    node.create_topic("t", 1)
    return node


@pytest.fixture
def producer(sim: Simulation, broker: BrokerNode) -> lv.KafkaProducer:
    """A producer with a transaction open, to which a record is written."""
    producer = sim.producer(bootstrap_servers=SERVERS, transactional_id="x", **SETTINGS)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"open").result()
    return producer


def silent(broker: BrokerNode) -> None:
    broker.faults.blackhole()


def silent_about_the_end(broker: BrokerNode) -> None:
    broker.faults.blackhole("EndTxn")


def loading(broker: BrokerNode) -> None:
    broker.faults.fail_next("EndTxn", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 10_000)


def seconds(sim: Simulation, call: Callable[[], object]) -> float:
    began_ms = sim.now_ms
    call()
    return (sim.now_ms - began_ms) / 1000


def seen(sim: Simulation) -> list[Any]:
    sim.advance(100)
    return [record.value for record in sim.scan("t", bootstrap_servers=SERVERS, isolation_level="read_committed")]


@pytest.mark.parametrize("break_it", [silent, silent_about_the_end, loading])
@pytest.mark.parametrize(("timeout", "limit_s"), [(None, MAX_BLOCK_S), (3, 3), (100, MAX_BLOCK_S)])
def test_K10_close_waits_for_a_coordinator_for_max_block_ms_at_most(
    sim: Simulation,
    broker: BrokerNode,
    producer: lv.KafkaProducer,
    caplog: pytest.LogCaptureFixture,
    break_it: Callable[[BrokerNode], None],
    timeout: float | None,
    limit_s: float,
) -> None:
    break_it(broker)
    assert limit_s - 0.5 <= seconds(sim, lambda: producer.close(timeout)) <= limit_s + 1
    (told,) = [text for text in caplog.messages if "was closed with a transaction" in text]
    assert "transactional.id=x" in told and "its coordinator aborts later: it did not end within" in told and "EndTxn" in told


def test_K10_close_repeats_an_abort_that_got_no_answer(sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer) -> None:
    silent_about_the_end(broker)
    with pytest.raises(TransactionOutcomeUnknownError):
        producer.abort_transaction(2)
    broker.faults.clear()
    producer.close()
    with sim.producer(bootstrap_servers=SERVERS) as other:
        other.send("t", b"behind")
    assert seen(sim) == [b"behind"], "nothing open holds readers back"


def test_K10_close_says_that_a_commit_got_no_answer(
    sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer, caplog: pytest.LogCaptureFixture
) -> None:
    silent_about_the_end(broker)
    with pytest.raises(TransactionOutcomeUnknownError):
        producer.commit_transaction(2)
    assert seconds(sim, producer.close) < 1
    assert any("a commit that was asked for and not answered, which may yet be carried out" in text for text in caplog.messages)


def leave(producer: lv.KafkaProducer) -> None:
    with pytest.raises(LookupError), producer:
        raise LookupError


def test_an_exception_leaves_the_coordinator_time_to_abort(
    sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer, caplog: pytest.LogCaptureFixture
) -> None:
    broker.faults.delay("EndTxn", 900)
    assert 0.5 < seconds(sim, lambda: leave(producer)) < ERROR_EXIT_S
    assert "waiting up to 4.5 s for the end of the transaction of transactional.id=x; Ctrl-C gives up" in said(caplog.records)
    assert not any("was closed with" in text for text in caplog.messages)
    with sim.producer(bootstrap_servers=SERVERS) as other:
        other.send("t", b"behind")
    assert seen(sim) == [b"behind"]


@pytest.mark.parametrize("break_it", [silent, silent_about_the_end, loading])
def test_an_exception_waits_five_seconds_at_most_and_says_what_is_left(
    sim: Simulation,
    broker: BrokerNode,
    producer: lv.KafkaProducer,
    caplog: pytest.LogCaptureFixture,
    break_it: Callable[[BrokerNode], None],
) -> None:
    caplog.set_level(logging.WARNING)
    break_it(broker)
    assert ERROR_EXIT_S - 1 < seconds(sim, lambda: leave(producer)) < ERROR_EXIT_S + 1
    (told,) = [text for text in caplog.messages if "was closed with" in text]
    assert "its coordinator aborts later: it did not end within 4.5 s (last: EndTxn" in told
