"""DescribeShareGroupOffsets: the start offsets of share groups (KIP-932, KIP-1226)."""

from __future__ import annotations

from collections.abc import Iterable

from levada.acls import ResourceType
from levada.broker.access.permissions import check, may
from levada.broker.cluster.topic import Topic
from levada.broker.node.state import Api, Call
from levada.broker.share.requests import check_share_groups
from levada.broker.share.share_states import ShareKey
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from levada.protocol.schema import ZERO_UUID

NOT_STORED = -1


def handle(call: Call) -> DescribeShareGroupOffsetsResponse:
    """Describe each group separately. A group whose partitions are all requested is described only once, because a small request may name
    it a thousand times.
    """
    groups = {(one.group_id, None if one.topics is None else index): one for index, one in enumerate(call.request.groups)}
    return DescribeShareGroupOffsetsResponse(groups=[_describe(call, wanted) for wanted in groups.values()])


def refuse(request: DescribeShareGroupOffsetsRequest, version: int, code: ErrorCode) -> DescribeShareGroupOffsetsResponse:
    """Answer with an error for every group."""
    failures = [DescribeShareGroupOffsetsResponseGroup(group_id=wanted.group_id, error_code=code) for wanted in request.groups]
    return DescribeShareGroupOffsetsResponse(groups=failures)


def _describe(call: Call, wanted: DescribeShareGroupOffsetsRequestGroup) -> DescribeShareGroupOffsetsResponseGroup:
    try:
        check_share_groups(call)
        check(call, ResourceType.GROUP, wanted.group_id)
        call.state.groups.check_named(wanted.group_id)
    except BrokerError as error:
        return DescribeShareGroupOffsetsResponseGroup(group_id=wanted.group_id, error_code=error.code, error_message=error.reason)
    topics = _all(call, wanted.group_id) if wanted.topics is None else wanted.topics
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=wanted.group_id, topics=[_topic(call, wanted.group_id, topic.topic_name, topic.partitions) for topic in topics]
    )


def _all(call: Call, group_id: str) -> list[DescribeShareGroupOffsetsRequestTopic]:
    """Return all partitions for which a group has a state, as topics of a request."""
    found: dict[str, DescribeShareGroupOffsetsRequestTopic] = {}
    for key in sorted(call.state.cluster.share_states.of_group(group_id)):
        topic = call.state.cluster.topic_by_id(key.topic_id)
        if topic is not None and may(call, ResourceType.TOPIC, topic.name):
            entry = found.setdefault(topic.name, DescribeShareGroupOffsetsRequestTopic(topic_name=topic.name, partitions=[]))
            entry.partitions.append(key.partition)
    return list(found.values())


def _topic(call: Call, group_id: str, name: str, partitions: Iterable[int]) -> DescribeShareGroupOffsetsResponseTopic:
    if not may(call, ResourceType.TOPIC, name):
        return _unseen(name, partitions)
    topic = call.state.cluster.topic(name)
    described = [_partition(call, group_id, topic, index) for index in partitions]
    return DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=ZERO_UUID if topic is None else topic.id, partitions=described)


def _unseen(name: str, partitions: Iterable[int]) -> DescribeShareGroupOffsetsResponseTopic:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    failures = [DescribeShareGroupOffsetsResponsePartition(partition_index=index, error_code=code) for index in partitions]
    return DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=ZERO_UUID, partitions=failures)


def _partition(call: Call, group_id: str, topic: Topic | None, index: int) -> DescribeShareGroupOffsetsResponsePartition:
    """Describe a group's start offset in a partition. Without a stored offset, start offset and lag are -1, and no error is returned."""
    state = None if topic is None else call.state.cluster.share_states.find(ShareKey(group_id, topic.id, index))
    if topic is None or state is None or state.partition is None or not state.is_stored:
        return DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=NOT_STORED, lag=NOT_STORED)
    partition, share = topic.partitions[index], state.partition
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=share.start_offset,
        leader_epoch=partition.leader_epoch,
        lag=max(partition.log.high_watermark - share.start_offset - share.finished, 0),
    )


API = Api(DescribeShareGroupOffsetsRequest, 0, 1, handle, refuse, 0)
