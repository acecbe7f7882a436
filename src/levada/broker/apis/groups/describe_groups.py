"""DescribeGroups: the states of classic groups, and their members."""

from __future__ import annotations

from levada.acls import ResourceType
from levada.broker.access.permissions import authorized_operations, check
from levada.broker.coordinators.groups.classic_group import ClassicGroup, ClassicMember
from levada.broker.coordinators.groups.group_states import State
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsRequest, DescribeGroupsResponse

FIRST_VERSION_WITH_MISSING_GROUPS = 6


def handle(call: Call) -> DescribeGroupsResponse:
    """Describe each group separately, and only once: a small request may name a large group a thousand times."""
    groups = [_describe(call, group_id) for group_id in dict.fromkeys(call.request.groups)]
    for group in groups:
        is_asked = call.request.include_authorized_operations and not group.error_code
        group.authorized_operations = authorized_operations(call, ResourceType.GROUP, group.group_id, is_asked=is_asked)
    return DescribeGroupsResponse(groups=groups)


def refuse(request: DescribeGroupsRequest, version: int, code: ErrorCode) -> DescribeGroupsResponse:
    """Answer with an error for every group."""
    return DescribeGroupsResponse(groups=[DescribedGroup(group_id=group_id, error_code=code) for group_id in request.groups])


def _describe(call: Call, group_id: str) -> DescribedGroup:
    try:
        check(call, ResourceType.GROUP, group_id)
        call.state.groups.check(group_id)
    except BrokerError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    try:
        group = call.state.groups.existing_classic(group_id)
    except BrokerError as error:
        dead = DescribedGroup(group_id=group_id, group_state=State.DEAD)
        if call.version >= FIRST_VERSION_WITH_MISSING_GROUPS:
            dead.error_code, dead.error_message = error.code, error.reason
        return dead
    return _described(group)


def _described(group: ClassicGroup) -> DescribedGroup:
    is_stable = group.state is State.STABLE
    return DescribedGroup(
        group_id=group.id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[_member(group, member, is_stable=is_stable) for member in group.members.values()],
    )


def _member(group: ClassicGroup, member: ClassicMember, *, is_stable: bool) -> DescribedGroupMember:
    """Describe a member. Its metadata is returned for a stable group only, its last assignment always, as in Kafka since 4.0."""
    return DescribedGroupMember(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.origin.client_id,
        client_host=member.origin.host,
        member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
        member_assignment=member.assignment,
    )


API = Api(DescribeGroupsRequest, 0, 6, handle, refuse, 0)
