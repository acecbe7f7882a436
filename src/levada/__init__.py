"""Kafka for Python and Spark: a whole client in Python, records as Arrow columns, a PySpark source and sink, a broker in the wheel.

The public names are here; each is loaded when first used, so `import levada` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from levada._pure import obey_environment

__version__ = "0.1.0"

if TYPE_CHECKING:
    from levada import errors
    from levada.sync.admin import KafkaAdmin
    from levada.sync.client import KafkaClient
    from levada.sync.consumer import KafkaConsumer
    from levada.sync.producer import KafkaProducer
    from levada.sync.scan import Scan, scan
    from levada.types import ConsumerRecord, NewTopic, Node, OffsetAndTimestamp, PartitionInfo, RecordMetadata, TopicPartition

_HOME = {
    "KafkaAdmin": "levada.sync.admin",
    "KafkaClient": "levada.sync.client",
    "KafkaConsumer": "levada.sync.consumer",
    "KafkaProducer": "levada.sync.producer",
    "Scan": "levada.sync.scan",
    "scan": "levada.sync.scan",
    "ConsumerRecord": "levada.types",
    "NewTopic": "levada.types",
    "Node": "levada.types",
    "OffsetAndTimestamp": "levada.types",
    "PartitionInfo": "levada.types",
    "RecordMetadata": "levada.types",
    "TopicPartition": "levada.types",
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
        return import_module("levada.errors")
    if name not in _HOME:
        raise AttributeError(f"module 'levada' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
