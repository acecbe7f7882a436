"""health() says why nothing arrives. Both APIs, every broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

import levada as lv
from api_kit import BOTH_APIS, EVERYWHERE, api_and_broker

PATIENCE_S = 30


@pytest.fixture(params=BOTH_APIS)
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


@pytest.fixture
def tp(kafka: Any, new_topic: Callable[..., str]) -> lv.TopicPartition:
    """A partition with three records."""
    name = new_topic(kafka)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send_many(name, [b"1", b"2", b"3"])
    return lv.TopicPartition(name, 0)


def consumer(kafka: Any, *partitions: lv.TopicPartition, **settings: Any) -> Any:
    made = lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest", fetch_max_wait_ms=50, **settings)
    made.assign(partitions)
    return made


def health_after(reader: Any, condition: lv.Condition) -> Any:
    """What the consumer says once it has got so far; what it reads meanwhile is lost."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := reader.health()).condition is not condition and time.monotonic() < deadline:
        reader.poll(0.1)
    assert found.condition is condition, str(found)
    return found


def test_what_the_program_did_itself_is_said_first(kafka: Any, tp: lv.TopicPartition) -> None:
    with consumer(kafka) as reader:
        nothing = reader.health()
        assert (nothing.condition, nothing.partitions, nothing.worst) == (lv.Condition.NOT_ASSIGNED, (), None)
        reader.assign([tp])
        reader.pause([tp])
        assert reader.health().condition is lv.Condition.PAUSED
        reader.resume([tp])
        found = health_after(reader, lv.Condition.AT_END)
        assert found.worst == lv.PartitionHealth(tp, lv.Condition.AT_END, 3, 0, 0.0, "read up to 3, the end")
        reader.assign([tp], ends={tp: 3})
        assert reader.health().condition is lv.Condition.FINISHED


def test_F28_records_that_wait_have_a_lag_in_records_and_seconds(kafka: Any, tp: lv.TopicPartition) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(tp.topic, value=b"old", timestamp=time.time_ns() // 1_000_000 - 60_000)
    with consumer(kafka, tp) as reader:
        deadline = time.monotonic() + PATIENCE_S
        while not reader.poll(1, 3) and time.monotonic() < deadline:
            pass
        found = reader.health()
        assert found.condition is lv.Condition.RECORDS_WAIT
        (one,) = found.partitions
        assert (one.position, one.lag) == (3, 1)
        assert 60 <= one.behind_s < 60 + PATIENCE_S


@pytest.mark.parametrize("kafka", EVERYWHERE, indirect=True)
def test_an_open_transaction_is_named(kafka: Any, tp: lv.TopicPartition) -> None:
    name = f"billing-{uuid4().hex}"
    with (
        lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=name) as producer,
        consumer(kafka, tp, isolation_level="read_committed") as reader,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(tp.topic, value=b"4")
        producer.flush()
        found = health_after(reader, lv.Condition.OPEN_TRANSACTION)
        (one,) = found.partitions
        (transaction,) = one.transactions
        assert (transaction.transactional_id, transaction.first_offset) == (name, 3)
        assert (one.position, one.lag) == (3, 0)
        assert f"a transaction that begins at 3 is open: that of '{name}', producer id {transaction.producer_id}, epoch" in str(found)
        producer.commit_transaction()
        health_after(reader, lv.Condition.AT_END)


def test_offsets_that_wait_for_a_transaction_are_told(kafka: Any, tp: lv.TopicPartition) -> None:
    group = f"g-{uuid4().hex}"
    with (
        lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=f"t-{uuid4().hex}") as producer,
        consumer(kafka, tp, group_id=group, enable_auto_commit=False) as reader,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({tp: 2}, group)
        assert health_after(reader, lv.Condition.COMMITTED_UNSETTLED).partitions[0].position is None
        producer.commit_transaction()


@pytest.mark.parametrize("kafka", EVERYWHERE, indirect=True)
def test_what_does_not_exist_is_told(kafka: Any, tp: lv.TopicPartition) -> None:
    missing = lv.TopicPartition(tp.topic, 7)
    with consumer(kafka, tp, missing) as reader:
        deadline = time.monotonic() + PATIENCE_S
        while reader.health().condition is not lv.Condition.DOES_NOT_EXIST and time.monotonic() < deadline:
            try:
                reader.poll(0.2)
            except lv.errors.UnknownTopicOrPartitionError:
                break
        worst = reader.health().worst
        assert (worst.partition, worst.condition) == (missing, lv.Condition.DOES_NOT_EXIST)
        assert f"{missing} does not exist" in worst.detail
