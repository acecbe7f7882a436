"""AlterShareGroupOffsets: set the start offsets of a share group without members (KIP-932)."""

from __future__ import annotations

from levada.acls import ResourceType
from levada.broker.access.permissions import may
from levada.broker.coordinators.groups.groups import check_is_empty
from levada.broker.node.state import Api, Call
from levada.broker.share.requests import check_share_groups
from levada.broker.share.share_states import ShareKey
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from levada.protocol.schema import ZERO_UUID


def handle(call: Call) -> AlterShareGroupOffsetsResponse:
    """Set each partition separately. A group that does not exist is created if the client may change one of the topics."""
    request: AlterShareGroupOffsetsRequest = call.request
    try:
        check_share_groups(call)
        call.state.groups.check_named(request.group_id)
        if any(may(call, ResourceType.TOPIC, topic.topic_name) for topic in request.topics):
            check_is_empty(call.state.groups.joinable_by_share(request.group_id))
    except BrokerError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.reason)
    return AlterShareGroupOffsetsResponse(responses=[_alter(call, request.group_id, topic) for topic in request.topics])


def refuse(request: AlterShareGroupOffsetsRequest, version: int, code: ErrorCode) -> AlterShareGroupOffsetsResponse:
    """Answer with an error."""
    return AlterShareGroupOffsetsResponse(error_code=code)


def _alter(call: Call, group_id: str, wanted: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsResponseTopic:
    is_allowed = may(call, ResourceType.TOPIC, wanted.topic_name)
    topic = call.state.cluster.topic(wanted.topic_name) if is_allowed else None
    answers = []
    for asked in wanted.partitions:
        answer = AlterShareGroupOffsetsResponsePartition(partition_index=asked.partition_index)
        if topic is None or not 0 <= asked.partition_index < len(topic.partitions):
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        else:
            key = ShareKey(group_id, topic.id, asked.partition_index)
            call.state.cluster.share_states.start_at(key, asked.start_offset, call.wall_ms)
        answers.append(answer)
    topic_id = ZERO_UUID if topic is None else topic.id
    return AlterShareGroupOffsetsResponseTopic(topic_name=wanted.topic_name, topic_id=topic_id, partitions=answers)


API = Api(AlterShareGroupOffsetsRequest, 0, 0, handle, refuse, 0)
