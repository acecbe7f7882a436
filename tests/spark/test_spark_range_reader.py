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
from levada.errors import DataLossError, OffsetOutOfRangeError, TimeoutError
from levada.spark import clients, range_reader
from levada.spark.options import source_options
from levada.spark.range_reader import OffsetRange, read
from levada.spark.schema import arrow_schema, record_schema
from levada.testing import EmbeddedKafka
from levada.types import TopicPartition

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

    def assign(self, partitions: Any, ends: Any = None) -> None:
        self.assigned.append(list(partitions))
        self.end = (ends or {}).get(TP)

    def seek(self, tp: Any, offset: Any) -> None:
        self.at = offset

    def position(self, tp: Any) -> Any:
        return self.at

    def beginning_offsets(self, tps: Any) -> Any:
        return {TP: self.first}

    def end_offsets(self, tps: Any) -> Any:
        return {TP: self.after_last}

    def poll_arrow(self, *, timeout: Any, max_records: Any, max_bytes: Any, columns: Any) -> Any:
        if not self.first <= self.at <= self.after_last:
            raise OffsetOutOfRangeError("t-0")
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
        batches = list(read(OffsetRange("t", 0, start, end), record_schema(False), source_options(given, streaming=True)))
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
    assert "the log begins at offset 6, retention has removed what was before; going on" in caplog.text


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


def test_silence_ends_with_a_timeout(read_with: Any, monkeypatch: Any) -> None:
    class Silent(FakeConsumer):
        def poll_arrow(self, **_: Any) -> Any:
            return pa.RecordBatch.from_pylist([], schema=SCHEMA)

    monkeypatch.setattr(range_reader, "_patience_s", lambda client: 0.01)
    with pytest.raises(TimeoutError, match=r"t-0 at offset 3, reading 3 to 9: nothing came for 0\.01 s"):
        read_with(Silent(0, 100), 3, 9)


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        yield kafka
        clients.close_idle()


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
        batches = list(read(OffsetRange("t", partition, 0, rows), record_schema(False), given))
        seconds.append(time.monotonic() - began)
        assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == list(range(rows))
    assert median(seconds) < 0.25
