"""What the network does to clients must not show: the same session gives the same results (E12, M-B8, M-B13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import levada as lv
from levada.broker.node.faults import Faults
from levada.testing import EmbeddedKafka

RECORDS = [(b"key-%d" % (number % 7), b"value-%d" % number * (number % 40), [("n", b"%d" % number)]) for number in range(400)]
PARTITIONS = [lv.TopicPartition("t", number) for number in range(3)]


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=3) as kafka:
        yield kafka


def session(kafka: EmbeddedKafka) -> dict[lv.TopicPartition, list[Any]]:
    """Create a topic, write to it, look around, and read everything back."""
    to = {"bootstrap_servers": kafka.bootstrap_servers}
    with lv.KafkaAdmin(to) as admin:
        admin.create_topics([lv.NewTopic("t", 3)])
        assert len(admin.describe_topics(["t"])["t"].partitions) == 3
    with lv.KafkaProducer(to, compression_type="lz4", batch_size=2_000, retry_backoff_ms=10) as producer:
        deliveries = [producer.send("t", value, key, headers=headers, timestamp=5) for key, value, headers in RECORDS]
    assert [delivery.exception() for delivery in deliveries] == [None] * len(RECORDS)
    with lv.KafkaConsumer(to, auto_offset_reset="earliest") as consumer:
        consumer.assign(PARTITIONS)
        ends = consumer.end_offsets(PARTITIONS)
        read: dict[lv.TopicPartition, list[Any]] = {tp: [] for tp in PARTITIONS}
        while any(consumer.position(tp) < ends[tp] for tp in PARTITIONS):
            for record in consumer.poll(timeout=5):
                read[lv.TopicPartition(record.topic, record.partition)].append((record.offset, record.key, record.value, record.headers))
    return read


@pytest.fixture(scope="module")
def undisturbed() -> dict[lv.TopicPartition, list[Any]]:
    with EmbeddedKafka(num_partitions=3) as kafka:
        return session(kafka)


def _in_pieces(size: int) -> Callable[[Faults], None]:
    return lambda faults: setattr(faults, "bytes_at_a_time", size)


def _cut(faults: Faults) -> None:
    for api in ("Metadata", "InitProducerId", "Produce", "ListOffsets", "Fetch"):
        faults.close_mid_frame(api, after_bytes=len(api))
    faults.close_mid_frame("ApiVersions", nth=2, after_bytes=0)


def _throttle(faults: Faults) -> None:
    for api in ("ApiVersions", "Metadata", "InitProducerId", "Produce", "ListOffsets", "Fetch"):
        faults.throttle(api, 50, times=3)


DISTURBANCES: dict[str, Callable[[Faults], None]] = {
    "M-B13 one byte at a time": _in_pieces(1),
    "M-B13 seven bytes at a time": _in_pieces(7),
    "E12 answers break off": _cut,
    "M-B8 throttled": _throttle,
}


@pytest.mark.parametrize("disturb", DISTURBANCES.values(), ids=DISTURBANCES)
def test_a_disturbed_session_has_the_same_results(
    kafka: EmbeddedKafka, undisturbed: dict[lv.TopicPartition, list[Any]], disturb: Callable[[Faults], None]
) -> None:
    disturb(kafka.faults)
    assert session(kafka) == undisturbed
    assert sum(map(len, undisturbed.values())) == len(RECORDS)
