"""What the producer offers beside send() and send_arrow(), through every API, on every broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

import levada as lv
from api_kit import EVERYWHERE, api_and_broker, recreate
from levada.errors import (
    AbortedError,
    ClosedError,
    FlushTimeout,
    IllegalStateError,
    Persisted,
    RecordTooLargeError,
    SerializationError,
)
from levada.interceptors import ProducerInterceptor, ProducerRecord
from levada.types import RecordMetadata

NewTopicName = Callable[..., str]
PATIENCE_S = 30


@pytest.fixture(params=EVERYWHERE)
def any_kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    """Every broker, through every API: `lv` is levada, its asyncio clients, or its clients in virtual time."""
    yield from api_and_broker(request, monkeypatch)


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


class Recording(ProducerInterceptor):
    """Numbers what it sees in a header, and keeps what it is told."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.told: list[tuple[Any, ...]] = []
        self.closed = 0

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        headers: Any = list(record.headers or ())
        return record._replace(headers=[*headers, (self.name, b"%d" % len(headers))])

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, headers: Any) -> None:
        self.told.append((metadata.partition, metadata.offset, error, [name for name, _ in headers or ()]))

    def close(self) -> None:
        self.closed += 1


class Failing(Recording):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise ZeroDivisionError("on_send")

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, headers: Any) -> None:
        raise (ValueError if isinstance(error, SerializationError) else SystemExit)("on_acknowledgement")

    def close(self) -> None:
        raise ZeroDivisionError("close")


def test_K2_interceptors_see_each_record_and_its_outcome(any_kafka: Any, new_topic: NewTopicName, caplog: pytest.LogCaptureFixture) -> None:
    topic = new_topic(any_kafka)
    first, second = Recording("a"), Recording("b")
    called: list[int] = []
    settings: dict[str, Any] = {"interceptors": [first, Failing("x"), second], "max_request_size": 1000}
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, **settings) as producer:
        producer.send(topic, b"v", on_delivery=lambda metadata, error: called.append(len(first.told))).result(timeout=PATIENCE_S)
        assert first.told == second.told == [(0, 0, None, ["a", "b"])]
        assert called == [1]
        with pytest.raises(RecordTooLargeError) as raised:
            producer.send(topic, b"x" * 2000, partition=0).result(timeout=PATIENCE_S)
        assert first.told[1:] == second.told[1:] == [(0, -1, raised.value, ["a", "b"])]
        with pytest.raises(SerializationError) as refused:
            producer.send(topic, 7)
        assert first.told[2:] == second.told[2:] == [(-1, -1, refused.value, ["a", "b"])]
        with pytest.raises(IllegalStateError, match="interceptors see records one by one") as misused:
            producer.send_arrow(topic, [], value="v")
        assert misused.value.persisted is Persisted.NO
        assert first.closed == 0
    assert (first.closed, second.closed) == (1, 1)
    (record,) = lv.scan(topic, bootstrap_servers=any_kafka.bootstrap_servers)
    assert [tuple(header) for header in record.headers] == [("a", b"0"), ("b", b"1")]
    assert {record.exc_info[0].__name__ for record in caplog.records if record.exc_info and record.exc_info[0]} == {
        "ZeroDivisionError",
        "SystemExit",
        "ValueError",
    }


def test_K2_ctrl_c_in_an_interceptor_comes_out_of_send(embedded: Any, new_topic: NewTopicName) -> None:
    """Where send() raises, its own thread tells the interceptors."""

    class Interrupted(ProducerInterceptor):
        def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, headers: Any) -> None:
            raise KeyboardInterrupt

    topic = new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, interceptors=[Interrupted()]) as producer:
        with pytest.raises(KeyboardInterrupt):
            producer.send(topic, 7)
        assert producer.send(topic, b"7").result(PATIENCE_S).offset == 0


def test_K2_an_interceptor_that_returns_no_record_is_passed_over(
    any_kafka: Any, new_topic: NewTopicName, caplog: pytest.LogCaptureFixture
) -> None:
    class Forgetful(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return None  # type: ignore[return-value]

    topic = new_topic(any_kafka)
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, interceptors=[Forgetful()]) as producer:
        producer.send(topic, b"v").result(timeout=PATIENCE_S)
    assert values(any_kafka, topic) == [b"v"]
    assert "on_send() returned None, not a ProducerRecord" in caplog.text


