"""Positions that mean nothing any more, on every broker: nobody reads on at an old offset without being told (A24, A26)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.consumer.position_resetter import PositionReset
from penstock.errors import LogTruncationError, TopicRecreatedError, UnknownTopicOrPartitionError
from penstock.testing import EmbeddedKafka

PATIENCE = 100


def write(kafka: Any, topic: str, values: list[bytes]) -> None:
    with ps.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value)


def read(consumer: ps.KafkaConsumer, count: int) -> list[bytes]:
    """Poll until there are so many; while the topic is not there, polls say that it does not exist."""
    found: list[bytes] = []
    for _ in range(PATIENCE):
        try:
            found += [record.value for record in consumer.poll(timeout=0.3)]
        except UnknownTopicOrPartitionError:
            continue
        if len(found) >= count:
            break
    return found


def recreate(kafka: Any, topic: str) -> None:
    with ps.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.delete_topics([topic])
        admin.create_topics([ps.NewTopic(topic, 1)])


def numbered(count: int, mark: bytes) -> list[bytes]:
    return [b"%d-%s" % (number, mark) for number in range(count)]


@pytest.mark.parametrize("policy", ["earliest", "none"])
def test_A24_a_topic_that_was_created_again_is_noticed(any_kafka: Any, new_topic: Callable[..., str], policy: str) -> None:
    topic = new_topic(any_kafka)
    tp, resets = ps.TopicPartition(topic, 0), list[PositionReset]()
    write(any_kafka, topic, numbered(5, b"old"))
    with ps.KafkaConsumer(bootstrap_servers=any_kafka.bootstrap_servers, auto_offset_reset=policy, on_reset=resets.append) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 0)
        assert read(consumer, 5) == numbered(5, b"old")
        recreate(any_kafka, topic)
        write(any_kafka, topic, numbered(9, b"new"))
        if policy == "none":
            with pytest.raises(TopicRecreatedError, match=topic):
                read(consumer, 1)
            consumer.seek_to_beginning()
        assert read(consumer, 9) == numbered(9, b"new")
    assert [tuple(reset)[:3] for reset in resets] == ([(tp, 5, 0)] if policy == "earliest" else [])


def test_A26_a_log_that_was_cut_is_noticed() -> None:
    with EmbeddedKafka() as kafka, ps.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="none") as consumer:
        tp = ps.TopicPartition("t", 0)
        for value in (b"0", b"1", b"2"):
            write(kafka, "t", [value])
        consumer.assign([tp])
        consumer.seek(tp, 0)
        assert read(consumer, 3) == [b"0", b"1", b"2"]
        kafka.elect_leader("t", lose_from=1)
        write(kafka, "t", numbered(5, b"new"))
        with pytest.raises(LogTruncationError) as cut:
            read(consumer, 1)
        consumer.seek(tp, cut.value.divergent_offset or 0)
        assert read(consumer, 5) == numbered(5, b"new")
