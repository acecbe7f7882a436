"""Metadata: the brokers, and the topics asked for; a missing topic may be created (E11)."""

from __future__ import annotations

from collections.abc import Iterable

from levada.broker.cluster import Cluster, Topic
from levada.broker.partition import NO_LEADER, Partition
from levada.broker.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.metadata import (
    OPERATIONS_NOT_ASKED,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from levada.types import Node, is_topic_name

# Kafka answers with all operations of the resource when no authorizer is configured: one bit per operation.
_TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
_CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
_ALLOWS_NULL_NAMES = 12


def handle(call: Call) -> MetadataResponse:
    """Describe the cluster and the topics."""
    request: MetadataRequest = call.request
    if call.version < _ALLOWS_NULL_NAMES and any(topic.name is None for topic in request.topics or ()):
        return refuse(request, call.version, ErrorCode.INVALID_REQUEST)
    cluster = call.state.cluster
    return MetadataResponse(
        brokers=[_describe_node(node) for node_id, node in cluster.nodes.items() if node_id not in cluster.stopped],
        cluster_id=cluster.id,
        controller_id=cluster.controller_id,
        topics=[_describe(call, topic) for topic in _wanted(call)],
        cluster_authorized_operations=_CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else OPERATIONS_NOT_ASKED,
    )


def _describe_node(node: Node) -> MetadataResponseBroker:
    return MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)


def refuse(request: MetadataRequest, version: int, code: ErrorCode) -> MetadataResponse:
    """Answer with an error for every topic named."""
    return MetadataResponse(
        error_code=code,
        topics=[MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id) for topic in request.topics or ()],
    )


def _wanted(call: Call) -> Iterable[MetadataRequestTopic]:
    topics = call.request.topics
    if topics is None or (call.version == 0 and not topics):
        return [MetadataRequestTopic(name=name) for name in list(call.state.cluster.topics)]
    return list(topics)


def _describe(call: Call, wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    if wanted.name is None:
        return _describe_by_id(call, wanted)
    topic = call.state.cluster.topic(wanted.name)
    if topic is not None:
        return _found(call, topic)
    return MetadataResponseTopic(error_code=_create_missing(call, wanted.name), name=wanted.name)


def _describe_by_id(call: Call, wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    topic = call.state.cluster.topic_by_id(wanted.topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
    return _found(call, topic)


def _create_missing(call: Call, name: str) -> ErrorCode:
    """Create a topic if that is wanted and allowed. Like Kafka's, this answer does not know it yet; the client asks again."""
    if not is_topic_name(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if call.request.allow_auto_topic_creation and call.state.settings.auto_create_topics_enable:
        try:
            call.state.cluster.add(call.state.cluster.plan(name))
        except BrokerError as error:
            return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _found(call: Call, topic: Topic) -> MetadataResponseTopic:
    operations = _TOPIC_OPERATIONS if call.request.include_topic_authorized_operations else OPERATIONS_NOT_ASKED
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        partitions=[_describe_partition(partition, call.state.cluster) for partition in topic.partitions],
        topic_authorized_operations=operations,
    )


def _describe_partition(partition: Partition, cluster: Cluster) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.name.partition,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=[node_id for node_id in partition.replicas if node_id in cluster.stopped],
    )


API = Api(MetadataRequest, 0, 13, handle, refuse, 0)
