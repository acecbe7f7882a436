"""Encodes and decodes whole messages: Metadata of 10,000 partitions, Fetch and Produce of 1,000, by levada, aiokafka and kafka-python.

Each message has two versions: the newest that all three know, and the newest that levada and kafka-python know. aiokafka has no flexible
versions of these messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any
from uuid import UUID

from codec_timing import Case
from levada.protocol.codegen import decode, encode
from levada.protocol.messages import fetch, metadata, produce
from levada.protocol.schema import Message

RECORDS = b"x" * 200
TOPIC_ID = UUID(int=7)


def metadata_response() -> Message:
    """Return a Metadata response with 1,000 topics of 10 partitions."""
    nodes = [1, 2, 3]
    topics = [
        metadata.MetadataResponseTopic(
            name=f"topic-{topic}",
            topic_id=TOPIC_ID,
            partitions=[
                metadata.MetadataResponsePartition(
                    partition_index=index, leader_id=1, leader_epoch=5, replica_nodes=nodes, isr_nodes=nodes, offline_replicas=[]
                )
                for index in range(10)
            ],
        )
        for topic in range(1000)
    ]
    brokers = [metadata.MetadataResponseBroker(node_id=node, host="broker.example.com", port=9092) for node in nodes]
    return metadata.MetadataResponse(brokers=brokers, cluster_id="cluster", controller_id=1, topics=topics)


def fetch_request() -> Message:
    """100 topics of 10 partitions."""
    parts = [fetch.FetchPartition(partition=index, fetch_offset=12345, partition_max_bytes=1 << 20) for index in range(10)]
    topics = [fetch.FetchTopic(topic=f"topic-{topic}", topic_id=TOPIC_ID, partitions=parts) for topic in range(100)]
    return fetch.FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics)


def fetch_response() -> Message:
    """100 topics of 10 partitions, 200 bytes each."""
    parts = [
        fetch.PartitionData(partition_index=index, high_watermark=12345, aborted_transactions=[], records=RECORDS) for index in range(10)
    ]
    topics = [fetch.FetchableTopicResponse(topic=f"topic-{topic}", topic_id=TOPIC_ID, partitions=parts) for topic in range(100)]
    return fetch.FetchResponse(session_id=1, responses=topics)


def produce_request() -> Message:
    """100 topics of 10 partitions, 200 bytes each."""
    parts = [produce.PartitionProduceData(index=index, records=RECORDS) for index in range(10)]
    topics = [produce.TopicProduceData(name=f"topic-{topic}", topic_id=TOPIC_ID, partition_data=parts) for topic in range(100)]
    return produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)


def produce_response() -> Message:
    """100 topics of 10 partitions."""
    parts = [produce.PartitionProduceResponse(index=index, base_offset=12345) for index in range(10)]
    topics = [produce.TopicProduceResponse(name=f"topic-{topic}", topic_id=TOPIC_ID, partition_responses=parts) for topic in range(100)]
    return produce.ProduceResponse(responses=topics)


# The function that makes the message, its modules in aiokafka and kafka-python, the newest version that all three know, and the newest that
# levada and kafka-python know.
MESSAGES: list[tuple[Callable[[], Message], str, str, int, int]] = [
    (metadata_response, "metadata", "metadata", 5, 12),
    (fetch_request, "fetch", "consumer", 11, 16),
    (fetch_response, "fetch", "consumer", 11, 16),
    (produce_request, "produce", "producer", 8, 12),
    (produce_response, "produce", "producer", 8, 12),
]


def cases() -> Iterator[list[Case]]:
    """Yield the cases: encode and decode of each message in each of its two versions, by all systems that know the version."""
    for make, aiokafka, kafka_python, common, newest in MESSAGES:
        yield from _compared(make(), common, aiokafka, kafka_python)
        yield from _compared(make(), newest, None, kafka_python)


def _compared(message: Message, version: int, aiokafka: str | None, kafka_python: str) -> Iterator[list[Case]]:
    data = encode(message, version)
    ways = {"levada": _levada(message, data, version), "kafka-python": _kafka_python(message, data, version, kafka_python)}
    if aiokafka:
        ways["aiokafka"] = _aiokafka(message, data, version, aiokafka)
    for at, verb in enumerate(("encode", "decode")):
        yield [Case(f"{verb} {type(message).__name__} v{version}", name, way[at], 1) for name, way in ways.items()]


Ways = tuple[Callable[[], int], Callable[[], int]]


def _levada(message: Message, data: bytes, version: int) -> Ways:
    kind = type(message)
    return lambda: encode(message, version) == data, lambda: decode(kind, data, version)[1] == len(data)


def _kafka_python(message: Message, data: bytes, version: int, module: str) -> Ways:
    kind = getattr(import_module(f"kafka.protocol.{module}"), type(message).__name__)
    same = kind.decode(data, version=version)
    same._header = None  # without this it cannot encode a decoded message
    return lambda: same.encode(version=version) == data, lambda: kind.decode(data, version=version) is not None


def _aiokafka(message: Message, data: bytes, version: int, module: str) -> Ways:
    kind: Any = getattr(import_module(f"aiokafka.protocol.{module}"), f"{type(message).__name__}_v{version}")
    same = kind.decode(data)
    return lambda: same.encode() == data, lambda: kind.decode(data) is not None
