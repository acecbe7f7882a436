"""The machine's clock jumps by an hour, forth and back: nothing that waits notices (M-A19)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import levada as lv
from told_listener import Told

HOUR_S = 3600
PATIENCE_S = 20
TIGHT: dict[str, Any] = {"request_timeout_ms": 5_000}


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set how far the wall clock is from where it was, in seconds."""
    ahead_ns, read_ns = [0], time.time_ns

    def by(seconds: int) -> None:
        ahead_ns[0] = seconds * 1_000_000_000

    monkeypatch.setattr(time, "time_ns", lambda: read_ns() + ahead_ns[0])
    monkeypatch.setattr(time, "time", lambda: time.time_ns() / 1e9)
    return by


def test_M_A19_a_clock_that_jumps_ends_no_wait(any_kafka: Any, new_topic: Callable[..., str], jump: Callable[[int], None]) -> None:
    """A record waits for its batch, and a member works, as it jumps: the record is acknowledged, and the member stays in its group."""
    topic = new_topic(any_kafka, 1, {"message.timestamp.after.max.ms": 2 * HOUR_S * 1000})
    to, told = {"bootstrap.servers": any_kafka.bootstrap_servers, **TIGHT}, Told()
    with (
        lv.KafkaProducer(to, linger_ms=100, delivery_timeout_ms=6_000) as producer,
        lv.KafkaConsumer(
            to, group_id=topic, auto_offset_reset="earliest", session_timeout_ms=6_000, max_poll_interval_ms=10_000
        ) as consumer,
    ):
        consumer.subscribe([topic], told)
        for number, seconds in enumerate((0, HOUR_S, -HOUR_S, 0)):
            waiting = producer.send(topic, b"%d" % number)
            jump(seconds)
            assert waiting.result(PATIENCE_S).offset == number
            assert read_one(consumer) == b"%d" % number
            consumer.commit()
            assert consumer.committed([lv.TopicPartition(topic, 0)])[lv.TopicPartition(topic, 0)] == lv.OffsetAndMetadata(number + 1, 0)
        assert told.heard == [("assigned", [0])]


def read_one(consumer: lv.KafkaConsumer) -> bytes | None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for record in consumer.poll(0.5):
            return record.value
    return None