def test_K24_what_was_handed_over_is_closed_with_the_producer(any_kafka: Any, new_topic: NewTopicName) -> None:
    class Upper:
        closed = 0

        def __call__(self, data: str) -> bytes:
            assert not self.closed
            return data.upper().encode()

        def close(self) -> None:
            self.closed += 1

    class LastPartition(Upper):
        def __call__(self, topic: Any, key: Any = None, count: int = 1) -> Any:
            assert not self.closed
            return count - 1

    topic = new_topic(any_kafka, partitions=3)
    both, chooses = Upper(), LastPartition()
    settings: dict[str, Any] = {"key_serializer": both, "value_serializer": both, "partitioner": chooses}
    producer = lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, **settings)
    sent = producer.send(topic, "v", "k")
    producer.close()
    producer.close()
    assert (both.closed, chooses.closed) == (1, 1)
    assert sent.result(timeout=0).partition == 2


def test_K26_the_calls_of_a_producer_from_its_start_to_its_end(any_kafka: Any, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka, partitions=2)
    group = f"group-of-{topic}"
    servers = any_kafka.bootstrap_servers
    with lv.KafkaProducer(bootstrap_servers=servers, transactional_id=topic, linger_ms=60_000) as producer:
        assert [info.partition for info in producer.partitions_for(topic)] == [0, 1]
        producer.init_transactions()
        producer.begin_transaction()
        # send() waits for metadata and memory only: with this linger.ms nothing is acknowledged before flush().
        sent = [producer.send(topic, value, partition=0) for value in ("1", "2")]
        assert not any(delivery.done() for delivery in sent)
        producer.flush(timeout=PATIENCE_S)
        assert [delivery.result(timeout=0).offset for delivery in sent] == [0, 1]
        producer.send_offsets_to_transaction({lv.TopicPartition(topic, 1): 7}, group)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(topic, "3", partition=0)
        producer.abort_transaction()
        assert producer.metrics().value("record-send-total", topic=topic) >= 2
    with pytest.raises(ClosedError):
        producer.send(topic, "4")
    # A coordinator answers EndTxn before consumers can read the records. This waits for them, or until the consumer's time is over.
    reading: dict[str, Any] = {
        "isolation_level": "read_committed",
        "auto_offset_reset": "earliest",
        "consumer_timeout_ms": PATIENCE_S * 1000,
    }
    with lv.KafkaConsumer(bootstrap_servers=servers, **reading) as consumer:
        consumer.assign([lv.TopicPartition(topic, 0)])
        assert [record.value for record in islice(consumer, 2)] == [b"1", b"2"]
    with lv.KafkaAdmin(bootstrap_servers=servers) as admin:
        committed_offset = admin.list_consumer_group_offsets(group)[lv.TopicPartition(topic, 1)]
        assert committed_offset is not None
        assert committed_offset.offset == 7


def test_K25_every_client_says_what_it_has_counted(any_kafka: Any, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    servers = any_kafka.bootstrap_servers
    with lv.KafkaProducer(bootstrap_servers=servers, client_id="counted") as producer:
        producer.send(topic, b"12345").result(timeout=PATIENCE_S)
        metrics = producer.metrics()
        assert metrics[lv.MetricName("record-send-total", "producer-metrics", (("client-id", "counted"),))] == 1
        assert metrics.value("record-send-total", topic=topic) == metrics.value("records-per-request-avg") == 1
        assert metrics.value("outgoing-byte-total") > metrics.value("byte-total", topic=topic) > 5
    with pytest.raises(ClosedError):
        producer.metrics()
    with lv.KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        tp = lv.TopicPartition(topic, 0)
        consumer.assign([tp])
        assert len(consumer.poll(timeout=PATIENCE_S)) == 1
        metrics = consumer.metrics()
        assert metrics.value("records-consumed-total") == 1
        assert metrics.value("records-lag", topic=topic, partition="0") == 0
    with lv.KafkaAdmin(bootstrap_servers=servers) as admin, lv.KafkaClient(bootstrap_servers=servers) as client:
        admin.list_topics()
        client.api_versions()
        for made in (admin, client):
            assert made.metrics().value("response-total") >= 1


def test_M_A24_a_topic_that_is_created_again_under_a_producer_is_written_from_its_start(any_kafka: Any, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers) as producer:
        for value in ("0", "1", "2"):
            producer.send(topic, value).result(timeout=PATIENCE_S)
        with lv.KafkaAdmin(bootstrap_servers=any_kafka.bootstrap_servers) as admin:
            recreate(admin, topic)
        offsets = [producer.send(topic, value).result(timeout=PATIENCE_S).offset for value in ("3", "4", "5")]
        assert offsets == [0, 1, 2]
    assert values(any_kafka, topic) == [b"3", b"4", b"5"]
