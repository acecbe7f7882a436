"""The real brokers that other tests lean on: they start, survive what tests do to them, and are gone afterwards."""

from __future__ import annotations

import uuid

import pytest

from kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.matrix]


def records_in(kafka: KafkaCluster, topic: str) -> list[bytes | None]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": uuid.uuid4().hex, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        values.append(message.value())
    consumer.close()
    return values


def write(kafka: KafkaCluster, topic: str, value: bytes) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def test_a_node_keeps_its_records_over_a_restart(kafka44: KafkaCluster) -> None:
    kafka44.create_topic("kept")
    write(kafka44, "kept", b"before")
    kafka44.nodes[0].restart()
    write(kafka44, "kept", b"after")
    assert records_in(kafka44, "kept") == [b"before", b"after"]


def test_three_nodes_go_on_without_one(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("replicated", config={"min.insync.replicas": 2})
    write(kafka_cluster, "replicated", b"all three")
    kafka_cluster.nodes[2].kill()
    write(kafka_cluster, "replicated", b"two are left")
    kafka_cluster.nodes[2].restart()
    assert records_in(kafka_cluster, "replicated") == [b"all three", b"two are left"]
