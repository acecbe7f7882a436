"""Kafka for Python and Spark: a complete client in Python, records as Arrow columns, a PySpark source and sink, and a broker for tests.

The public names are here. Each is imported at its first use, so that `import levada` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levada._importing import import_undisturbed
from levada._pure import obey_environment
from levada.base.unsupported_names import no_such_name

__version__ = "0.1.0"

if TYPE_CHECKING:
    from levada import errors
    from levada.acls import (
        AccessControlEntry,
        AccessControlEntryFilter,
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        PatternType,
        ResourcePattern,
        ResourcePatternFilter,
        ResourceType,
    )
    from levada.admin.cluster import (
        ClusterDescription,
        FeatureLevels,
        FeatureMetadata,
        FeatureUpdate,
        QuorumDescription,
        QuorumReplica,
        RaftEndpoint,
        UpgradeType,
    )
    from levada.admin.configs import (
        AlterConfigOp,
        ConfigEntry,
        ConfigResource,
        ConfigResourceType,
        ConfigSource,
        ConfigSynonym,
        ConfigType,
    )
    from levada.admin.describing_topics import TopicDescription
    from levada.admin.detached_transactions import TransactionOutcome
    from levada.admin.group_types import (
        ClassicGroupDescription,
        ConsumerGroupDescription,
        GroupListing,
        GroupState,
        GroupType,
        MemberDescription,
        ShareGroupDescription,
        ShareMemberDescription,
        StreamsGroupDescription,
        StreamsInternalTopic,
        StreamsMemberDescription,
        StreamsSubtopology,
        StreamsTasks,
    )
    from levada.admin.log_dirs import LogDirDescription, LogDirReplica, ReplicaLogDirs
    from levada.admin.partitions import ElectionType, PartitionReassignment
    from levada.admin.quotas import ClientQuotaEntity, ClientQuotaFilter, ClientQuotaName
    from levada.admin.share_offsets import SharePartitionOffset
    from levada.admin.tokens import DelegationToken
    from levada.admin.topics import CreatedTopic
    from levada.admin.transactions import FencedProducer, ProducerState, TransactionDescription, TransactionListing, TransactionState
    from levada.admin.users import ScramCredentialInfo, UserScramCredentialDeletion, UserScramCredentialUpsertion
    from levada.consumer.acks.record import AckRecord
    from levada.consumer.health import Condition, ConsumerHealth, OpenTransaction, PartitionHealth
    from levada.consumer.positions.position_resetter import PositionReset
    from levada.credentials import BlockingStep, OAuthToken, SaslMechanism
    from levada.dead_letter import DeadLetter
    from levada.errors import KafkaError, Persisted
    from levada.groups import (
        MemberAssignment,
        MemberSubscription,
        PartitionAssignor,
        RebalanceListener,
        RebalanceProtocol,
        SubscriptionPattern,
        TopicLayout,
    )
    from levada.interceptors import ConsumerInterceptor, ProducerInterceptor, ProducerRecord
    from levada.metrics import MetricName, Metrics
    from levada.producer.append.partitioning import RoundRobin
    from levada.producer.delivery.arrow_delivery import ArrowDelivery, ArrowReport
    from levada.producer.delivery.delivery import Delivery
    from levada.sync.ack_buffer import AckBuffer
    from levada.sync.acks import Acks
    from levada.sync.admin import KafkaAdmin
    from levada.sync.client import KafkaClient
    from levada.sync.consumer import KafkaConsumer
    from levada.sync.producer import KafkaProducer
    from levada.sync.scan import Loss, Scan, ScanProgress, scan
    from levada.sync.share_consumer import KafkaShareConsumer
    from levada.sync.transaction import Transaction
    from levada.types import (
        AbortTransactionSpec,
        AcknowledgeType,
        ConsumerGroupMetadata,
        ConsumerRecord,
        ConsumerRecords,
        IsolationLevel,
        NewPartitions,
        NewTopic,
        Node,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        OffsetSpec,
        PartitionInfo,
        RecordMetadata,
        SealedBatch,
        ShareRecord,
        ShareRecords,
        TimestampType,
        TopicPartition,
        TopicPartitionReplica,
        TransactionHandle,
    )

_HOME = {
    "AckBuffer": "levada.sync.ack_buffer",
    "AckRecord": "levada.consumer.acks.record",
    "Acks": "levada.sync.acks",
    "KafkaAdmin": "levada.sync.admin",
    "KafkaClient": "levada.sync.client",
    "KafkaConsumer": "levada.sync.consumer",
    "KafkaProducer": "levada.sync.producer",
    "KafkaShareConsumer": "levada.sync.share_consumer",
    "Loss": "levada.sync.scan",
    "RoundRobin": "levada.producer.append.partitioning",
    "Scan": "levada.sync.scan",
    "ScanProgress": "levada.sync.scan",
    "scan": "levada.sync.scan",
    "Transaction": "levada.sync.transaction",
    "ClusterDescription": "levada.admin.cluster",
    "FeatureLevels": "levada.admin.cluster",
    "FeatureMetadata": "levada.admin.cluster",
    "FeatureUpdate": "levada.admin.cluster",
    "QuorumDescription": "levada.admin.cluster",
    "QuorumReplica": "levada.admin.cluster",
    "RaftEndpoint": "levada.admin.cluster",
    "UpgradeType": "levada.admin.cluster",
    "AlterConfigOp": "levada.admin.configs",
    "ConfigEntry": "levada.admin.configs",
    "ConfigResource": "levada.admin.configs",
    "ConfigResourceType": "levada.admin.configs",
    "ConfigSource": "levada.admin.configs",
    "ConfigSynonym": "levada.admin.configs",
    "ConfigType": "levada.admin.configs",
    "LogDirDescription": "levada.admin.log_dirs",
    "LogDirReplica": "levada.admin.log_dirs",
    "ReplicaLogDirs": "levada.admin.log_dirs",
    "ElectionType": "levada.admin.partitions",
    "OffsetSpec": "levada.types",
    "PartitionReassignment": "levada.admin.partitions",
    "NewPartitions": "levada.types",
    "TopicPartitionReplica": "levada.types",
    "CreatedTopic": "levada.admin.topics",
    "TopicDescription": "levada.admin.describing_topics",
    "AccessControlEntry": "levada.acls",
    "AccessControlEntryFilter": "levada.acls",
    "AclBinding": "levada.acls",
    "AclBindingFilter": "levada.acls",
    "AclOperation": "levada.acls",
    "AclPermissionType": "levada.acls",
    "PatternType": "levada.acls",
    "ResourcePattern": "levada.acls",
    "ResourcePatternFilter": "levada.acls",
    "ResourceType": "levada.acls",
    "ClassicGroupDescription": "levada.admin.group_types",
    "ConsumerGroupDescription": "levada.admin.group_types",
    "GroupListing": "levada.admin.group_types",
    "GroupState": "levada.admin.group_types",
    "GroupType": "levada.admin.group_types",
    "MemberDescription": "levada.admin.group_types",
    "SharePartitionOffset": "levada.admin.share_offsets",
    "ShareGroupDescription": "levada.admin.group_types",
    "ShareMemberDescription": "levada.admin.group_types",
    "StreamsGroupDescription": "levada.admin.group_types",
    "StreamsInternalTopic": "levada.admin.group_types",
    "StreamsMemberDescription": "levada.admin.group_types",
    "StreamsSubtopology": "levada.admin.group_types",
    "StreamsTasks": "levada.admin.group_types",
    "FencedProducer": "levada.admin.transactions",
    "ProducerState": "levada.admin.transactions",
    "TransactionDescription": "levada.admin.transactions",
    "TransactionListing": "levada.admin.transactions",
    "TransactionOutcome": "levada.admin.detached_transactions",
    "TransactionState": "levada.admin.transactions",
    "ClientQuotaEntity": "levada.admin.quotas",
    "ClientQuotaFilter": "levada.admin.quotas",
    "ClientQuotaName": "levada.admin.quotas",
    "DelegationToken": "levada.admin.tokens",
    "ScramCredentialInfo": "levada.admin.users",
    "UserScramCredentialDeletion": "levada.admin.users",
    "UserScramCredentialUpsertion": "levada.admin.users",
    "Condition": "levada.consumer.health",
    "ConsumerHealth": "levada.consumer.health",
    "OpenTransaction": "levada.consumer.health",
    "PartitionHealth": "levada.consumer.health",
    "PositionReset": "levada.consumer.positions.position_resetter",
    "ArrowDelivery": "levada.producer.delivery.arrow_delivery",
    "ArrowReport": "levada.producer.delivery.arrow_delivery",
    "Delivery": "levada.producer.delivery.delivery",
    "DeadLetter": "levada.dead_letter",
    "BlockingStep": "levada.credentials",
    "OAuthToken": "levada.credentials",
    "SaslMechanism": "levada.credentials",
    "ConsumerInterceptor": "levada.interceptors",
    "ProducerInterceptor": "levada.interceptors",
    "ProducerRecord": "levada.interceptors",
    "MetricName": "levada.metrics",
    "Metrics": "levada.metrics",
    "MemberAssignment": "levada.groups",
    "MemberSubscription": "levada.groups",
    "PartitionAssignor": "levada.groups",
    "RebalanceListener": "levada.groups",
    "RebalanceProtocol": "levada.groups",
    "SubscriptionPattern": "levada.groups",
    "TopicLayout": "levada.groups",
    "KafkaError": "levada.errors",
    "Persisted": "levada.errors",
    "AbortTransactionSpec": "levada.types",
    "AcknowledgeType": "levada.types",
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
    "ShareRecord": "levada.types",
    "ShareRecords": "levada.types",
    "TimestampType": "levada.types",
    "TopicPartition": "levada.types",
    "SealedBatch": "levada.types",
    "TransactionHandle": "levada.types",
}

__all__ = [
    "AbortTransactionSpec",
    "AccessControlEntry",
    "AccessControlEntryFilter",
    "AckBuffer",
    "AckRecord",
    "AcknowledgeType",
    "Acks",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "AlterConfigOp",
    "ArrowDelivery",
    "ArrowReport",
    "BlockingStep",
    "ClassicGroupDescription",
    "ClientQuotaEntity",
    "ClientQuotaFilter",
    "ClientQuotaName",
    "ClusterDescription",
    "Condition",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "ConsumerGroupDescription",
    "ConsumerGroupMetadata",
    "ConsumerHealth",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "ConsumerRecords",
    "CreatedTopic",
    "DeadLetter",
    "DelegationToken",
    "Delivery",
    "ElectionType",
    "FeatureLevels",
    "FeatureMetadata",
    "FeatureUpdate",
    "FencedProducer",
    "GroupListing",
    "GroupState",
    "GroupType",
    "IsolationLevel",
    "KafkaAdmin",
    "KafkaClient",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "KafkaShareConsumer",
    "LogDirDescription",
    "LogDirReplica",
    "Loss",
    "MemberAssignment",
    "MemberDescription",
    "MemberSubscription",
    "MetricName",
    "Metrics",
    "NewPartitions",
    "NewTopic",
    "Node",
    "OAuthToken",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "OpenTransaction",
    "PartitionAssignor",
    "PartitionHealth",
    "PartitionInfo",
    "PartitionReassignment",
    "PatternType",
    "Persisted",
    "PositionReset",
    "ProducerInterceptor",
    "ProducerRecord",
    "ProducerState",
    "QuorumDescription",
    "QuorumReplica",
    "RaftEndpoint",
    "RebalanceListener",
    "RebalanceProtocol",
    "RecordMetadata",
    "ReplicaLogDirs",
    "ResourcePattern",
    "ResourcePatternFilter",
    "ResourceType",
    "RoundRobin",
    "SaslMechanism",
    "Scan",
    "ScanProgress",
    "ScramCredentialInfo",
    "SealedBatch",
    "ShareGroupDescription",
    "ShareMemberDescription",
    "SharePartitionOffset",
    "ShareRecord",
    "ShareRecords",
    "StreamsGroupDescription",
    "StreamsInternalTopic",
    "StreamsMemberDescription",
    "StreamsSubtopology",
    "StreamsTasks",
    "SubscriptionPattern",
    "TimestampType",
    "TopicDescription",
    "TopicLayout",
    "TopicPartition",
    "TopicPartitionReplica",
    "Transaction",
    "TransactionDescription",
    "TransactionHandle",
    "TransactionListing",
    "TransactionOutcome",
    "TransactionState",
    "UpgradeType",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "errors",
    "scan",
]


obey_environment()


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_undisturbed("levada.errors")
    if name not in _HOME:
        raise no_such_name(__name__, name)
    return getattr(import_undisturbed(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
