"""Positions that mean nothing any more, on every broker: reading on at an old offset never goes unnoticed (M-A24, M-A26)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import levada as lv
from api_kit import recreate
from kafka_cluster import KafkaCluster
from levada.consumer.positions.position_resetter import PositionReset
from levada.errors import LogTruncationError, TopicRecreatedError, UnknownTopicOrPartitionError
from levada.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from levada.protocol.schema import Request
from levada.testing import EmbeddedKafka

PATIENCE = 100


def write(kafka: Any, topic: str, values: list[bytes]) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value)


def read(consumer: lv.KafkaConsumer, count: int) -> list[bytes | None]:
    """Poll until there are so many; while the topic is not there, polls say that it does not exist."""
    found: list[bytes | None] = []
    for _ in range(PATIENCE):
        try:
            found += [record.value for record in consumer.poll(timeout=0.3)]
        except UnknownTopicOrPartitionError:
            continue
        if len(found) >= count:
            break
    return found


def numbered(count: int, mark: bytes) -> list[bytes]:
    return [b"%d-%s" % (number, mark) for number in range(count)]


@pytest.mark.parametrize("policy", ["earliest", "none"])
def test_M_A24_a_topic_that_was_created_again_is_noticed(any_kafka: Any, new_topic: Callable[..., str], policy: Any) -> None:
    topic = new_topic(any_kafka)
    tp, resets = lv.TopicPartition(topic, 0), list[PositionReset]()
    write(any_kafka, topic, numbered(5, b"old"))
    # Whoever asks for the metadata of a topic may create it: a consumer that does so between the two calls makes the second one fail.
    to = {"bootstrap_servers": any_kafka.bootstrap_servers, "allow.auto.create.topics": False}
    with lv.KafkaConsumer(to, auto_offset_reset=policy, on_reset=resets.append) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 0)
        assert read(consumer, 5) == numbered(5, b"old")
        with lv.KafkaAdmin(bootstrap_servers=any_kafka.bootstrap_servers) as admin:
            recreate(admin, topic)
        write(any_kafka, topic, numbered(9, b"new"))
        if policy == "none":
            with pytest.raises(TopicRecreatedError, match=topic):
                read(consumer, 1)
            consumer.seek_to_beginning()
        assert read(consumer, 9) == numbered(9, b"new")
    assert [tuple(reset)[:3] for reset in resets] == ([(tp, 5, 0)] if policy == "earliest" else [])


def test_M_A26_a_log_that_was_cut_is_noticed() -> None:
    with EmbeddedKafka() as kafka, lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="none") as consumer:
        tp = lv.TopicPartition("t", 0)
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


@pytest.mark.kafka
@pytest.mark.slow
def test_O10_a_killed_leader_costs_a_reader_nothing(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("followed", partitions=3, config={"min.insync.replicas": 2})
    partitions, resets = [lv.TopicPartition("followed", number) for number in range(3)], list[PositionReset]()
    to = {"bootstrap_servers": kafka_cluster.bootstrap_servers}
    with lv.KafkaConsumer(to, auto_offset_reset="earliest", on_reset=resets.append) as consumer, lv.KafkaProducer(to) as producer:
        consumer.assign(partitions)
        asked = count_requests(consumer, OffsetForLeaderEpochRequest)
        seen: list[tuple[int, int]] = []
        for victim in (None, *kafka_cluster.nodes[:2]):
            if victim is not None:
                victim.kill()
            sent = [producer.send("followed", b"%d" % number, partition=number % 3) for number in range(300)]
            assert [delivery.exception() for delivery in sent] == [None] * 300
            wanted = len(seen) + 300
            for _ in range(PATIENCE):
                seen += [(record.partition, record.offset) for record in consumer.poll(timeout=1)]
                if len(seen) >= wanted:
                    break
            if victim is not None:
                victim.restart()
    assert sorted(seen) == [(partition, offset) for partition in range(3) for offset in range(300)]
    assert resets == []
    assert len(asked) >= 2


def count_requests(consumer: lv.KafkaConsumer, kind: type[Request]) -> list[Request]:
    """Return a list that fills with the requests of a kind that the consumer sends."""
    network = consumer._engine.network
    sent: list[Request] = []
    send = network.send

    def noting(node_id: int, request: Request, *arguments: Any, **options: Any) -> Any:
        if isinstance(request, kind):
            sent.append(request)
        return send(node_id, request, *arguments, **options)

    network.send = noting  # type: ignore[method-assign, assignment]
    return sent
