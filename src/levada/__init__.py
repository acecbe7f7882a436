"""Kafka for Python and Spark: a whole client in Python, records as Arrow columns, a PySpark source and sink, a broker in the wheel.

The public names are here; each is loaded when first used, so `import levada` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from levada._pure import obey_environment
from levada._python import refuse_free_threading
from levada.not_yet import no_such_name

__version__ = "0.1.0"

if TYPE_CHECKING:
    from levada import errors
    from levada.admin.cluster import ClusterDescription
    from levada.admin.topics import CreatedTopic, TopicDescription
    from levada.admin.transactions import FencedProducer, ProducerState, TransactionDescription, TransactionListing, TransactionState
    from levada.consumer.position_resetter import PositionReset
    from levada.errors import KafkaError, Persisted
    from levada.interceptors import ProducerInterceptor, ProducerRecord
    from levada.metrics import MetricName, Metrics
    from levada.producer.arrow_delivery import ArrowDelivery, ArrowReport
    from levada.producer.delivery import Delivery
    from levada.producer.partitioning import RoundRobin
    from levada.sync.ack_buffer import AckBuffer
    from levada.sync.admin import KafkaAdmin
    from levada.sync.client import KafkaClient
    from levada.sync.consumer import KafkaConsumer
    from levada.sync.producer import KafkaProducer
    from levada.sync.scan import Loss, Scan, scan
    from levada.sync.transaction import Transaction
    from levada.types import (
        AbortTransactionSpec,
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
        TransactionHandle,
    )

_HOME = {
    "AckBuffer": "levada.sync.ack_buffer",
    "KafkaAdmin": "levada.sync.admin",
    "KafkaClient": "levada.sync.client",
    "KafkaConsumer": "levada.sync.consumer",
    "KafkaProducer": "levada.sync.producer",
    "Loss": "levada.sync.scan",
    "RoundRobin": "levada.producer.partitioning",
    "Scan": "levada.sync.scan",
    "scan": "levada.sync.scan",
    "Transaction": "levada.sync.transaction",
    "ClusterDescription": "levada.admin.cluster",
    "CreatedTopic": "levada.admin.topics",
    "TopicDescription": "levada.admin.topics",
    "FencedProducer": "levada.admin.transactions",
    "ProducerState": "levada.admin.transactions",
    "TransactionDescription": "levada.admin.transactions",
    "TransactionListing": "levada.admin.transactions",
    "TransactionState": "levada.admin.transactions",
    "PositionReset": "levada.consumer.position_resetter",
    "ArrowDelivery": "levada.producer.arrow_delivery",
    "ArrowReport": "levada.producer.arrow_delivery",
    "Delivery": "levada.producer.delivery",
    "ProducerInterceptor": "levada.interceptors",
    "ProducerRecord": "levada.interceptors",
    "MetricName": "levada.metrics",
    "Metrics": "levada.metrics",
    "KafkaError": "levada.errors",
    "Persisted": "levada.errors",
    "AbortTransactionSpec": "levada.types",
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
    "TransactionHandle": "levada.types",
}

__all__ = [
    "AbortTransactionSpec",
    "AckBuffer",
    "ArrowDelivery",
    "ArrowReport",
    "ClusterDescription",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "ConsumerRecords",
    "CreatedTopic",
    "Delivery",
    "FencedProducer",
    "IsolationLevel",
    "KafkaAdmin",
    "KafkaClient",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "Loss",
    "MetricName",
    "Metrics",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionInfo",
    "Persisted",
    "PositionReset",
    "ProducerInterceptor",
    "ProducerRecord",
    "ProducerState",
    "RecordMetadata",
    "RoundRobin",
    "Scan",
    "TimestampType",
    "TopicDescription",
    "TopicPartition",
    "Transaction",
    "TransactionDescription",
    "TransactionHandle",
    "TransactionListing",
    "TransactionState",
    "errors",
    "scan",
]


refuse_free_threading()
obey_environment()


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("levada.errors")
    if name not in _HOME:
        raise no_such_name(__name__, name)
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
