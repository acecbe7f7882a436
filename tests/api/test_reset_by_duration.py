"""auto.offset.reset=by_duration:... begins at the first record of the last so long (KIP-1106). Both APIs, every broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import levada as lv
from api_kit import BOTH_APIS, EVERYWHERE, api_and_broker

PATIENCE_S = 30
HOUR_MS = 3_600_000
AGES_H = [50, 30, 26, 5, 1]


@pytest.fixture(params=BOTH_APIS)
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


@pytest.fixture
def tp(kafka: Any, new_topic: Callable[..., str]) -> lv.TopicPartition:
    """A partition whose records are AGES_H hours old."""
    name = new_topic(kafka)
    now_ms = time.time_ns() // 1_000_000
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for age in AGES_H:
            producer.send(name, value=b"%d" % age, timestamp=now_ms - age * HOUR_MS)
            producer.flush()  # Each in a batch of its own.
    return lv.TopicPartition(name, 0)


def consumer(kafka: Any, tp: lv.TopicPartition, reset: str) -> Any:
    made: Any = lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset=reset, fetch_max_wait_ms=50)
    made.assign([tp])
    return made


def first(reader: Any) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if records := reader.poll(1):
            return int(records[0].value)
    pytest.fail("no record came")


@pytest.mark.parametrize("kafka", EVERYWHERE, indirect=True)
def test_O6_reading_begins_at_the_first_record_of_the_last_so_long(kafka: Any, tp: lv.TopicPartition) -> None:
    with consumer(kafka, tp, "by_duration:PT27H") as reader:
        assert first(reader) == 26
        reader.seek(tp, 1_000)
        assert first(reader) == 26
    for duration, age in (("P2D", 30), ("P30D", 50), ("PT5H30M", 5)):
        with consumer(kafka, tp, f"by_duration:{duration}") as reader:
            assert reader.position(tp) == AGES_H.index(age)


@pytest.mark.parametrize("kafka", EVERYWHERE, indirect=True)
def test_O6_reading_begins_at_the_end_where_no_record_is_so_young(kafka: Any, tp: lv.TopicPartition) -> None:
    with consumer(kafka, tp, "by_duration:PT10M") as reader:
        assert reader.position(tp) == len(AGES_H)
    with consumer(kafka, tp, "by_duration:PT10M") as reader:
        assert reader.poll(0.3) == []
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            producer.send(tp.topic, value=b"0", timestamp=1).result(PATIENCE_S)
        assert first(reader) == 0
