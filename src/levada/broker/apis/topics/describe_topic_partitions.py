"""DescribeTopicPartitions: topics, page by page (KIP-966)."""

from __future__ import annotations

from collections.abc import Iterator

from levada.acls import ResourceType
from levada.broker.access.permissions import authorized_operations, may
from levada.broker.cluster.cluster import Cluster
from levada.broker.cluster.topic import Topic
from levada.broker.coordinators.internal_topics import is_internal
from levada.broker.node.state import Api, Call
from levada.broker.replication.partition import Partition
from levada.error_codes import ErrorCode
from levada.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from levada.types import is_topic_name

_MOST_PARTITIONS = 2_000


def handle(call: Call) -> DescribeTopicPartitionsResponse:
    """Return topics in the order of their names, beginning at the cursor, up to the maximum number of partitions in a response."""
    request: DescribeTopicPartitionsRequest = call.request
    cursor = request.cursor
    if cursor is not None and not _is_within(cursor, request):
        return refuse(request, call.version, ErrorCode.INVALID_REQUEST)
    response = DescribeTopicPartitionsResponse()
    left = max(min(request.response_partition_limit, _MOST_PARTITIONS), 1)
    for name in _names(call):
        topic = call.state.cluster.topic(name)
        if topic is None or not may(call, ResourceType.TOPIC, name):
            response.topics.append(_missing(call, name))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        page = topic.partitions[first : first + left]
        response.topics.append(_describe(call, topic, page))
        left -= len(page)
        if first + len(page) < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=first + len(page))
            break
    return response


def refuse(request: DescribeTopicPartitionsRequest, version: int, code: ErrorCode) -> DescribeTopicPartitionsResponse:
    """Answer with an error for every topic named."""
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name) for topic in request.topics]
    )


def _missing(call: Call, name: str) -> DescribeTopicPartitionsResponseTopic:
    """Return the answer for a topic that does not exist, or that the client may not describe. Such a client does not learn whether the
    topic exists.
    """
    if not may(call, ResourceType.TOPIC, name):
        return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_topic_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=authorized_operations(call, ResourceType.TOPIC, name, is_asked=True),
    )


def _is_within(cursor: Cursor, request: DescribeTopicPartitionsRequest) -> bool:
    names = {topic.name for topic in request.topics}
    return cursor.partition_index >= 0 and (not names or cursor.topic_name in names)


def _names(call: Call) -> Iterator[str]:
    request: DescribeTopicPartitionsRequest = call.request
    seen = (name for name in call.state.cluster.topics if may(call, ResourceType.TOPIC, name))
    wanted = {topic.name for topic in request.topics} or set(seen)
    first = "" if request.cursor is None else request.cursor.topic_name
    return (name for name in sorted(wanted) if name >= first)


def _describe(call: Call, topic: Topic, page: list[Partition]) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_describe_partition(call.state.cluster, partition) for partition in page],
        topic_authorized_operations=authorized_operations(call, ResourceType.TOPIC, topic.name, is_asked=True),
    )


def _describe_partition(cluster: Cluster, partition: Partition) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=partition.name.partition,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[node_id for node_id in partition.replicas if node_id in cluster.stopped],
    )


API = Api(DescribeTopicPartitionsRequest, 0, 0, handle, refuse, 0)
