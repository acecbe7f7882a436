"""Kafka for Python and Spark: a whole client in Python, records as Arrow columns, a PySpark source and sink, a broker in the wheel.

The public names are here; each is loaded when first used, so `import penstock` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock._pure import obey_environment

__version__ = "0.1.0"

if TYPE_CHECKING:
    from penstock import errors
    from penstock.sync.admin import KafkaAdmin
    from penstock.sync.client import KafkaClient
    from penstock.sync.consumer import KafkaConsumer
    from penstock.sync.producer import KafkaProducer
    from penstock.sync.scan import Scan, scan
    from penstock.types import ConsumerRecord, NewTopic, Node, OffsetAndTimestamp, PartitionInfo, RecordMetadata, TopicPartition

_HOME = {
    "KafkaAdmin": "penstock.sync.admin",
    "KafkaClient": "penstock.sync.client",
    "KafkaConsumer": "penstock.sync.consumer",
    "KafkaProducer": "penstock.sync.producer",
    "Scan": "penstock.sync.scan",
    "scan": "penstock.sync.scan",
    "ConsumerRecord": "penstock.types",
    "NewTopic": "penstock.types",
    "Node": "penstock.types",
    "OffsetAndTimestamp": "penstock.types",
    "PartitionInfo": "penstock.types",
    "RecordMetadata": "penstock.types",
    "TopicPartition": "penstock.types",
}

__all__ = [
    "ConsumerRecord",
    "KafkaAdmin",
    "KafkaClient",
    "KafkaConsumer",
    "KafkaProducer",
    "NewTopic",
    "Node",
    "OffsetAndTimestamp",
    "PartitionInfo",
    "RecordMetadata",
    "Scan",
    "TopicPartition",
    "errors",
    "scan",
]


obey_environment()


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("penstock.errors")
    if name not in _HOME:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
