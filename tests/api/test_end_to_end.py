"""One suite for every broker: what goes in through the public names comes out of them, embedded, on Kafka 4.4 and on Kafka 3.9."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import levada as lv
from api_kit import EVERYWHERE, api_and_broker
from levada.errors import NoOffsetForPartitionError, TopicAlreadyExistsError, UnknownTopicOrPartitionError
from levada.record.batch import RecordBatch
from raw_fetch import batches_of

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NewTopicName = Callable[..., str]
PATIENCE_S = 30

Sent = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
SHAPES: dict[str, Sent] = {
    "plain": (b"key", b"value", []),
    "null key": (None, b"value", []),
    "null value": (b"key", None, []),
    "null both": (None, None, []),
    "empty key": (b"", b"value", []),
    "empty value": (b"key", b"", []),
    "every byte": (bytes(range(256)), bytes(reversed(range(256))), []),
    "headers": (b"key", b"value", [("trace", b"x"), ("trace", b"y"), ("empty", b""), ("null", None), ("schlüssel ✓", "wert ✓".encode())]),
    "headers alone": (None, None, [("only", b"header")]),
}


@pytest.fixture(params=EVERYWHERE)
def any_kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    """Every broker, through every API: `lv` is levada, its asyncio clients, or its clients in virtual time."""
    yield from api_and_broker(request, monkeypatch)


@pytest.fixture
def producer(any_kafka: Any) -> Iterator[lv.KafkaProducer]:
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers) as producer:
        yield producer


@contextmanager
def reading(kafka: Any, topic: str, partitions: int = 1, **settings: Any) -> Iterator[lv.KafkaConsumer]:
    """A consumer of the whole topic, from its beginning unless told otherwise."""
    with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, **{"auto_offset_reset": "earliest", **settings}) as consumer:
        consumer.assign([lv.TopicPartition(topic, partition) for partition in range(partitions)])
        yield consumer


def stored(kafka: Any, topic: str, partition: int = 0) -> list[RecordBatch]:
    """The batches of a partition as the broker keeps them."""
    found: list[RecordBatch] = (
        kafka.batches(topic, partition) if hasattr(kafka, "batches") else batches_of(kafka.bootstrap_servers, topic, partition)
    )
    return found


def take(consumer: lv.KafkaConsumer, count: int) -> list[lv.ConsumerRecord[Any, Any]]:
    """Poll until so many records have come, and not one more does."""
    found: list[lv.ConsumerRecord[Any, Any]] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records within {PATIENCE_S} s"
        found.extend(consumer.poll(timeout=0.5))
    assert len(found) == count
    return found


def number(record: lv.ConsumerRecord) -> int:
    assert record.value is not None
    return int(record.value)


def take_arrow(consumer: lv.KafkaConsumer, count: int, **arguments: Any) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    deadline = time.monotonic() + PATIENCE_S
    while sum(batch.num_rows for batch in batches) < count:
        assert time.monotonic() < deadline, f"{[batch.num_rows for batch in batches]} of {count} rows within {PATIENCE_S} s"
        batches.append(consumer.poll_arrow(timeout=0.5, **arguments))
    return pa.Table.from_batches([batch for batch in batches if batch.num_rows])


def header_rows(headers: Any) -> list[tuple[str, bytes | None]]:
    return [(entry["key"], entry["value"]) for entry in headers or []]


def test_N23_a_broker_is_reached_by_its_name(any_kafka: Any, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    with lv.KafkaAdmin(bootstrap_servers=any_kafka.bootstrap_servers.replace("127.0.0.1", "localhost")) as admin:
        assert topic in admin.list_topics(timeout=PATIENCE_S)


# Records


def test_every_shape_of_record_comes_back_as_it_was(any_kafka: Any, producer: lv.KafkaProducer, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    sent = list(SHAPES.values())
    deliveries = [producer.send(topic, key=key, value=value, headers=headers) for key, value, headers in sent]
    assert [delivery.result(timeout=PATIENCE_S).offset for delivery in deliveries] == list(range(len(sent)))

    with reading(any_kafka, topic) as consumer:
        records = take(consumer, len(sent))
    assert [(record.key, record.value, list(record.headers)) for record in records] == sent
    assert [(record.topic, record.partition, record.offset) for record in records] == [(topic, 0, n) for n in range(len(sent))]


def test_every_shape_of_record_comes_back_as_columns(any_kafka: Any, producer: lv.KafkaProducer, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    sent = list(SHAPES.values())
    for key, value, headers in sent:
        producer.send(topic, key=key, value=value, headers=headers)
    producer.flush(PATIENCE_S)

    with reading(any_kafka, topic) as consumer:
        table = take_arrow(consumer, len(sent), columns=["key", "value", "headers", "offset", "partition", "topic"])
    rows = table.to_pylist()
    assert [(row["key"], row["value"], header_rows(row["headers"])) for row in rows] == sent
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [(topic, 0, n) for n in range(len(sent))]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_keeps_records(any_kafka: Any, codec: Any, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    values = [f"value {n} ".encode() * (n % 40) for n in range(3000)]
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, compression_type=codec) as producer:
        deliveries = [producer.send(topic, key=str(n), value=value, headers=[("n", b"%d" % n)]) for n, value in enumerate(values)]
        assert deliveries[-1].result(timeout=PATIENCE_S).offset == len(values) - 1

    with reading(any_kafka, topic) as consumer:
        records = take(consumer, len(values))
    assert [record.value for record in records] == values
    assert [record.key for record in records] == [b"%d" % n for n in range(len(values))]
    assert records[-1].headers == [("n", b"2999")] or tuple(records[-1].headers) == (("n", b"2999"),)
    assert {int(batch.codec) for batch in stored(any_kafka, topic)} == {CODECS.index(codec)}


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_keeps_columns(any_kafka: Any, codec: Any, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    table = pa.table({"id": [f"id-{n % 7}" for n in range(20_000)], "payload": [f"payload {n} " * 3 for n in range(20_000)]})
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, compression_type=codec) as producer:
        report = producer.send_arrow(topic, table, key="id", value="payload").result(timeout=PATIENCE_S)
    assert (report.rows, report.failed) == (20_000, 0)

    with reading(any_kafka, topic) as consumer:
        found = take_arrow(consumer, 20_000, columns=["key", "value"])
    assert found["key"].to_pylist() == [text.encode() for text in table["id"].to_pylist()]
    assert found["value"].to_pylist() == [text.encode() for text in table["payload"].to_pylist()]


def test_records_of_a_megabyte(any_kafka: Any, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka, config={"max.message.bytes": 3_000_000})
    values = [bytes([n]) * 1_048_576 for n in range(8)]
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, max_request_size=3_000_000) as producer:
        deliveries = [producer.send(topic, value=value) for value in values]
        assert [delivery.result(timeout=PATIENCE_S).offset for delivery in deliveries] == list(range(8))

    with reading(any_kafka, topic) as consumer:
        assert [record.value for record in take(consumer, 8)] == values
    assert lv.scan(topic, bootstrap_servers=any_kafka.bootstrap_servers, columns=["value"]).to_table()["value"].to_pylist() == values


def test_text_is_sent_as_utf_8(any_kafka: Any, producer: lv.KafkaProducer, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    producer.send(topic, key="schlüssel", value="grün").result(timeout=PATIENCE_S)
    with reading(any_kafka, topic) as consumer:
        (record,) = take(consumer, 1)
    assert (record.key, record.value) == ("schlüssel".encode(), "grün".encode())


def test_serializers_at_both_ends(any_kafka: Any, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, value_serializer=lambda number: b"%d" % number) as producer:
        producer.send(topic, value=42).result(timeout=PATIENCE_S)
    with reading(any_kafka, topic, value_deserializer=int) as consumer:
        assert take(consumer, 1)[0].value == 42


# Timestamps

EPOCH_2020 = 1_577_836_800_000


def test_timestamps_of_the_sender(any_kafka: Any, producer: lv.KafkaProducer, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    before = int(time.time() * 1000)
    producer.send(topic, value=b"number", timestamp=EPOCH_2020)
    producer.send(topic, value=b"datetime", timestamp=datetime(2020, 1, 2, tzinfo=UTC))
    written = producer.send(topic, value=b"now").result(timeout=PATIENCE_S)
    after = int(time.time() * 1000)

    with reading(any_kafka, topic) as consumer:
        number, aware, now = take(consumer, 3)
    assert (number.timestamp, aware.timestamp) == (EPOCH_2020, EPOCH_2020 + 86_400_000)
    assert before <= now.timestamp <= after
    assert now.timestamp == written.timestamp
    assert {record.timestamp_type for record in (number, aware, now)} == {0}


def test_timestamps_of_the_broker(any_kafka: Any, producer: lv.KafkaProducer, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka, config={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    written = producer.send(topic, value=b"old", timestamp=EPOCH_2020).result(timeout=PATIENCE_S)

    with reading(any_kafka, topic) as consumer:
        (record,) = take(consumer, 1)
    assert record.timestamp_type == 1
    assert before - 1000 <= record.timestamp <= time.time() * 1000 + 1000
    assert written.timestamp == record.timestamp


def test_timestamps_as_a_column(any_kafka: Any, producer: lv.KafkaProducer, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    moments = [datetime(2020, 1, 1, tzinfo=UTC) + timedelta(milliseconds=n) for n in range(100)]
    table = pa.table({"at": pa.array(moments, pa.timestamp("ms", "UTC")), "payload": [b"x"] * 100})
    producer.send_arrow(topic, table, value="payload", timestamp="at").result(timeout=PATIENCE_S)

    found = lv.scan(topic, bootstrap_servers=any_kafka.bootstrap_servers, columns=["timestamp", "timestamp_type"]).to_table()
    assert found["timestamp"].type == pa.timestamp("ms", "UTC")
    assert found["timestamp"].to_pylist() == moments
    assert set(found["timestamp_type"].to_pylist()) == {0}


# Producing


def test_the_producer_is_idempotent_unless_told_otherwise(any_kafka: Any, producer: lv.KafkaProducer, new_topic: NewTopicName) -> None:
    topic, plain = new_topic(any_kafka), new_topic(any_kafka)
    for _ in range(3):
        producer.send(topic, value=b"x").result(timeout=PATIENCE_S)
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, enable_idempotence=False) as careless:
        careless.send(plain, value=b"x").result(timeout=PATIENCE_S)

    batches = stored(any_kafka, topic)
    assert len({batch.producer_id for batch in batches}) == 1
    assert batches[0].producer_id >= 0
    assert [batch.base_sequence for batch in batches] == [0, 1, 2]
    assert [batch.producer_id for batch in stored(any_kafka, plain)] == [-1]


def test_order_is_kept_in_every_partition(any_kafka: Any, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka, partitions=3)
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, batch_size=500, linger_ms=0) as producer:
        for n in range(3000):
            producer.send(topic, value=b"%d" % n, partition=n % 3)
        producer.flush(PATIENCE_S)

    with reading(any_kafka, topic, partitions=3) as consumer:
        records = take(consumer, 3000)
    for partition in range(3):
        assert [number(record) for record in records if record.partition == partition] == list(range(partition, 3000, 3))


def test_a_key_stays_in_its_partition_and_keyless_records_spread(any_kafka: Any, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka, partitions=4)
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, batch_size=200, linger_ms=0) as producer:
        keyed = [producer.send(topic, key=b"%d" % (n % 20), value=b"v") for n in range(200)]
        keyless = [producer.send(topic, value=b"x" * 50) for _ in range(400)]
        homes = [delivery.result(timeout=PATIENCE_S).partition for delivery in keyed]
        spread = {delivery.result(timeout=PATIENCE_S).partition for delivery in keyless}
    assert homes[:20] * 10 == homes
    assert len(spread) > 1


def test_callbacks_come_once_per_record_and_in_order(any_kafka: Any, producer: lv.KafkaProducer, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    called: list[tuple[int, Exception | None]] = []
    for _ in range(500):
        producer.send(topic, value=b"x", on_delivery=lambda metadata, error: called.append((metadata.offset, error)))
    producer.flush(PATIENCE_S)
    deadline = time.monotonic() + 5
    while len(called) < 500 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert called == [(offset, None) for offset in range(500)]


def test_closing_delivers_what_was_sent(any_kafka: Any, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        delivery = producer.send(topic, value=b"lingering")
        assert not delivery.done()
    assert delivery.result(timeout=0).offset == 0


def test_rows_go_to_their_partitions_and_report_where(any_kafka: Any, producer: lv.KafkaProducer, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka, partitions=3)
    table = pa.table({"home": pa.array([2, 0, 1, 2, 2, 0], pa.int32()), "payload": ["a", "b", "c", "d", "e", "f"]})
    delivery = producer.send_arrow(topic, table, value="payload", partition="home")
    delivery.result(timeout=PATIENCE_S)
    report = delivery.to_arrow().to_pylist()
    assert sorted((row["row"], row["partition"], row["offset"], row["error"]) for row in report) == [
        (0, 2, 0, None),
        (1, 0, 0, None),
        (2, 1, 0, None),
        (3, 2, 1, None),
        (4, 2, 2, None),
        (5, 0, 1, None),
    ]


def test_columns_and_records_agree_on_where_a_key_lives(any_kafka: Any, producer: lv.KafkaProducer, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka, partitions=7)
    keys = [f"user-{n}" for n in range(100)]
    by_record = [producer.send(topic, key=key, value=b"r").result(timeout=PATIENCE_S).partition for key in keys]
    delivery = producer.send_arrow(topic, pa.table({"key": keys, "value": ["c"] * 100}), key="key", value="value")
    delivery.result(timeout=PATIENCE_S)
    by_column = {row["row"]: row["partition"] for row in delivery.to_arrow().to_pylist()}
    assert [by_column[n] for n in range(100)] == by_record


def test_columns_with_headers_and_nulls(any_kafka: Any, producer: lv.KafkaProducer, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    headers = pa.array([[("a", b"1"), ("a", None)], None, []], pa.list_(header))
    table = pa.table({"k": [b"k", None, b""], "v": pa.array([None, b"v", b""], pa.binary()), "h": headers})
    producer.send_arrow(topic, table, key="k", value="v", headers="h").result(timeout=PATIENCE_S)
    with reading(any_kafka, topic) as consumer:
        records = take(consumer, 3)
    assert [(record.key, record.value, list(record.headers)) for record in records] == [
        (b"k", None, [("a", b"1"), ("a", None)]),
        (None, b"v", []),
        (b"", b"", []),
    ]


# Consuming


@pytest.fixture
def numbers(any_kafka: Any, producer: lv.KafkaProducer, new_topic: NewTopicName) -> str:
    """A topic with 1000 records in one partition, a second apart in time, valued 0 to 999."""
    topic = new_topic(any_kafka)
    for n in range(1000):
        producer.send(topic, value=b"%d" % n, timestamp=EPOCH_2020 + 1000 * n)
    producer.flush(PATIENCE_S)
    return topic


def test_seek_moves_forth_and_back(any_kafka: Any, numbers: str) -> None:
    tp = lv.TopicPartition(numbers, 0)
    with reading(any_kafka, numbers) as consumer:
        consumer.seek(tp, 990)
        assert [number(record) for record in take(consumer, 10)] == list(range(990, 1000))
        assert consumer.position(tp) == 1000
        consumer.seek(tp, 5)
        assert number(consumer.poll(timeout=10, max_records=1)[0]) == 5
        assert consumer.position(tp) == 6
        consumer.seek_to_end()
        assert consumer.position(tp) == 1000
        consumer.seek_to_beginning()
        assert number(consumer.poll(timeout=10, max_records=1)[0]) == 0


def test_a_poll_gives_at_most_what_was_asked_for(any_kafka: Any, numbers: str) -> None:
    with reading(any_kafka, numbers) as consumer:
        sizes = [len(consumer.poll(timeout=10, max_records=300)) for _ in range(3)]
        assert sizes == [300, 300, 300]
        assert consumer.poll_arrow(timeout=10, max_records=60, columns=["offset"])["offset"].to_pylist() == list(range(900, 960))
        assert len(consumer.poll(timeout=10)) == 40
        started = time.monotonic()
        assert len(consumer.poll(timeout=0.3)) == 0
        assert 0.25 <= time.monotonic() - started < 5


def test_iteration(any_kafka: Any, numbers: str) -> None:
    seen = []
    with reading(any_kafka, numbers) as consumer:
        for record in consumer:
            seen.append(number(record))
            if len(seen) == 1000:
                break
    assert seen == list(range(1000))


def test_a_loop_over_partitions_with_ends_ends(any_kafka: Any, producer: lv.KafkaProducer, numbers: str) -> None:
    tp = lv.TopicPartition(numbers, 0)
    with reading(any_kafka, numbers) as consumer:
        end = consumer.end_offsets([tp])[tp]
        producer.send(numbers, b"later").result(timeout=PATIENCE_S)
        consumer.assign([tp], ends={tp: end})
        consumer.seek(tp, end - 7)
        assert [record.offset for record in consumer] == list(range(end - 7, end))
        assert consumer.finished() == {tp}
        consumer.assign([tp])
        assert next(iter(consumer)).value == b"later"


def test_a_paused_partition_waits_where_it_is(any_kafka: Any, producer: lv.KafkaProducer, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka, partitions=2)
    left, right = lv.TopicPartition(topic, 0), lv.TopicPartition(topic, 1)
    for partition in (0, 1) * 50:
        producer.send(topic, value=b"x", partition=partition)
    producer.flush(PATIENCE_S)
    with reading(any_kafka, topic, partitions=2) as consumer:
        consumer.pause([left])
        assert set(consumer.paused()) == {left}
        assert {record.partition for record in take(consumer, 50)} == {1}
        assert len(consumer.poll(timeout=0.3)) == 0
        consumer.resume([left])
        assert [record.offset for record in take(consumer, 50)] == list(range(50))
        assert set(consumer.assignment()) == {left, right}


def test_offsets_by_end_and_by_time(any_kafka: Any, numbers: str, new_topic: NewTopicName) -> None:
    tp, empty = lv.TopicPartition(numbers, 0), lv.TopicPartition(new_topic(any_kafka), 0)
    with lv.KafkaConsumer(bootstrap_servers=any_kafka.bootstrap_servers) as consumer:
        assert dict(consumer.beginning_offsets([tp, empty])) == {tp: 0, empty: 0}
        assert dict(consumer.end_offsets([tp, empty])) == {tp: 1000, empty: 0}
        by_number: Any = consumer.offsets_for_times({tp: EPOCH_2020 + 499_500, empty: EPOCH_2020})
        assert (by_number[tp].offset, by_number[tp].timestamp) == (500, EPOCH_2020 + 500_000)
        assert by_number[empty] is None
        first: Any = consumer.offsets_for_times({tp: datetime(2020, 1, 1, tzinfo=UTC)})[tp]
        assert first.offset == 0
        assert consumer.offsets_for_times({tp: EPOCH_2020 + 10_000_000})[tp] is None


def test_a_position_that_does_not_exist_is_reset_as_configured(any_kafka: Any, numbers: str, producer: lv.KafkaProducer) -> None:
    tp = lv.TopicPartition(numbers, 0)
    with reading(any_kafka, numbers, auto_offset_reset="latest") as consumer:
        assert consumer.position(tp) == 1000
        producer.send(numbers, value=b"1000").result(timeout=PATIENCE_S)
        assert [number(record) for record in take(consumer, 1)] == [1000]
        consumer.seek(tp, 5_000_000)
        assert len(consumer.poll(timeout=1)) == 0
        assert consumer.position(tp) == 1001
    with reading(any_kafka, numbers, auto_offset_reset="none") as consumer, pytest.raises(NoOffsetForPartitionError, match=f"{numbers}-0"):
        consumer.poll(timeout=PATIENCE_S)


def test_records_arrive_while_a_poll_waits(any_kafka: Any, producer: lv.KafkaProducer, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka)
    with reading(any_kafka, topic) as consumer:
        assert len(consumer.poll(timeout=0.5)) == 0
        producer.send(topic, value=b"late")
        started = time.monotonic()
        assert [record.value for record in consumer.poll(timeout=10)] == [b"late"]
        assert time.monotonic() - started < 2


def test_two_topics_in_one_assignment(any_kafka: Any, producer: lv.KafkaProducer, new_topic: NewTopicName) -> None:
    first, second = new_topic(any_kafka), new_topic(any_kafka, partitions=2)
    for topic in (first, second) * 100:
        producer.send(topic, value=topic)
    producer.flush(PATIENCE_S)
    with lv.KafkaConsumer(bootstrap_servers=any_kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([lv.TopicPartition(first, 0), lv.TopicPartition(second, 0), lv.TopicPartition(second, 1)])
        records = take(consumer, 200)
    assert sorted(record.topic for record in records) == sorted([first, second] * 100)
    assert all(record.value == record.topic.encode() for record in records)


# Scans


def test_a_scan_ends_by_itself(any_kafka: Any, numbers: str) -> None:
    servers = any_kafka.bootstrap_servers
    assert [number(record) for record in lv.scan(numbers, bootstrap_servers=servers)] == list(range(1000))
    assert sum(batch.num_rows for batch in lv.scan(numbers, bootstrap_servers=servers).arrow()) == 1000
    table = lv.scan(numbers, bootstrap_servers=servers, start="earliest", end="latest", columns=["offset", "value"]).to_table()
    assert table.column_names == ["offset", "value"]
    assert table["offset"].to_pylist() == list(range(1000))


def test_a_scan_between_offsets_and_between_times(any_kafka: Any, numbers: str) -> None:
    def offsets(**bounds: Any) -> list[int]:
        scan = lv.scan(numbers, bootstrap_servers=any_kafka.bootstrap_servers, columns=["offset"], **bounds)
        found: list[int] = scan.to_table()["offset"].to_pylist()
        return found

    start = datetime(2020, 1, 1, tzinfo=UTC)
    assert offsets(start={0: 10}, end={0: 20}) == list(range(10, 20))
    assert offsets(start={lv.TopicPartition(numbers, 0): 995}) == list(range(995, 1000))
    assert offsets(start=start + timedelta(seconds=900), end=start + timedelta(seconds=910)) == list(range(900, 910))
    assert offsets(start="latest") == []


def test_a_scan_of_an_empty_topic_and_of_several_partitions(any_kafka: Any, producer: lv.KafkaProducer, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka, partitions=3)
    assert list(lv.scan(topic, bootstrap_servers=any_kafka.bootstrap_servers)) == []
    assert lv.scan(topic, bootstrap_servers=any_kafka.bootstrap_servers).to_table().num_rows == 0
    for n in range(90):
        producer.send(topic, value=b"%d" % n, partition=n % 2)
    producer.flush(PATIENCE_S)
    found = lv.scan(topic, bootstrap_servers=any_kafka.bootstrap_servers).to_table()
    assert sorted(int(value) for value in found["value"].to_pylist()) == list(range(90))
    assert set(found["partition"].to_pylist()) == {0, 1}


def test_a_scan_does_not_run_after_a_writer(any_kafka: Any, numbers: str, producer: lv.KafkaProducer) -> None:
    seen = 0
    for _ in lv.scan(numbers, bootstrap_servers=any_kafka.bootstrap_servers):
        seen += 1
        producer.send(numbers, value=b"one more")
    assert seen == 1000


# Administration


def test_topics_are_created_described_listed_and_deleted(any_kafka: Any) -> None:
    name = f"administered-{time.time_ns()}"
    with lv.KafkaAdmin(bootstrap_servers=any_kafka.bootstrap_servers) as admin:
        admin.create_topics([lv.NewTopic(name, partitions=3, config={"max.message.bytes": "12345"})])

        def wait_until_listed(listed: bool) -> None:
            # The controller makes the change, and the brokers learn of it a little later.
            deadline = time.monotonic() + PATIENCE_S
            while (name in admin.list_topics()) is not listed:
                assert time.monotonic() < deadline
                time.sleep(0.05)

        wait_until_listed(True)
        assert len(admin.describe_topics([name])[name].partitions) == 3
        with pytest.raises(TopicAlreadyExistsError, match=name):
            admin.create_topics([lv.NewTopic(name)])
        admin.delete_topics([name])
        wait_until_listed(False)
        with pytest.raises(UnknownTopicOrPartitionError, match=name):
            admin.delete_topics([name])


def test_the_cluster_is_described(any_kafka: Any) -> None:
    with lv.KafkaAdmin(bootstrap_servers=any_kafka.bootstrap_servers) as admin:
        cluster = admin.describe_cluster()
    assert [node.address for node in cluster.nodes] == any_kafka.bootstrap_servers.split(",")
    assert cluster.cluster_id


def test_K25_clients_know_partitions_and_topics(any_kafka: Any, producer: lv.KafkaProducer, new_topic: NewTopicName) -> None:
    topic = new_topic(any_kafka, partitions=5)
    assert sorted(info.partition for info in producer.partitions_for(topic)) == list(range(5))
    with lv.KafkaConsumer(bootstrap_servers=any_kafka.bootstrap_servers) as consumer:
        assert sorted(info.partition for info in consumer.partitions_for(topic)) == list(range(5))
        assert topic in consumer.list_topics()
