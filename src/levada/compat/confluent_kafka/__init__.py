"""The names of the package confluent_kafka, over levada: `from levada.compat.confluent_kafka import Consumer, Producer`.

docs/MIGRATING.md says what is there, what differs and what is not there.
"""

from __future__ import annotations

from typing import Any

from levada.compat.confluent_kafka import not_there
from levada.compat.confluent_kafka.consumer import Consumer
from levada.compat.confluent_kafka.deserializing_consumer import DeserializingConsumer
from levada.compat.confluent_kafka.error import KafkaError, KafkaException
from levada.compat.confluent_kafka.message import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Message,
    TopicPartition,
)
from levada.compat.confluent_kafka.model import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    IsolationLevel,
    Node,
    TopicCollection,
    TopicPartitionInfo,
    Uuid,
    libversion,
    version,
)
from levada.compat.confluent_kafka.partitioners import consistent, fnv1a, murmur2
from levada.compat.confluent_kafka.producer import Producer
from levada.compat.confluent_kafka.serializing_producer import SerializingProducer

__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "Consumer",
    "ConsumerGroupState",
    "ConsumerGroupTopicPartitions",
    "ConsumerGroupType",
    "DeserializingConsumer",
    "ElectionType",
    "IsolationLevel",
    "KafkaError",
    "KafkaException",
    "Message",
    "Node",
    "Producer",
    "SerializingProducer",
    "TopicCollection",
    "TopicPartition",
    "TopicPartitionInfo",
    "Uuid",
    "consistent",
    "fnv1a",
    "libversion",
    "murmur2",
    "version",
]


__version__ = version()


def __getattr__(name: str) -> Any:
    advice = not_there.MODULE.get(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{'' if advice is None else f': {advice}'}", name=name)
