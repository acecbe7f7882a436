"""SyncGroup: the leader of a classic group sends the assignment, and every member gets its part."""

from __future__ import annotations

from levada.base.promise import Promise
from levada.broker.coordinators.groups.consumer_group import ConsumerGroup
from levada.broker.node.answers import deferred_answer
from levada.broker.node.state import Answer, Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

NAMES_PROTOCOL = 5


def handle(call: Call) -> Answer:
    """Answer with the member's assignment when the leader has sent the assignments; in a consumer group, at once."""
    request: SyncGroupRequest = call.request

    def sync() -> Promise[SyncGroupResponse]:
        if call.version >= NAMES_PROTOCOL and None in (request.protocol_type, request.protocol_name):
            raise BrokerError("the member does not name its assignor", code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        groups = call.state.groups
        groups.check_named(request.group_id)
        group = groups.existing_of_consumers(request.group_id)
        if isinstance(group, ConsumerGroup):
            return Promise.resolved(groups.mixed.sync(group, request, call.now_ms))
        return groups.classic.sync(group, request, call.now_ms)

    return deferred_answer(sync, lambda error: refuse(request, call.version, error.code))


def refuse(request: SyncGroupRequest, version: int, code: ErrorCode) -> SyncGroupResponse:
    """Answer with an error and no assignment."""
    return SyncGroupResponse(error_code=code)


API = Api(SyncGroupRequest, 0, 5, handle, refuse, 0)
