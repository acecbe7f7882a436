"""Quotas that are used up: the embedded broker throttles when a real one does, and for as long (KIP-219, KIP-599)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from uuid import uuid4

import pytest

import levada as lv
from broker_kit import fetch_request, make_batch, produce_request
from kafka_cluster import KafkaCluster
from levada.error_codes import ErrorCode
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.testing import EmbeddedKafka
from share_kit import ShareMember
from share_side import Side

pytestmark = pytest.mark.kafka

PATIENCE_S = 20
RATE = 100_000
"""Bytes per second; ten times as much may be used at once."""
TOLERANCE_MS = 400
"""How far apart two throttle times may be: seconds of Kafka's window pass while a test asks."""


@pytest.fixture(scope="module")
def embedded_kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        yield running


@contextmanager
def limited(servers: str, **limits: float) -> Iterator[lv.KafkaClient]:
    """A client with quotas of its own, which its broker has learned of."""
    client_id = f"limited-{uuid4().hex}"
    entity = lv.ClientQuotaEntity(client_id=client_id)
    with lv.KafkaAdmin(bootstrap_servers=servers) as admin:
        admin.alter_client_quotas({entity: limits})
        deadline = time.monotonic() + PATIENCE_S
        while not admin.describe_client_quotas(lv.ClientQuotaFilter(client_id=client_id)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with lv.KafkaClient(bootstrap_servers=servers, client_id=client_id) as client:
            yield client
        admin.alter_client_quotas({entity: dict.fromkeys(limits)})


def close_to(expected: int) -> Any:
    return pytest.approx(expected, abs=TOLERANCE_MS) if expected else 0


def batch(size: int) -> bytes:
    return make_batch(b"v" * size, timestamp=int(time.time() * 1000))


@pytest.fixture
def topic(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka) -> str:
    """A topic with three batches, on both."""
    name = f"throttled-{uuid4().hex}"
    for kafka in (kafka44, embedded_kafka):
        kafka.create_topic(name, 1)
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, acks="all", batch_size=0, max_request_size=1_000_000) as producer:
            for _ in range(3):
                producer.send(name, bytes(600_000)).result()
    return name


def test_M_P8_a_producer_is_throttled_as_much(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka, topic: str) -> None:
    def told(kafka: Any) -> list[int]:
        with limited(kafka.bootstrap_servers, producer_byte_rate=RATE) as client:
            answers: list[Any] = [client.request(produce_request(topic, batch(size)), version=12) for size in (500_000, 490_000, 260_000)]
            assert {one.error_code for answer in answers for part in answer.responses for one in part.partition_responses} == {0}
            return [answer.throttle_time_ms for answer in answers]

    theirs, ours = told(kafka44), told(embedded_kafka)
    assert ours == [close_to(one) for one in theirs]
    assert ours[2] > 1_000


def test_M_P8_a_reader_is_throttled_as_much(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka, topic: str) -> None:
    def told(kafka: Any) -> list[tuple[int, list[bool]]]:
        with limited(kafka.bootstrap_servers, consumer_byte_rate=RATE) as client:
            answers = [client.request(fetch_request(topic, offset, max_bytes=600_000), version=12) for offset in (0, 1)]
            return [
                (answer.throttle_time_ms, [bool(one.records) for part in answer.responses for one in part.partitions]) for answer in answers
            ]

    theirs, ours = told(kafka44), told(embedded_kafka)
    assert ours == [(close_to(pause_ms), given) for pause_ms, given in theirs]
    assert ours[1][0] > 1_000


def test_M_P8_a_member_of_a_share_group_is_throttled(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka) -> None:
    for kafka in (kafka44, embedded_kafka):
        side = Side(kafka, f"throttled-{uuid4().hex[:8]}", partitions=1)
        for _ in range(3):
            assert not side.wire.ask(produce_request(side.topic, batch(600_000)), 12).responses[0].partition_responses[0].error_code
        member = ShareMember(side.group, "member", topics=[side.topic])
        with closing(side), limited(kafka.bootstrap_servers, consumer_byte_rate=RATE) as client:
            deadline, pause_ms = time.monotonic() + PATIENCE_S, 0
            while not member.has:
                assert time.monotonic() < deadline
                member.take(client.request(member.beat() if member.epoch else member.join(), version=1))
            while pause_ms < 1_000:
                assert time.monotonic() < deadline
                answer: Any = client.request(member.fetch(max_records=1), version=2)
                assert not answer.error_code
                member.follow()
                pause_ms = answer.throttle_time_ms


def test_M_P8_changes_of_topics_are_throttled_as_much(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka) -> None:
    def creation(partitions: int) -> CreateTopicsRequest:
        wanted = CreatableTopic(name=f"made-{uuid4().hex}", num_partitions=partitions, replication_factor=1)
        return CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)

    def told(kafka: Any) -> list[tuple[int, int]]:
        with limited(kafka.bootstrap_servers, controller_mutation_rate=2.0) as client:
            first_s = time.monotonic()
            first = client.request(creation(26), version=7)
            # The pause of the second request is shorter by the time that the first one took.
            passed_ms = int((time.monotonic() - first_s) * 1000)
            second = client.request(creation(1), version=7)
            assert second.throttle_time_ms > 0
            return [
                (first.throttle_time_ms, first.topics[0].error_code),
                (second.throttle_time_ms + passed_ms, second.topics[0].error_code),
            ]

    theirs, ours = told(kafka44), told(embedded_kafka)
    assert ours == [(close_to(pause_ms), code) for pause_ms, code in theirs]
    assert ours[1][1] == ErrorCode.THROTTLING_QUOTA_EXCEEDED
