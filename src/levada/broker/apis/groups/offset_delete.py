"""OffsetDelete: delete committed offsets of a group (KIP-496)."""

from __future__ import annotations

from levada.broker.cluster.topic import Topic
from levada.broker.node.answers import answer_each
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, broker_error
from levada.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(call: Call) -> OffsetDeleteResponse:
    """Delete the offset of each partition separately. If a partition has no offset, this is no error. Offsets of topics to which the group
    subscribes are not deleted.
    """
    request: OffsetDeleteRequest = call.request
    try:
        call.state.groups.check_named(request.group_id)
        group = call.state.groups.check_offset_delete(request.group_id)
    except BrokerError as error:
        return refuse(request, call.version, error.code)

    def delete(call: Call, topic: Topic, wanted: OffsetDeleteRequestPartition) -> OffsetDeleteResponsePartition:
        partition = call.state.cluster.partition(topic, wanted.partition_index)
        if group.is_subscribed(topic.name):
            raise broker_error(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, f"group '{group.id}' reads {partition.name}")
        call.state.cluster.group_offsets.delete(group.id, [partition.name])
        return OffsetDeleteResponsePartition(partition_index=wanted.partition_index)

    topics = [
        OffsetDeleteResponseTopic(name=topic.name, partitions=answer_each(call, topic.name, topic.partitions, delete, _failure))
        for topic in request.topics
    ]
    return OffsetDeleteResponse(topics=topics)


def refuse(request: OffsetDeleteRequest, version: int, code: ErrorCode) -> OffsetDeleteResponse:
    """Answer with an error for the whole group."""
    return OffsetDeleteResponse(error_code=code)


def _failure(wanted: OffsetDeleteRequestPartition, code: ErrorCode) -> OffsetDeleteResponsePartition:
    return OffsetDeleteResponsePartition(partition_index=wanted.partition_index, error_code=code)


API = Api(OffsetDeleteRequest, 0, 0, handle, refuse, 0)
