"""Heartbeat: a member of a classic group keeps its session, and learns of rebalances."""

from __future__ import annotations

from levada.broker.coordinators.groups.consumer_group import ConsumerGroup
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(call: Call) -> HeartbeatResponse:
    """Restart the session of the member. While its group is being loaded, a heartbeat is accepted but has no effect."""
    request: HeartbeatRequest = call.request
    groups = call.state.groups
    try:
        groups.check_named(request.group_id)
        group = groups.existing_of_consumers(request.group_id)
        who = request.member_id, request.group_instance_id, request.generation_id
        if isinstance(group, ConsumerGroup):
            groups.mixed.heartbeat(group, *who, call.now_ms)
        else:
            groups.classic.heartbeat(group, *who, call.now_ms)
    except BrokerError as error:
        is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error.code)
    return HeartbeatResponse()


def refuse(request: HeartbeatRequest, version: int, code: ErrorCode) -> HeartbeatResponse:
    """Answer with an error."""
    return HeartbeatResponse(error_code=code)


API = Api(HeartbeatRequest, 0, 4, handle, refuse, 0)
