"""Metadata: the brokers and topics; a missing topic may be created."""

from __future__ import annotations

from collections.abc import Collection

from levada.acls import AclOperation, ResourceType
from levada.broker.access.permissions import allows, authorized_operations, may, operations_on_cluster
from levada.broker.cluster.cluster import Cluster
from levada.broker.cluster.replica_assignment import MOST_NEW_PARTITIONS
from levada.broker.cluster.topic import Topic
from levada.broker.coordinators.internal_topics import CLUSTER_METADATA_TOPIC, is_internal
from levada.broker.node.state import Api, Call
from levada.broker.replication.partition import NO_LEADER, Partition
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, InvalidTopicError
from levada.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from levada.types import Node, is_topic_name

_ALLOWS_NULL_NAMES = 12


def handle(call: Call) -> MetadataResponse:
    """Describe the cluster and the requested topics, or all topics. Missing topics may be created."""
    request: MetadataRequest = call.request
    if call.version < _ALLOWS_NULL_NAMES and any(topic.name is None for topic in request.topics or ()):
        return refuse(request, call.version, ErrorCode.INVALID_REQUEST)
    cluster = call.state.cluster
    wanted = _wanted(call)
    few = _are_few_missing(call, wanted)
    return MetadataResponse(
        brokers=[_describe_node(node) for node_id, node in call.nodes.items() if node_id not in cluster.stopped],
        cluster_id=cluster.id,
        controller_id=cluster.controller_id,
        topics=[_describe(call, topic, few_missing=few) for topic in wanted],
        cluster_authorized_operations=operations_on_cluster(call, is_asked=request.include_cluster_authorized_operations),
    )


def _describe_node(node: Node) -> MetadataResponseBroker:
    return MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)


def refuse(request: MetadataRequest, version: int, code: ErrorCode) -> MetadataResponse:
    """Answer with an error for every topic named."""
    return MetadataResponse(
        error_code=code,
        topics=[MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id) for topic in request.topics or ()],
    )


def _wanted(call: Call) -> Collection[MetadataRequestTopic]:
    topics = call.request.topics
    if topics is None or (call.version == 0 and not topics):
        return [MetadataRequestTopic(name=name) for name in list(call.state.cluster.topics) if may(call, ResourceType.TOPIC, name)]
    # Each topic once, as in Kafka: a small request that names a large topic a thousand times must not cause a thousand answers.
    return {(topic.name, topic.topic_id): topic for topic in topics}.values()


def _are_few_missing(call: Call, wanted: Collection[MetadataRequestTopic]) -> bool:
    """Return whether the missing topics in the request may be created. Together they must not have more partitions than one CreateTopics
    request may create.
    """
    cluster = call.state.cluster
    missing = sum(topic.name is not None and cluster.topic(topic.name) is None for topic in wanted)
    return missing * cluster.settings.num_partitions <= MOST_NEW_PARTITIONS


def _describe(call: Call, wanted: MetadataRequestTopic, *, few_missing: bool) -> MetadataResponseTopic:
    if wanted.name is None:
        return _describe_by_id(call, wanted)
    if not may(call, ResourceType.TOPIC, wanted.name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=wanted.name)
    topic = call.state.cluster.topic(wanted.name)
    if topic is not None:
        return _found(call, topic)
    code = _create_missing(call, wanted.name, are_few=few_missing)
    # As in Kafka, authorized operations are returned for missing topics as well, except those that may not be created.
    is_told = code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED and call.request.include_topic_authorized_operations
    operations = authorized_operations(call, ResourceType.TOPIC, wanted.name, is_asked=is_told)
    return MetadataResponseTopic(
        error_code=code, name=wanted.name, is_internal=is_internal(wanted.name), topic_authorized_operations=operations
    )


def _describe_by_id(call: Call, wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    topic = call.state.cluster.topic_by_id(wanted.topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
    if not may(call, ResourceType.TOPIC, topic.name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=wanted.topic_id)
    return _found(call, topic)


def _create_missing(call: Call, name: str, *, are_few: bool) -> ErrorCode:
    """Create a topic if the request, the settings and the client's permissions allow it; return the error code for this response. As in
    Kafka, the client has to ask again for the topic.
    """
    creates = call.request.allow_auto_topic_creation and call.state.settings.auto_create_topics_enable
    if creates and not _may_create(call, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if not is_topic_name(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if creates and are_few and name != CLUSTER_METADATA_TOPIC:
        cluster = call.state.cluster
        try:
            if is_internal(name):
                cluster.create_internal_topic(name)
            else:
                cluster.add(cluster.plan(name))
        except InvalidTopicError:
            # The name collides with that of another topic. As in Kafka, the client does not get to know it.
            pass
        except BrokerError as error:
            return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _may_create(call: Call, name: str) -> bool:
    return allows(call, AclOperation.CREATE, ResourceType.CLUSTER) or allows(call, AclOperation.CREATE, ResourceType.TOPIC, name)


def _found(call: Call, topic: Topic) -> MetadataResponseTopic:
    is_asked = call.request.include_topic_authorized_operations
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_describe_partition(partition, call.state.cluster) for partition in topic.partitions],
        topic_authorized_operations=authorized_operations(call, ResourceType.TOPIC, topic.name, is_asked=is_asked),
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
