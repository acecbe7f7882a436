"""What the producer offers beside send() and send_arrow(), through every face, on every broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import levada as lv
from face_kit import EVERYWHERE, face_and_broker
from levada.errors import AbortedError, FlushTimeout, Persisted

NewTopicName = Callable[..., str]
PATIENCE_S = 30


@pytest.fixture(params=EVERYWHERE)
def any_kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    """Every broker, through every face: `lv` is levada, its asyncio clients, or its clients in virtual time."""
    yield from face_and_broker(request, monkeypatch)


def values(kafka: Any, topic: str) -> list[Any]:
    return [record.value for record in lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers)]


def test_A23_records_are_given_up_and_the_producer_goes_on(any_kafka: Any, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, linger_ms=60_000) as producer:
        producer.partitions_for(topic)
        dropped = [producer.send(topic, b"dropped") for _ in range(3)]
        assert producer.abort_pending() == 3
        errors = [delivery.exception(timeout=PATIENCE_S) for delivery in dropped]
        assert all(isinstance(error, AbortedError) and error.persisted is Persisted.NO for error in errors)
        producer.send(topic, b"kept")
        producer.flush(timeout=PATIENCE_S)
    assert values(any_kafka, topic) == [b"kept"]


def test_A22_a_flush_without_time_says_how_many_records_remain(any_kafka: Any, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, linger_ms=60_000) as producer:
        producer.partitions_for(topic)
        for _ in range(5):
            producer.send(topic, b"v")
        with pytest.raises(FlushTimeout) as raised:
            producer.flush(timeout=0)
        assert raised.value.remaining == 5
        producer.flush(timeout=PATIENCE_S)
    assert len(values(any_kafka, topic)) == 5
