"""OffsetFetch: the committed offsets of groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from levada.acls import ResourceType
from levada.broker.access.permissions import check, find_topic, may
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from levada.protocol.schema import ZERO_UUID
from levada.types import NO_LEADER_EPOCH, UNKNOWN_OFFSET, OffsetAndMetadata, TopicPartition

FIRST_VERSION_WITH_GROUP_ERROR = 2
FIRST_VERSION_WITH_GROUPS = 8
FIRST_VERSION_BY_ID = 10

_NOTHING = OffsetAndMetadata(UNKNOWN_OFFSET, NO_LEADER_EPOCH, "")


def handle(call: Call) -> OffsetFetchResponse:
    """Return the committed offsets of each group separately."""
    return _response([_group(call, wanted) for wanted in _wanted(call.request, call.version)], call.version)


def refuse(request: OffsetFetchRequest, version: int, code: ErrorCode) -> OffsetFetchResponse:
    """Answer with an error for every group."""
    return _response([_failure(wanted, code, version) for wanted in _wanted(request, version)], version)


def _wanted(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """Return the groups in the request. Versions with a single group are handled, too."""
    if version >= FIRST_VERSION_WITH_GROUPS:
        # All offsets of a group only once: a small request may ask for them a thousand times.
        return list({(one.group_id, None if one.topics is None else index): one for index, one in enumerate(request.groups)}.values())
    topics = None
    if request.topics is not None:
        topics = [OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def _response(groups: list[OffsetFetchResponseGroup], version: int) -> OffsetFetchResponse:
    if version >= FIRST_VERSION_WITH_GROUPS:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    # Version 1 has errors only in partitions.
    part_code = group.error_code if version < FIRST_VERSION_WITH_GROUP_ERROR else ErrorCode.NONE
    topics = [
        OffsetFetchResponseTopic(name=topic.name, partitions=[_old_part(part, part_code) for part in topic.partitions])
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


def _old_part(part: OffsetFetchResponsePartitions, code: int) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=part.partition_index,
        committed_offset=part.committed_offset,
        committed_leader_epoch=part.committed_leader_epoch,
        metadata=part.metadata,
        error_code=part.error_code or code,
    )


def _group(call: Call, wanted: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    try:
        check(call, ResourceType.GROUP, wanted.group_id)
        call.state.groups.check(wanted.group_id)
        call.state.groups.check_offset_fetch(wanted.group_id, wanted.member_id, wanted.member_epoch)
    except BrokerError as error:
        return _failure(wanted, error.code, call.version)
    topics = _all_topics(call, wanted.group_id) if wanted.topics is None else wanted.topics
    return OffsetFetchResponseGroup(group_id=wanted.group_id, topics=[_topic(call, wanted.group_id, topic) for topic in topics])


def _failure(wanted: OffsetFetchRequestGroup, code: ErrorCode, version: int) -> OffsetFetchResponseGroup:
    """Return the answer for a group with an error: without topics or, for versions without an error code for the group, with the topics of
    the request; _response() puts the error in their partitions.
    """
    if version >= FIRST_VERSION_WITH_GROUP_ERROR:
        return OffsetFetchResponseGroup(group_id=wanted.group_id, error_code=code)
    topics = [
        _topic_response(topic, [_part(index, _NOTHING, ErrorCode.NONE) for index in topic.partition_indexes])
        for topic in wanted.topics or ()
    ]
    return OffsetFetchResponseGroup(group_id=wanted.group_id, topics=topics, error_code=code)


def _all_topics(call: Call, group: str) -> Iterable[OffsetFetchRequestTopics]:
    cluster = call.state.cluster
    found: dict[str, OffsetFetchRequestTopics] = {}
    for tp in cluster.group_offsets.partitions(group):
        topic = cluster.topic(tp.topic)
        if topic is not None and may(call, ResourceType.TOPIC, topic.name):
            wanted = found.setdefault(tp.topic, OffsetFetchRequestTopics(name=topic.name, topic_id=topic.id, partition_indexes=[]))
            wanted.partition_indexes.append(tp.partition)
    return found.values()


def _topic(call: Call, group: str, wanted: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    try:
        name = _name(call, wanted)
    except BrokerError as error:
        return _topic_response(wanted, [_part(index, _NOTHING, error.code) for index in wanted.partition_indexes])
    return _topic_response(wanted, [_committed(call, group, TopicPartition(name, index)) for index in wanted.partition_indexes])


def _name(call: Call, wanted: OffsetFetchRequestTopics) -> str:
    """Return the name of a topic in the request. A name that the cluster does not know is no error, because offsets may be committed for
    it.
    """
    if call.version >= FIRST_VERSION_BY_ID:
        return find_topic(call, "", wanted.topic_id, by_id=True).name
    check(call, ResourceType.TOPIC, wanted.name)
    return wanted.name


def _committed(call: Call, group: str, tp: TopicPartition) -> OffsetFetchResponsePartitions:
    offsets = call.state.cluster.group_offsets
    planned = call.state.faults.partition_error(OffsetFetchRequest.NAME, tp)
    if planned is not ErrorCode.NONE:
        return _part(tp.partition, _NOTHING, planned)
    if call.request.require_stable and offsets.is_pending(group, tp):
        return _part(tp.partition, _NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    return _part(tp.partition, offsets.committed(group, tp) or _NOTHING, ErrorCode.NONE)


def _part(index: int, found: OffsetAndMetadata, code: ErrorCode) -> OffsetFetchResponsePartitions:
    fields: dict[str, Any] = {"committed_offset": found.offset, "committed_leader_epoch": found.leader_epoch, "metadata": found.metadata}
    return OffsetFetchResponsePartitions(partition_index=index, error_code=code, **fields)


def _topic_response(topic: OffsetFetchRequestTopics, parts: Sequence[OffsetFetchResponsePartitions]) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id or ZERO_UUID, partitions=list(parts))


API = Api(OffsetFetchRequest, 1, 10, handle, refuse, 1)
