"""health() of a consumer whose brokers fail, in virtual time."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from consumer_kit import batch
from consumer_sim import World
from levada.consumer.health import Condition
from levada.error_codes import ErrorCode
from levada.errors import GroupError, InvalidTopicError, ProtocolError
from levada.record.header import MAGIC, MAGIC_AT
from levada.testing.simulation import Simulation
from levada.types import TopicPartition
from log_lines import said

T0 = TopicPartition("t", 0)


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(seed=7) as simulation:
        yield simulation


def test_a_leader_that_is_down_is_named_with_its_cause(simulation: Simulation) -> None:
    world = World(simulation, nodes=2)
    world.topic("t")
    world.move_leader("t", 0, 2)
    world.append("t", [b"1", b"2"])
    with world.consumer(T0) as consumer:
        assert consumer.health().condition is Condition.UNREACHABLE
        assert "no broker was reached yet" in str(consumer.health())
        assert len(consumer.poll(5)) == 2
        simulation.network.stop("b2", 9092)
        for _ in range(20):
            consumer.poll(0.5)
        health = consumer.health()
        assert health.condition is Condition.UNREACHABLE
        assert health.worst is not None
        assert health.worst.detail.startswith("its leader, node 2 at b2:9092, cannot be reached: ")
        assert list(health.unreachable) == ["b2:9092"]


def test_a_fetch_that_fails_is_told_with_the_error(simulation: Simulation) -> None:
    world = World(simulation)
    world.topic("t")
    with world.consumer(T0) as consumer:
        consumer.poll(1)
        world.faults.fail_next("Fetch", ErrorCode.KAFKA_STORAGE_ERROR, times=1_000)
        consumer.poll(2)
        health = consumer.health()
        assert (health.condition, "KAFKA_STORAGE_ERROR" in str(health)) == (Condition.FAILING, True)


def test_an_error_is_told_after_the_records_before_it(simulation: Simulation) -> None:
    world = World(simulation)
    world.topic("t")
    world.append("t", [b"a", b"b"])
    damaged = bytearray(batch(0, [b"c"]))
    damaged[MAGIC_AT] = MAGIC + 1
    world.append_raw("t", bytes(damaged))
    with world.consumer(T0, max_poll_records=1) as consumer:
        told = []
        for _ in range(2):
            assert len(consumer.poll(10)) == 1
            told.append(consumer.health().condition)
        assert told == [Condition.RECORDS_WAIT, Condition.ERROR_WAITS]
        with pytest.raises(ProtocolError):
            consumer.poll(10)


def test_O16_who_keeps_a_transaction_open_may_not_be_told(simulation: Simulation) -> None:
    world = World(simulation)
    world.topic("t")
    with (
        simulation.producer(bootstrap_servers="b1:9092", transactional_id="x") as producer,
        world.consumer(T0, isolation_level="read_committed") as consumer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"1")
        producer.flush()
        consumer.poll(1)
        world.faults.fail_next("DescribeProducers", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        (one,) = consumer.health().partitions
        assert (one.condition, one.transactions) == (Condition.OPEN_TRANSACTION, ())
        assert "whose it is cannot be told: " in one.detail
        assert "TOPIC_AUTHORIZATION_FAILED" in one.detail
        world.faults.fail_next("ListTransactions", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        ((known,),) = [found.transactions for found in consumer.health().partitions]
        assert known.transactional_id is None
        ((named,),) = [found.transactions for found in consumer.health().partitions]
        assert named == known._replace(transactional_id="x")
        producer.abort_transaction()


def test_a_member_that_has_no_partitions_yet_says_so(simulation: Simulation) -> None:
    world = World(simulation)
    world.topic("t")
    with world.consumer(group_id="g") as consumer:
        consumer.subscribe(["t"])
        health = consumer.health()
        assert (health.condition, health.worst) == (Condition.REBALANCING, None)
        for _ in range(20):
            consumer.poll(1)
        assert consumer.health().condition is Condition.AT_END


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_G16_G37_a_member_that_is_kept_out_for_good_says_why(simulation: Simulation, protocol: str) -> None:
    world = World(simulation)
    world.topic("t")
    with world.consumer(group_id="g", group_protocol=protocol) as consumer:
        consumer.subscribe(["t"])
        api = "Heartbeat" if protocol == "classic" else "ConsumerGroupHeartbeat"
        code = ErrorCode.FENCED_INSTANCE_ID if protocol == "classic" else ErrorCode.GROUP_AUTHORIZATION_FAILED
        for _ in range(20):
            consumer.poll(1)
        world.faults.fail_next(api, code)
        with pytest.raises(GroupError) as failed:
            for _ in range(20):
                consumer.poll(1)
        health = consumer.health()
        assert (health.condition, health.worst, health.fenced) == (Condition.FENCED, None, failed.value)
        assert str(health).startswith(f"{Condition.FENCED.value}: {failed.value}")
        with pytest.raises(GroupError):
            consumer.poll(1)
        consumer.unsubscribe()
        consumer.subscribe(["t"])
        for _ in range(20):
            consumer.poll(1)
        assert consumer.health().condition in (Condition.READING, Condition.AT_END)
        assert consumer.health().fenced is None


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_is_subscribed_to_and_is_not_there_is_told_until_it_is(
    simulation: Simulation, caplog: pytest.LogCaptureFixture, protocol: str
) -> None:
    world = World(simulation)
    world.topic("t")
    settings: dict[str, Any] = {"group_id": "g", "group_protocol": protocol, "allow_auto_create_topics": False}
    with world.consumer(**settings) as consumer:
        consumer.subscribe(["t", "typo"])
        assert consumer.poll(0.1) == []
        assert not caplog.records, "it may be about to be created"
        for _ in range(20):
            consumer.poll(1)
        health = consumer.health()
        assert (health.condition, health.worst, health.absent) == (Condition.DOES_NOT_EXIST, None, ("topic 'typo' does not exist",))
        assert str(health).splitlines()[1] == "  topic 'typo' does not exist"
        text = "topic 'typo' does not exist; nothing is read from it until it exists: create it, or check the name"
        assert said(caplog.records) == [text]
        world.topic("typo")
        for _ in range(20):
            consumer.poll(1)
        assert len(consumer.assignment()) == 2
        assert consumer.health().absent == ()
    assert len(caplog.records) == 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize(
    ("name", "advice"), [("^nat.*", "; for a regular expression use subscribe(pattern='nat.*')"), ("a|b", "(pattern='a|b')"), ("a b", "")]
)
def test_a_name_that_no_topic_has_is_told_as_what_poll_raises(simulation: Simulation, protocol: str, name: str, advice: str) -> None:
    """In confluent-kafka, ^ makes a pattern of a name."""
    world = World(simulation)
    with world.consumer(group_id="g", group_protocol=protocol) as consumer:
        consumer.subscribe([name])
        for _ in range(2):
            with pytest.raises(InvalidTopicError) as raised:
                consumer.poll(5)
            text = str(raised.value)
            assert text.startswith(f"topic '{name}': a topic's name is 1 to 249 of a-z")
            assert advice in text
            assert bool(advice) == ("pattern" in text)
            health = consumer.health()
            assert (health.condition, health.absent) == (Condition.DOES_NOT_EXIST, (text,))
            assert str(health).splitlines()[1] == f"  {text}"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_pattern_that_nothing_matches_is_told(simulation: Simulation, caplog: pytest.LogCaptureFixture, protocol: str) -> None:
    world = World(simulation)
    world.topic("orders-eu")
    with world.consumer(group_id="g", group_protocol=protocol) as consumer:
        consumer.subscribe(pattern="orders")
        assert consumer.health().condition is Condition.NOT_ASSIGNED
        for _ in range(5):
            consumer.poll(1)
        health = consumer.health()
        assert (health.condition, health.absent) == (Condition.DOES_NOT_EXIST, ("no topic's whole name matches 'orders'",))
        assert said(caplog.records) == ["no topic's whole name matches 'orders'; nothing is read until one does: check the pattern"]
        consumer.subscribe(pattern="orders.*")
        for _ in range(20):
            consumer.poll(1)
        assert (consumer.health().condition, consumer.health().absent) == (Condition.AT_END, ())
    assert len(caplog.records) == 1


def test_what_is_not_there_is_told_while_a_call_still_waits(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    told_ms: list[int] = []
    monkeypatch.setattr(logging.getLogger("levada.consumer.stall"), "handle", lambda record: told_ms.append(simulation.now_ms))
    world = World(simulation)
    with world.consumer(group_id="g", allow_auto_create_topics=False) as consumer:
        consumer.subscribe(["typo"])
        before_ms = simulation.now_ms
        consumer.poll(600)
    assert [told - before_ms < 10_000 for told in told_ms] == [True]
