"""M-B20: librdkafka's and aiokafka's transactions on the embedded broker, with and without KIP-890, read by both as committed data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import aiokafka
import aiokafka.errors
import confluent_kafka
import pytest

from levada.testing import EmbeddedKafka
from peer_clients import PATIENCE_S


@pytest.fixture(scope="module", params=[2, 0], ids=["tv2", "tv0"])
def broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(transaction_version=request.param, transaction_abort_timed_out_transaction_cleanup_interval_ms=100) as running:
        yield running


@pytest.fixture
def topic(broker: EmbeddedKafka) -> str:
    name = f"t-{uuid4().hex}"
    broker.create_topic(name)
    return name


only_with_kip_890 = pytest.mark.parametrize("broker", [2], indirect=True, ids=["tv2"])


# Readers


def read_by_librdkafka(broker: EmbeddedKafka, topic: str, isolation: str = "read_committed") -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "unused",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    found: list[bytes] = []
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, "no end within the test's patience"
            error = message.error()
            if error is None:
                found.append(message.value() or b"")
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                return found
            else:
                raise confluent_kafka.KafkaException(error)
    finally:
        consumer.close()


def read_by_aiokafka(broker: EmbeddedKafka, topic: str) -> list[bytes]:
    async def read() -> list[bytes]:
        partition = aiokafka.TopicPartition(topic, 0)
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            end = (await consumer.end_offsets([partition]))[partition]
            found: list[bytes] = []
            while await consumer.position(partition) < end:
                batches = await consumer.getmany(partition, timeout_ms=200)
                found += [record.value for record in batches.get(partition, [])]
            return found
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(read(), PATIENCE_S))


def check_committed(broker: EmbeddedKafka, topic: str, values: list[bytes]) -> None:
    assert read_by_librdkafka(broker, topic) == values
    assert read_by_aiokafka(broker, topic) == values


# librdkafka


@contextmanager
def librdkafka_producer(broker: EmbeddedKafka, transactional_id: str, **settings: Any) -> Iterator[confluent_kafka.Producer]:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": transactional_id, "log_level": 2, **settings}
    )
    producer.init_transactions(PATIENCE_S)
    try:
        yield producer
    finally:
        producer.purge()


def test_M_B20_T7_librdkafka_commits_and_aborts(broker: EmbeddedKafka, topic: str) -> None:
    with librdkafka_producer(broker, topic) as producer:
        for number in range(4):
            producer.begin_transaction()
            producer.produce(topic, b"%d" % number, partition=0)
            producer.flush(PATIENCE_S)
            if number % 2:
                producer.abort_transaction(PATIENCE_S)
            else:
                producer.commit_transaction(PATIENCE_S)
    check_committed(broker, topic, [b"0", b"2"])
    assert read_by_librdkafka(broker, topic, "read_uncommitted") == [b"%d" % number for number in range(4)]


@only_with_kip_890
def test_M_B20_T14_a_librdkafka_producer_is_fenced_by_its_successor(broker: EmbeddedKafka, topic: str) -> None:
    with librdkafka_producer(broker, topic) as zombie:
        zombie.begin_transaction()
        zombie.produce(topic, b"zombie", partition=0)
        zombie.flush(PATIENCE_S)
        with librdkafka_producer(broker, topic) as successor:
            with pytest.raises(confluent_kafka.KafkaException) as refused:
                zombie.commit_transaction(PATIENCE_S)
            assert refused.value.args[0].fatal()
            del refused  # Its traceback keeps the zombie, and that its connections.
            successor.begin_transaction()
            successor.produce(topic, b"successor", partition=0)
            successor.commit_transaction(PATIENCE_S)
    assert read_by_librdkafka(broker, topic) == [b"successor"]


@only_with_kip_890
def test_M_B20_T17_a_librdkafka_producer_that_is_too_slow_is_aborted(broker: EmbeddedKafka, topic: str) -> None:
    with librdkafka_producer(broker, topic) as producer:
        producer.begin_transaction()
        producer.produce(topic, b"late", partition=0)
        producer.flush(PATIENCE_S)
        broker.time_out_transaction(topic)
        with pytest.raises(confluent_kafka.KafkaException):
            producer.commit_transaction(PATIENCE_S)
    assert read_by_librdkafka(broker, topic) == []


@pytest.mark.parametrize("commit", [True, False])
def test_M_B20_T6_librdkafka_commits_offsets_in_a_transaction(broker: EmbeddedKafka, topic: str, commit: bool) -> None:
    group = f"g-{topic}"
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    place = confluent_kafka.TopicPartition(topic, 0, 7)
    try:
        with librdkafka_producer(broker, topic) as producer:
            producer.begin_transaction()
            producer.produce(topic, b"out", partition=0)
            producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), PATIENCE_S)
            if commit:
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.abort_transaction(PATIENCE_S)
        (committed,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], PATIENCE_S)
    finally:
        consumer.close()
    assert committed.offset == (7 if commit else confluent_kafka.OFFSET_INVALID)


# aiokafka


def with_aiokafka(
    broker: EmbeddedKafka, transactional_id: str, act: Callable[[aiokafka.AIOKafkaProducer], Coroutine[Any, Any, None]]
) -> None:
    async def run() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=transactional_id) as producer:
            await act(producer)

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def test_M_B20_T7_aiokafka_commits_and_aborts(broker: EmbeddedKafka, topic: str) -> None:
    async def act(producer: aiokafka.AIOKafkaProducer) -> None:
        for number in range(4):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"%d" % number, partition=0)
            await (producer.abort_transaction() if number % 2 else producer.commit_transaction())

    with_aiokafka(broker, topic, act)
    check_committed(broker, topic, [b"0", b"2"])


@only_with_kip_890
def test_M_B20_T14_an_aiokafka_producer_is_fenced_by_its_successor(broker: EmbeddedKafka, topic: str) -> None:
    async def act(zombie: aiokafka.AIOKafkaProducer) -> None:
        await zombie.begin_transaction()
        await zombie.send_and_wait(topic, b"zombie", partition=0)
        successor = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic)
        async with successor, successor.transaction():
            await successor.send_and_wait(topic, b"successor", partition=0)
        with pytest.raises(aiokafka.errors.ProducerFenced):
            await zombie.commit_transaction()

    with_aiokafka(broker, topic, act)
    assert read_by_librdkafka(broker, topic) == [b"successor"]


@only_with_kip_890
@pytest.mark.parametrize("commit", [True, False])
def test_M_B20_T6_aiokafka_commits_offsets_in_a_transaction(broker: EmbeddedKafka, topic: str, commit: bool) -> None:
    group = f"g-{topic}"
    place = aiokafka.TopicPartition(topic, 0)

    async def act(producer: aiokafka.AIOKafkaProducer) -> None:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"out", partition=0)
        await producer.send_offsets_to_transaction({place: 7}, group)
        await (producer.commit_transaction() if commit else producer.abort_transaction())

    with_aiokafka(broker, topic, act)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        (committed,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], PATIENCE_S)
    finally:
        consumer.close()
    assert committed.offset == (7 if commit else confluent_kafka.OFFSET_INVALID)
