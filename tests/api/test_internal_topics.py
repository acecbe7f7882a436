"""Kafka's own topics, as levada's users meet them on every broker."""

from __future__ import annotations

import time
from typing import Any

import pytest

import levada as lv

OFFSETS = "__consumer_offsets"
PATIENCE_S = 30


@pytest.fixture(autouse=True)
def group(any_kafka: Any) -> str:
    """A group has been looked for, so that the topic for its offsets exists."""
    with lv.KafkaAdmin(bootstrap_servers=any_kafka.bootstrap_servers) as admin:
        admin.outcomes(admin.describe_consumer_groups, ["nobody"])
    return "internal-topics"


def test_they_are_listed_where_that_is_asked_for(any_kafka: Any) -> None:
    with lv.KafkaAdmin(bootstrap_servers=any_kafka.bootstrap_servers) as admin:
        assert OFFSETS not in admin.list_topics()
        assert OFFSETS in admin.list_topics(internal=True)
        assert admin.describe_topics([OFFSETS])[OFFSETS].is_internal
        with pytest.raises(lv.errors.TopicAlreadyExistsError):
            admin.create_topics([lv.NewTopic(OFFSETS)])


def test_nobody_produces_to_them(any_kafka: Any) -> None:
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers) as producer, pytest.raises(lv.errors.InvalidTopicError):
        producer.send(OFFSETS, b"value", key=b"key", partition=0).result(PATIENCE_S)


@pytest.mark.parametrize("excluded", [True, False])
def test_a_pattern_means_them_only_where_they_are_not_excluded(any_kafka: Any, new_topic: Any, group: str, excluded: bool) -> None:
    topic = new_topic(any_kafka)
    settings: dict[str, Any] = {"group_id": f"{group} {topic}", "exclude_internal_topics": excluded}
    with lv.KafkaConsumer(bootstrap_servers=any_kafka.bootstrap_servers, **settings) as consumer:
        consumer.subscribe(pattern=f"{topic}|{OFFSETS}")
        deadline = time.monotonic() + PATIENCE_S
        while not consumer.assignment():
            consumer.poll(0.05)
            assert time.monotonic() < deadline
        assert {tp.topic for tp in consumer.assignment()} == ({topic} if excluded else {topic, OFFSETS})
