"""LeaveGroup: members of the classic protocol leave their group, or an administrator removes members from a classic or consumer group."""

from __future__ import annotations

from collections.abc import Sequence

from levada.broker.coordinators.groups.consumer_group import ConsumerGroup
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

FIRST_VERSION_WITH_MEMBERS = 3


def handle(call: Call) -> LeaveGroupResponse:
    """Remove each member separately. The remaining members of a classic group rebalance only once."""
    request: LeaveGroupRequest = call.request
    members = _leavers(request, call.version)
    groups = call.state.groups
    try:
        groups.check_named(request.group_id)
    except BrokerError as error:
        return refuse(request, call.version, error.code)
    codes: list[ErrorCode] = []
    while len(codes) < len(members):
        rest = members[len(codes) :]
        try:
            group = groups.existing_of_consumers(request.group_id)
        except BrokerError as error:
            codes += [error.code] * len(rest)
            break
        # Look the group up for each member: a consumer group of which only classic members are left becomes a classic group.
        if isinstance(group, ConsumerGroup):
            codes.append(groups.mixed.leave(group, rest[0], call.now_ms))
        else:
            codes += groups.classic.leave(group, rest, call.now_ms)
    return _response(members, codes, call.version)


def refuse(request: LeaveGroupRequest, version: int, code: ErrorCode) -> LeaveGroupResponse:
    """Return a response with this error, without results for single members."""
    return LeaveGroupResponse(error_code=code)


def _leavers(request: LeaveGroupRequest, version: int) -> list[MemberIdentity]:
    """Return the members that leave the group. Versions with a single member are handled, too."""
    return request.members if version >= FIRST_VERSION_WITH_MEMBERS else [MemberIdentity(member_id=request.member_id)]


def _response(members: Sequence[MemberIdentity], codes: Sequence[ErrorCode], version: int) -> LeaveGroupResponse:
    if version < FIRST_VERSION_WITH_MEMBERS:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=code)
            for one, code in zip(members, codes, strict=True)
        ]
    )


API = Api(LeaveGroupRequest, 0, 5, handle, refuse, 0)
