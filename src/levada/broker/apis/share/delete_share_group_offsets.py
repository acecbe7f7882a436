"""DeleteShareGroupOffsets: delete the offsets of a share group without members, by topic (KIP-932)."""

from __future__ import annotations

from levada.broker.access.permissions import find_topic
from levada.broker.coordinators.groups.groups import check_is_empty
from levada.broker.node.state import Api, Call
from levada.broker.share.requests import check_share_groups
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from levada.protocol.schema import ZERO_UUID


def handle(call: Call) -> DeleteShareGroupOffsetsResponse:
    """Delete the offsets of each topic separately."""
    request: DeleteShareGroupOffsetsRequest = call.request
    try:
        check_share_groups(call)
        call.state.groups.check_named(request.group_id)
        check_is_empty(call.state.groups.existing_share(request.group_id))
    except BrokerError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.reason)
    return DeleteShareGroupOffsetsResponse(responses=[_delete(call, request.group_id, topic.topic_name) for topic in request.topics])


def refuse(request: DeleteShareGroupOffsetsRequest, version: int, code: ErrorCode) -> DeleteShareGroupOffsetsResponse:
    """Answer with an error."""
    return DeleteShareGroupOffsetsResponse(error_code=code)


def _delete(call: Call, group_id: str, name: str) -> DeleteShareGroupOffsetsResponseTopic:
    try:
        topic = find_topic(call, name, ZERO_UUID, by_id=False)
    except BrokerError as error:
        return DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=ZERO_UUID, error_code=error.code)
    states = call.state.cluster.share_states
    for key in [key for key in states.of_group(group_id) if key.topic_id == topic.id]:
        states.forget(key)
    return DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic.id)


API = Api(DeleteShareGroupOffsetsRequest, 0, 0, handle, refuse, 0)
