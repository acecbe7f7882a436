"""KafkaConsumer with real threads and sockets: what virtual time cannot show."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from levada import KafkaConsumer, TopicPartition
from levada.errors import ClosedError, ConcurrentUseError, IllegalStateError, KafkaError, RecordDeserializationError, WakeupError
from levada.testing import EmbeddedKafka

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t", 2)
        yield kafka


def write(kafka: EmbeddedKafka, values: list[bytes | None], partition: int = 0, **settings: Any) -> None:
    """Write by a foreign client, so that a misunderstanding of ours is not mirrored."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **settings})
    for value in values:
        producer.produce("t", value=value, key=b"k", partition=partition, headers=[("h", b"1")])
    assert producer.flush(10) == 0


@pytest.fixture
def consumer(kafka: EmbeddedKafka) -> Iterator[KafkaConsumer]:
    with KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0, T1])
        yield consumer


def meanwhile(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_another_client_wrote_is_read(kafka: EmbeddedKafka, consumer: KafkaConsumer, codec: str) -> None:
    sent = [b"%d" % n * (n % 50) for n in range(500)]
    settings: dict[str, Any] = {"compression.type": codec}
    write(kafka, [*sent, None], **settings)
    found: list[Any] = []
    while len(found) < 501:
        found += consumer.poll(timeout=5)
    assert [record.value for record in found] == [*sent, None]
    assert {(record.key, tuple(record.headers)) for record in found} == {(b"k", (("h", b"1"),))}
    assert [record.offset for record in found] == list(range(501))


def test_a_batch_knows_its_partitions(kafka: EmbeddedKafka, consumer: KafkaConsumer) -> None:
    write(kafka, [b"a", b"b"], 0)
    write(kafka, [b"c"], 1)
    batch = consumer.poll(timeout=5)
    while len(batch) < 3:
        batch.extend(consumer.poll(timeout=5))
    assert set(batch.partitions) == {T0, T1}
    assert [record.value for record in batch.records(T0)] == [b"a", b"b"]


def test_F1_a_second_thread_is_refused_while_the_first_is_inside(consumer: KafkaConsumer) -> None:
    inside = threading.Event()
    polled: list[object] = []

    def poll() -> None:
        inside.set()
        polled.append(consumer.poll(timeout=1.5))

    thread = meanwhile(poll)
    inside.wait()
    time.sleep(0.2)
    with pytest.raises(ConcurrentUseError, match="another thread"):
        consumer.position(T0)
    thread.join()
    assert polled == [[]]
    assert consumer.position(T0) == 0


def test_F1_wakeup_ends_a_poll_from_another_thread(consumer: KafkaConsumer) -> None:
    def wake() -> None:
        time.sleep(0.3)
        consumer.wakeup()

    thread = meanwhile(wake)
    started = time.monotonic()
    with pytest.raises(WakeupError):
        consumer.poll(timeout=30)
    assert time.monotonic() - started < 3
    thread.join()
    assert consumer.poll(timeout=0) == []


def test_a_record_that_arrives_ends_the_wait(kafka: EmbeddedKafka, consumer: KafkaConsumer) -> None:
    assert consumer.poll(timeout=0.2) == []

    def later() -> None:
        time.sleep(0.3)
        write(kafka, [b"late"])

    thread = meanwhile(later)
    started = time.monotonic()
    assert [record.value for record in consumer.poll(timeout=30)] == [b"late"]
    assert time.monotonic() - started < 5
    thread.join()


def test_leaving_a_loop_loses_no_record(kafka: EmbeddedKafka, consumer: KafkaConsumer) -> None:
    write(kafka, [b"%d" % n for n in range(10)])
    seen = []
    for stop_at in (3, 7, 10):
        for record in consumer:
            seen.append(record.value)
            if len(seen) == stop_at:
                break
    assert seen == [b"%d" % n for n in range(10)]


def test_an_iterator_that_is_kept_goes_on_after_what_was_polled_meanwhile(kafka: EmbeddedKafka, consumer: KafkaConsumer) -> None:
    write(kafka, [b"%d" % n for n in range(10)])
    records = iter(consumer)
    assert next(records).offset == 0
    assert consumer.position(T0) == 1
    assert next(records).offset == 1
    assert [record.offset for record in consumer.poll(5, max_records=3)] == [2, 3, 4]
    assert next(records).offset == 5


def test_no_column_at_all_is_refused(kafka: EmbeddedKafka, consumer: KafkaConsumer) -> None:
    write(kafka, [b"one"])
    with pytest.raises(ValueError, match="name at least one"):
        consumer.poll_arrow(5, columns=[])
    assert consumer.position(T0) == 0


def test_a_seek_within_a_loop_takes_effect_with_the_next_record(kafka: EmbeddedKafka, consumer: KafkaConsumer) -> None:
    write(kafka, [b"%d" % n for n in range(10)])
    seen = []
    for record in consumer:
        seen.append(int(record.value or b""))
        if seen == [0, 1]:
            consumer.seek(T0, 8)
        if len(seen) == 4:
            break
    assert seen == [0, 1, 8, 9]


def test_F27_a_loop_can_step_over_a_record_that_does_not_deserialize(kafka: EmbeddedKafka) -> None:
    write(kafka, [b"1", b"two", b"3"])
    with KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest", value_deserializer=int) as consumer:
        consumer.assign([T0])
        found: list[int | None] = []
        while len(found) < 2:
            try:
                found += [record.value for record in consumer.poll(timeout=5)]
            except RecordDeserializationError as poison:
                assert (poison.record.offset, poison.record.value) == (1, b"two")
                consumer.seek(T0, poison.record.offset + 1)
        assert found == [1, 3]


def test_columns_and_records_may_take_turns(kafka: EmbeddedKafka, consumer: KafkaConsumer) -> None:
    pytest.importorskip("pyarrow")
    write(kafka, [b"%d" % n for n in range(100)])
    values: list[bytes | None] = []
    while len(values) < 100:
        values += [record.value for record in consumer.poll(timeout=5, max_records=7)]
        values += consumer.poll_arrow(timeout=5 if len(values) < 100 else 0, max_records=11, columns=["value"])["value"].to_pylist()
    assert values == [b"%d" % n for n in range(100)]


def test_an_arrow_batch_without_rows_has_its_schema(consumer: KafkaConsumer) -> None:
    pytest.importorskip("pyarrow")
    nothing = consumer.poll_arrow(timeout=0, columns=["offset", "headers"])
    assert (nothing.num_rows, nothing.schema.names) == (0, ["offset", "headers"])
    with pytest.raises(ValueError, match="unknown column 'vale'"):
        consumer.poll_arrow(timeout=0, columns=["vale"])


def test_limits_that_cannot_be_are_refused(consumer: KafkaConsumer) -> None:
    with pytest.raises(ValueError, match="max_records must be at least 1"):
        consumer.poll(max_records=0)
    with pytest.raises(IllegalStateError, match="there is nothing to read"):
        consumer.assign([])
        consumer.poll()


def test_a_consumer_comes_and_goes_quickly_and_leaves_nothing(kafka: EmbeddedKafka) -> None:
    before = threading.active_count()
    for _ in range(5):
        with KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
            consumer.assign([T0])
            consumer.poll(timeout=0.05)
            started = time.monotonic()
        assert time.monotonic() - started < 1
        with pytest.raises(ClosedError):
            consumer.poll()
        consumer.close()
    assert threading.active_count() == before


def test_a_read_ahead_answer_does_not_outlive_close(kafka: EmbeddedKafka) -> None:
    write(kafka, [b"x" * 1000] * 1000)
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest", max_partition_fetch_bytes=10_000)
    consumer.assign([T0])
    consumer.poll(timeout=5)
    consumer.close()
    with pytest.raises(KafkaError, match="closed"):
        consumer.position(T0)


def test_M_P5_polls_that_do_not_wait_get_on_all_the_same(kafka: EmbeddedKafka) -> None:
    write(kafka, [b"a"], 0)
    write(kafka, [b"b"], 1)
    with KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        assert consumer.poll(timeout=5)
        consumer.pause([T0])
        time.sleep(0.7)  # The last fetch is answered; now nothing happens unless somebody makes it.
        consumer.assign([T0, T1])
        time.sleep(0.1)
        deadline = time.monotonic() + 5
        found: list[Any] = []
        while not found and time.monotonic() < deadline:
            found += consumer.poll(timeout=0)
            time.sleep(0.01)
        assert [record.value for record in found] == [b"b"]


def test_E10_a_consumer_whose_fetch_sessions_are_evicted_reads_on(kafka: EmbeddedKafka) -> None:
    with KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest", fetch_max_wait_ms=50) as consumer:
        consumer.assign([T0])
        for value in (b"0", b"1", b"2"):
            write(kafka, [value])
            assert [record.value for record in consumer.poll(timeout=20)] == [value]
            kafka.forget_fetch_sessions()
