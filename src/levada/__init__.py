"""Kafka for Python and Spark: a whole client in Python, records as Arrow columns, a PySpark source and sink, a broker in the wheel.

The public names are here; each is loaded when first used, so `import levada` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from levada._pure import obey_environment
from levada._python import refuse_free_threading

__version__ = "0.1.0"

if TYPE_CHECKING:
    from levada import errors
    from levada.admin.cluster import ClusterDescription
    from levada.admin.topics import CreatedTopic, TopicDescription
    from levada.consumer.position_resetter import PositionReset
    from levada.errors import KafkaError, Persisted
    from levada.interceptors import ProducerInterceptor, ProducerRecord
    from levada.producer.arrow_delivery import ArrowDelivery, ArrowReport
    from levada.producer.delivery import Delivery
    from levada.producer.partitioning import RoundRobin
    from levada.sync.admin import KafkaAdmin
    from levada.sync.client import KafkaClient
    from levada.sync.consumer import KafkaConsumer
    from levada.sync.producer import KafkaProducer
    from levada.sync.scan import Loss, Scan, scan
    from levada.types import (
        ConsumerGroupMetadata,
        ConsumerRecord,
        ConsumerRecords,
        IsolationLevel,
        NewTopic,
        Node,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        PartitionInfo,
        RecordMetadata,
        TimestampType,
        TopicPartition,
    )

_HOME = {
    "KafkaAdmin": "levada.sync.admin",
    "KafkaClient": "levada.sync.client",
    "KafkaConsumer": "levada.sync.consumer",
    "KafkaProducer": "levada.sync.producer",
    "Loss": "levada.sync.scan",
    "RoundRobin": "levada.producer.partitioning",
    "Scan": "levada.sync.scan",
    "scan": "levada.sync.scan",
    "ClusterDescription": "levada.admin.cluster",
    "CreatedTopic": "levada.admin.topics",
    "TopicDescription": "levada.admin.topics",
    "PositionReset": "levada.consumer.position_resetter",
    "ArrowDelivery": "levada.producer.arrow_delivery",
    "ArrowReport": "levada.producer.arrow_delivery",
    "Delivery": "levada.producer.delivery",
    "ProducerInterceptor": "levada.interceptors",
    "ProducerRecord": "levada.interceptors",
    "KafkaError": "levada.errors",
    "Persisted": "levada.errors",
    "ConsumerGroupMetadata": "levada.types",
    "ConsumerRecord": "levada.types",
    "ConsumerRecords": "levada.types",
    "IsolationLevel": "levada.types",
    "NewTopic": "levada.types",
    "Node": "levada.types",
    "OffsetAndMetadata": "levada.types",
    "OffsetAndTimestamp": "levada.types",
    "PartitionInfo": "levada.types",
    "RecordMetadata": "levada.types",
    "TimestampType": "levada.types",
    "TopicPartition": "levada.types",
}

__all__ = [
    "ArrowDelivery",
    "ArrowReport",
    "ClusterDescription",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "ConsumerRecords",
    "CreatedTopic",
    "Delivery",
    "IsolationLevel",
    "KafkaAdmin",
    "KafkaClient",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "Loss",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionInfo",
    "Persisted",
    "PositionReset",
    "ProducerInterceptor",
    "ProducerRecord",
    "RecordMetadata",
    "RoundRobin",
    "Scan",
    "TimestampType",
    "TopicDescription",
    "TopicPartition",
    "errors",
    "scan",
]


refuse_free_threading()
obey_environment()


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("levada.errors")
    if name not in _HOME:
        raise AttributeError(f"module 'levada' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
