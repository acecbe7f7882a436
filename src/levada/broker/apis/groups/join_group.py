"""JoinGroup: become a member of a classic group, or take part in its next rebalance."""

from __future__ import annotations

from levada.base.promise import Promise
from levada.broker.coordinators.groups.classic_group import JoinRefusedError
from levada.broker.coordinators.groups.consumer_group import ConsumerGroup
from levada.broker.node.answers import deferred_answer
from levada.broker.node.state import Answer, Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

FIRST_VERSION_WITHOUT_PROTOCOL = 7


def handle(call: Call) -> Answer:
    """Let a member join. In a consumer group, answer at once. In a classic group, answer when the members have joined the rebalance, or at
    once if no rebalance is needed. An error is the answer as soon as the request is refused.
    """
    request: JoinGroupRequest = call.request

    def join() -> Promise[JoinGroupResponse]:
        groups = call.state.groups
        groups.check_named(request.group_id)
        groups.classic.check_session_timeout(request)
        group = groups.joinable_by_classic(request.group_id, is_new=not request.member_id)
        if isinstance(group, ConsumerGroup):
            return Promise.resolved(groups.mixed.join(group, request, call.version, call.origin, call.now_ms))
        return groups.classic.join(group, request, call.version, call.origin, call.now_ms)

    def refused(error: BrokerError) -> JoinGroupResponse:
        response = refuse(request, call.version, error.code)
        if isinstance(error, JoinRefusedError):
            response.member_id = error.member_id
        return response

    return deferred_answer(join, refused)


def refuse(request: JoinGroupRequest, version: int, code: ErrorCode) -> JoinGroupResponse:
    """Return a response with this error and the member id of the request."""
    protocol_name = None if version >= FIRST_VERSION_WITHOUT_PROTOCOL else ""
    return JoinGroupResponse(error_code=code, member_id=request.member_id, protocol_name=protocol_name)


API = Api(JoinGroupRequest, 0, 9, handle, refuse, 0)
