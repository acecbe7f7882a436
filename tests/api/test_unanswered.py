"""A broker that takes requests of one API and never answers them: every call ends, at most a second after its time (M-B10, M-P5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import levada as lv
from levada.errors import KafkaError
from levada.testing import EmbeddedKafka

LIMIT_S = 1.0
GRACE_S = 1.0
"""What a call may take beyond its time; the machine is slow in bursts, so the tests allow twice that."""
SHORT: dict[str, Any] = {"request_timeout_ms": 400, "default_api_timeout_ms": 1000}
TP = lv.TopicPartition("t", 0)


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=1) as kafka:
        kafka.create_topic("t", 1)
        yield kafka


def send(address: str) -> object:
    settings: dict[str, Any] = {"request_timeout_ms": 400, "delivery_timeout_ms": 1000, "max_block_ms": 1000, "linger_ms": 0}
    producer = lv.KafkaProducer(bootstrap_servers=address, **settings)
    try:
        return producer.send("t", b"v").exception(timeout=10)
    finally:
        producer.close(timeout=0)


def consume(call: Callable[[lv.KafkaConsumer[Any, Any]], object]) -> Callable[[str], object]:
    def run(address: str) -> object:
        with lv.KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest", **SHORT) as consumer:
            consumer.assign([TP])
            return call(consumer)

    return run


def administrate(call: Callable[[lv.KafkaAdmin], object]) -> Callable[[str], object]:
    def run(address: str) -> object:
        with lv.KafkaAdmin(bootstrap_servers=address, **SHORT) as admin:
            return call(admin)

    return run


CALLS: dict[str, tuple[str, Callable[[str], object]]] = {
    "send, ApiVersions": ("ApiVersions", send),
    "send, Metadata": ("Metadata", send),
    "send, InitProducerId": ("InitProducerId", send),
    "send, Produce": ("Produce", send),
    "position, ListOffsets": ("ListOffsets", consume(lambda consumer: consumer.position(TP))),
    "end_offsets, ListOffsets": ("ListOffsets", consume(lambda consumer: consumer.end_offsets([TP]))),
    "partitions_for, Metadata": ("Metadata", consume(lambda consumer: consumer.partitions_for("t"))),
    "create_topics, CreateTopics": ("CreateTopics", administrate(lambda admin: admin.create_topics([lv.NewTopic("new")]))),
    "list_topics, Metadata": ("Metadata", administrate(lambda admin: admin.list_topics())),
    "list_topics, ApiVersions": ("ApiVersions", administrate(lambda admin: admin.list_topics())),
}


@pytest.mark.parametrize("case", CALLS)
def test_M_B10_a_call_that_is_never_answered_ends_with_an_error(kafka: EmbeddedKafka, case: str) -> None:
    api, call = CALLS[case]
    for _ in range(50):
        kafka.faults.drop_response(api)
    started = time.monotonic()
    try:
        outcome = call(kafka.bootstrap_servers)
    except KafkaError as error:
        outcome = error
    assert isinstance(outcome, KafkaError)
    assert time.monotonic() - started < LIMIT_S + 2 * GRACE_S


def test_M_B10_a_poll_that_is_never_answered_ends_in_time(kafka: EmbeddedKafka) -> None:
    for _ in range(50):
        kafka.faults.drop_response("Fetch")
    with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest", request_timeout_ms=400) as consumer:
        consumer.assign([TP])
        started = time.monotonic()
        assert not list(consumer.poll(timeout=LIMIT_S))
        assert time.monotonic() - started < LIMIT_S + 2 * GRACE_S
