"""What a task does with its range, against a consumer without a network (spark.md 1.1: failOnDataLoss)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import pyarrow as pa
import pytest

import levada as lv
from levada.errors import (
    DataLossError,
    LogTruncationError,
    OffsetOutOfRangeError,
    TimeoutError,
    TopicRecreatedError,
    UnknownTopicOrPartitionError,
)
from levada.spark.options.options import source_options
from levada.spark.pyspark_versions import arrow_schema
from levada.spark.schema import record_schema, slices
from levada.spark.source import range_reader
from levada.spark.source.planning import Span, TaskSpans
from levada.spark.source.range_reader import read
from levada.testing import EmbeddedKafka
from levada.types import TopicPartition
from spark_sink import close_idle

TP = TopicPartition("t", 0)
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("timestamp_type", pa.int32()),
    ]
)


class FakeConsumer:
    """A log of one partition: its first offset, the offset after its last, and gaps without records."""

    def __init__(self, first: Any, after_last: Any, gaps: Any = (), step: Any = 4) -> None:
        self.first, self.after_last, self.gaps, self.step = first, after_last, set(gaps), step
        self.at: Any = None
        self.end: Any = None
        self.assigned: list[Any] = []
        self.fault: Any = None

    def assign(self, partitions: Any, ends: Any = None) -> None:
        self.assigned.append(list(partitions))
        self.end = (ends or {}).get(TP)

    def seek(self, tp: Any, offset: Any) -> None:
        self.at = offset

    def position(self, tp: Any) -> Any:
        return self.at

    def finished(self) -> Any:
        return {TP} if self.at >= self.end else set()

    def beginning_offsets(self, tps: Any) -> Any:
        return {TP: self.first}

    def end_offsets(self, tps: Any, timeout: Any = None) -> Any:
        return {TP: self.after_last}

    def poll_arrow(self, *, timeout: Any, max_records: Any, max_bytes: Any, columns: Any) -> Any:
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        if not self.first <= self.at <= self.after_last:
            raise OffsetOutOfRangeError("t-0", partition=TP, offset=self.at)
        until = min(self.at + self.step, self.after_last, self.end)
        offsets = [offset for offset in range(self.at, until) if offset not in self.gaps]
        self.at = until
        rows = [
            {"value": b"%d" % offset, "topic": "t", "partition": 0, "offset": offset, "timestamp": 0, "timestamp_type": 0}
            for offset in offsets
        ]
        return pa.RecordBatch.from_pylist(rows, schema=SCHEMA).select(columns)


@pytest.fixture
def read_with(monkeypatch: Any) -> Any:
    def run(consumer: Any, start: Any, end: Any, fail_on_data_loss: Any = True) -> Any:
        @contextmanager
        def reuse(settings: Any) -> Any:
            yield consumer

        monkeypatch.setattr(range_reader, "reused_consumer", reuse)
        given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "failOnDataLoss": str(fail_on_data_loss)}
        given.update({"kafkaConsumer.pollTimeoutMs": "10", "fetchOffset.retryIntervalMs": "0"})
        batches = list(read(TaskSpans((Span(TP, start, end),)), record_schema(False), source_options(given, streaming=True)))
        assert all(batch.schema.equals(arrow_schema(record_schema(False)), check_metadata=True) for batch in batches)
        return [offset for batch in batches for offset in batch.column("offset").to_pylist()]

    return run


def test_Y1_a_range_is_read_to_its_end_and_no_further(read_with: Any) -> None:
    assert read_with(FakeConsumer(0, 100, step=4), 10, 21) == list(range(10, 21))


def test_Y1_gaps_are_no_loss(read_with: Any) -> None:
    assert read_with(FakeConsumer(0, 100, gaps=range(12, 20)), 10, 21) == [10, 11, 20]


def test_a_range_may_end_in_a_gap(read_with: Any) -> None:
    assert read_with(FakeConsumer(0, 100, gaps=range(15, 40)), 10, 21) == [10, 11, 12, 13, 14]


def test_a_consumer_that_outlives_the_task_fetches_nothing_more(read_with: Any) -> None:
    consumer = FakeConsumer(0, 100)
    read_with(consumer, 0, 5)
    assert consumer.assigned == [[TP], []]


def test_Y2_records_below_the_log_start_are_lost(read_with: Any, caplog: Any) -> None:
    with pytest.raises(DataLossError, match="t-0 at offset 3, reading 3 to 9: the log begins at offset 6"):
        read_with(FakeConsumer(6, 100), 3, 9)
    with caplog.at_level(logging.WARNING):
        assert read_with(FakeConsumer(6, 100), 3, 9, fail_on_data_loss=False) == [6, 7, 8]
    assert "the log begins at offset 6, retention has deleted the records before; the query continues" in caplog.text


def test_a_range_that_is_wholly_gone_is_empty(read_with: Any) -> None:
    assert read_with(FakeConsumer(50, 100), 3, 9, fail_on_data_loss=False) == []


def test_a_log_that_ends_before_the_range_does_was_made_anew(read_with: Any) -> None:
    with pytest.raises(DataLossError, match="t-0 at offset 7, reading 3 to 9: the log ends at offset 7; the topic was probably deleted"):
        read_with(FakeConsumer(0, 7), 3, 9)
    assert read_with(FakeConsumer(0, 7), 3, 9, fail_on_data_loss=False) == [3, 4, 5, 6]


def test_Y2_a_log_that_ends_before_the_range_begins_was_made_anew(read_with: Any) -> None:
    with pytest.raises(DataLossError, match="after the end of the log"):
        read_with(FakeConsumer(0, 2), 3, 9)
    assert read_with(FakeConsumer(0, 2), 3, 9, fail_on_data_loss=False) == []


def test_silence_ends_with_a_timeout(read_with: Any) -> None:
    class Silent(FakeConsumer):
        def poll_arrow(self, **_: Any) -> Any:
            time.sleep(0.005)
            return pa.RecordBatch.from_pylist([], schema=SCHEMA)

    with pytest.raises(TimeoutError, match=r"t-0 at offset 3, reading 3 to 9: no record arrived for 0\.01 s \(option kafkaConsumer"):
        read_with(Silent(0, 100), 3, 9)


def test_a_truncated_log_is_read_from_where_it_parts(read_with: Any, caplog: Any) -> None:
    consumer = FakeConsumer(0, 100, step=3)
    truncated = LogTruncationError("the log was truncated", partition=TP, offset=14, divergent_offset=12)
    consumer.fault = truncated
    with pytest.raises(DataLossError, match="the log was truncated; the records that replace the lost ones are read from offset 12"):
        read_with(consumer, 10, 16)
    consumer.fault = truncated
    assert read_with(consumer, 10, 16, fail_on_data_loss=False) == [12, 13, 14, 15]


def test_nothing_more_is_read_of_a_topic_that_becomes_another_one(read_with: Any) -> None:
    class Remade(FakeConsumer):
        def poll_arrow(self, **asked: Any) -> Any:
            if self.at == 14:
                raise TopicRecreatedError("the topic is another one", partition=TP, offset=14)
            return super().poll_arrow(**asked)

    with pytest.raises(DataLossError, match="t-0 at offset 14, reading 10 to 16: the topic is another one"):
        read_with(Remade(0, 100), 10, 16)
    assert read_with(Remade(0, 100), 10, 16, fail_on_data_loss=False) == [10, 11, 12, 13]


class Deleted(FakeConsumer):
    """A log whose topic is unknown to the first brokers asked, or to all."""

    def __init__(self, unknown: int) -> None:
        super().__init__(0, 100)
        self.unknown = unknown
        self.ended = False

    def assign(self, partitions: Any, ends: Any = None) -> None:
        super().assign(partitions, ends)
        self.ended = not list(partitions)

    def finished(self) -> Any:
        return set() if self.ended else super().finished()

    def poll_arrow(self, **asked: Any) -> Any:
        if self.at == 14 and self.unknown:
            self.unknown -= 1
            raise UnknownTopicOrPartitionError("topic 't' does not exist")
        return super().poll_arrow(**asked)

    def partitions_for(self, topic: str) -> Any:
        raise UnknownTopicOrPartitionError("topic 't' does not exist")


def test_a_broker_that_does_not_know_the_topic_yet_is_asked_again(read_with: Any) -> None:
    assert read_with(Deleted(unknown=3), 10, 16) == list(range(10, 16))


def test_a_topic_that_is_deleted_is_data_loss(read_with: Any) -> None:
    with pytest.raises(DataLossError, match="t-0 at offset 14, reading 10 to 16: it does not exist any more"):
        read_with(Deleted(unknown=4), 10, 16)
    assert read_with(Deleted(unknown=4), 10, 16, fail_on_data_loss=False) == [10, 11, 12, 13]


def test_the_other_partitions_of_a_task_are_read_when_a_topic_is_deleted(kafka: EmbeddedKafka) -> None:
    for topic in ("kept", "removed"):
        kafka.create_topic(topic)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for _ in range(5):
            producer.send("kept", b"v").result(timeout=10)
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.delete_topics(["removed"])
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": "kept,removed", "fetchOffset.retryIntervalMs": "0"}
    task = TaskSpans((Span(TopicPartition("kept", 0), 0, 5), Span(TopicPartition("removed", 0), 0, 7)))
    batches = list(read(task, record_schema(False), source_options({**options, "failOnDataLoss": "false"}, streaming=True)))
    assert [offset for batch in batches for offset in batch["offset"].to_pylist()] == list(range(5))
    with pytest.raises(DataLossError, match="removed-0 at offset 0, reading 0 to 7: it does not exist any more"):
        list(read(task, record_schema(False), source_options(options, streaming=True)))


def test_brokers_that_are_away_are_waited_for(read_with: Any) -> None:
    class Away(FakeConsumer):
        away = True

        def end_offsets(self, tps: Any, timeout: Any = None) -> Any:
            self.away = False
            raise TimeoutError("no answer")

        def poll_arrow(self, **asked: Any) -> Any:
            return pa.RecordBatch.from_pylist([], schema=SCHEMA) if self.away else super().poll_arrow(**asked)

    assert read_with(Away(0, 100), 3, 9) == list(range(3, 9))


def test_a_truncation_at_an_unknown_offset_is_said_to_be_one(read_with: Any) -> None:
    consumer = FakeConsumer(0, 100)
    consumer.fault = LogTruncationError("the log was truncated", partition=TP, offset=14)
    with pytest.raises(DataLossError, match="t-0 at offset 14, reading 10 to 16: the log was truncated"):
        read_with(consumer, 10, 16)


def test_what_a_reused_consumer_knew_of_the_topic_before_is_no_loss(kafka: EmbeddedKafka) -> None:
    """The driver has planned with the new topic; the consumer of the task has old metadata when it begins."""
    given = source_options({"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": "t"}, streaming=True)
    for size in (5, 8):
        kafka.create_topic("t")
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for _ in range(size):
                producer.send("t", b"v").result(timeout=10)
        batches = list(read(TaskSpans((Span(TP, 0, size),)), record_schema(False), given))
        assert [offset for batch in batches for offset in batch["offset"].to_pylist()] == list(range(size))
        with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            admin.delete_topics(["t"])


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        yield kafka
        close_idle()


def test_a_task_in_a_reused_worker_waits_for_no_fetch_of_the_one_before(kafka: EmbeddedKafka) -> None:
    """Each would take half a second otherwise, fetch.max.wait.ms, as the log ends where the ranges do."""
    tasks, rows = 16, 1000
    kafka.create_topic("t", tasks)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(tasks * rows):
            producer.send("t", b"v" * 100, partition=number % tasks)
    given = source_options({"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": "t"}, streaming=True)
    seconds = []
    for partition in range(tasks):
        began = time.monotonic()
        batches = list(read(TaskSpans((Span(TopicPartition("t", partition), 0, rows),)), record_schema(False), given))
        seconds.append(time.monotonic() - began)
        assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == list(range(rows))
    assert median(seconds) < 0.25


def test_a_task_reads_several_partitions_at_a_time_each_in_order(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("t", 3)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(300):
            producer.send("t", b"%d" % number, partition=number % 3)
    given = source_options({"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": "t"}, streaming=True)
    spans = {TopicPartition("t", 0): (10, 60), TopicPartition("t", 1): (0, 100), TopicPartition("t", 2): (99, 100)}
    task = TaskSpans(tuple(Span(tp, *offsets) for tp, offsets in spans.items()))
    found: dict[int, list[int]] = {}
    for batch in read(task, record_schema(False), given):
        for partition, offset in zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True):
            found.setdefault(partition, []).append(offset)
    assert found == {tp.partition: list(range(*offsets)) for tp, offsets in spans.items()}


def test_an_open_transaction_is_told_from_a_deleted_topic(kafka44: Any, new_topic: Any) -> None:
    from confluent_kafka import Producer

    topic = new_topic(kafka44)
    tp = TopicPartition(topic, 0)
    producer = Producer({"bootstrap.servers": kafka44.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"undecided")
    producer.flush(10)
    given = {"kafka.bootstrap.servers": kafka44.bootstrap_servers, "subscribe": topic, "kafka.isolation.level": "read_committed"}
    options = source_options({**given, "kafkaConsumer.pollTimeoutMs": "300"}, streaming=True)
    try:
        with pytest.raises(TimeoutError, match=f"{tp} at offset 0, reading 0 to 1: an open transaction holds the other records back"):
            list(read(TaskSpans((Span(tp, 0, 1),)), record_schema(False), options))
    finally:
        producer.abort_transaction(30)
        close_idle()


def a_timestamp_beyond_spark(kafka: EmbeddedKafka, **given: str) -> list[int]:
    kafka.create_topic("t", config={"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"})
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for timestamp in (1, 2**62 - 1, 3):
            producer.send("t", b"v", timestamp=timestamp).result(timeout=10)
    options = source_options({"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": "t", **given}, streaming=True)
    batches = read(TaskSpans((Span(TP, 0, 3),)), record_schema(False, ["timestamp", "offset"]), options)
    return [offset for batch in batches for offset in batch["offset"].to_pylist()]


def test_a_timestamp_that_spark_cannot_hold_is_named_and_can_be_skipped(kafka: EmbeddedKafka, caplog: Any) -> None:
    with pytest.raises(DataLossError, match=f"t-0 at offset 1: a timestamp of {2**62 - 1} ms is more than Spark can hold"):
        a_timestamp_beyond_spark(kafka)
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.delete_topics(["t"])
    assert a_timestamp_beyond_spark(kafka, failOnDataLoss="false") == [0, 2]
    assert "t-0 at offset 1: a timestamp of" in caplog.text


def test_pieces_of_an_arrow_batch_are_equal() -> None:
    batch = pa.RecordBatch.from_pydict({"n": pa.array(range(100))})
    assert [piece.num_rows for piece in slices(iter([batch]), most_rows=33)] == [25, 25, 25, 25]
    assert [piece.num_rows for piece in slices(iter([batch]), most_rows=100)] == [100]
    assert [piece.num_rows for piece in slices(iter([batch, batch.slice(0, 0)]), most_rows=99)] == [50, 50]
