"""What the producer offers beside send() and send_arrow(), through every face, on every broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import levada as lv
from face_kit import EVERYWHERE, face_and_broker
from levada.errors import AbortedError, FlushTimeout, Persisted, SerializationError

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


def test_K8_metadata_has_the_sizes_of_key_and_value(any_kafka: Any, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    called: list[tuple[int, int]] = []
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers) as producer:

        def sizes(value: bytes | str | None, key: bytes | None, **more: Any) -> tuple[int, int]:
            delivery = producer.send(topic, value, key, **more, on_delivery=lambda metadata, error: called.append(metadata[4:]))
            return delivery.result(timeout=PATIENCE_S)[4:]

        assert sizes(b"value", b"k") == (1, 5)
        assert sizes(None, b"") == (0, -1)
        assert sizes("schön", None, headers={"a": b"1"}) == (-1, 6)
        assert called == [(1, 5), (0, -1), (-1, 6)]


def test_many_records_are_sent_in_one_call(any_kafka: Any, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    many = [b"plain", "text", (b"k", b"v"), (None, "no key"), (b"k", None), (b"k", b"own", {"h": b"own"}), (None, b"none", None)]
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers) as producer:
        sent = producer.send_many(topic, iter(many), headers=[("h", b"all")], timestamp=7)
        assert producer.send_many(topic, []) == []
        producer.flush(timeout=PATIENCE_S)
    assert [delivery.result(timeout=0).offset for delivery in sent] == list(range(7))
    records = list(lv.scan(topic, bootstrap_servers=any_kafka.bootstrap_servers))
    assert {record.timestamp for record in records} == {7}
    assert [(record.key, record.value) for record in records] == [
        (None, b"plain"),
        (None, b"text"),
        (b"k", b"v"),
        (None, b"no key"),
        (b"k", None),
        (b"k", b"own"),
        (None, b"none"),
    ]
    assert [[tuple(header) for header in record.headers] for record in records] == [[("h", b"all")]] * 5 + [[("h", b"own")], []]


def test_many_records_end_with_one_that_cannot_be_sent(any_kafka: Any, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers) as producer:
        wrong: Any
        for wrong in (7, ("k", "v", {}, "more")):
            with pytest.raises((SerializationError, TypeError)) as raised:
                producer.send_many(topic, ["first", "second", wrong, "never"])
            assert raised.value.__notes__ == ["send_many(): the 2 records before this one were sent"]
        lone: Any
        for lone in (b"bytes", "text", {"a": 1}, 5):
            with pytest.raises(TypeError, match="a list of records"):
                producer.send_many(topic, lone)
    assert values(any_kafka, topic) == [b"first", b"second"] * 2
