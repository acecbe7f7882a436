"""List groups, delete them, and remove members."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from levada.admin.cluster import describe_cluster
from levada.admin.coordinators import ON_GROUP_ERROR, each_at_its_coordinator, take_group
from levada.admin.describing_groups import describe_consumer_groups
from levada.admin.group_types import GroupListing, GroupState, GroupType
from levada.admin.per_key import Attempts, Doing, after_lost_answers, each, lost, take
from levada.base.flow import Call, Flow
from levada.client.network.connection_key import ConnectionKey
from levada.client.requests.coordinator_finder import CoordinatorFinder, CoordinatorKind
from levada.client.requests.destination import Coordinator, ThisNode
from levada.client.requests.fan_out import Answer, Spawn, Whom
from levada.client.requests.retry import Reaction
from levada.error_codes import ErrorCode
from levada.errors import ConnectError, DisconnectError, UnsupportedVersionError
from levada.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from levada.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from levada.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from levada.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

FIRST_LIST_VERSION_WITH_STATES = 4
FIRST_LIST_VERSION_WITH_TYPES = 5
FIRST_LEAVE_VERSION_WITH_MEMBERS = 3
LONGEST_REASON = 255


class GroupFilter(NamedTuple):
    """Selects the groups to list. An empty field selects all groups."""

    types: frozenset[GroupType] = frozenset()
    states: frozenset[GroupState] = frozenset()
    protocol_types: frozenset[str] = frozenset()

    def passes(self, group: GroupListing) -> bool:
        """Whether the filter selects a group."""
        return (
            (not self.types or group.type in self.types)
            and (not self.states or group.state in self.states)
            and (not self.protocol_types or group.protocol_type in self.protocol_types)
        )


# By broker


def list_groups(attempts: Attempts, spawn: Spawn, wanted: GroupFilter) -> Flow[list[GroupListing]]:
    """Ask all brokers for the groups that they coordinate, and return the selected ones, sorted by id."""
    doing = Doing(lambda node: f"list the groups of node {node}", ON_GROUP_ERROR, attempts, ListGroupsRequest.NAME)

    def ask(_: Whom, nodes: list[int]) -> Flow[Answer[int, list[GroupListing]]]:
        (node,) = nodes
        answer: Answer[int, list[GroupListing]] = Answer(refresh=False)
        try:
            response = yield from _ask_for_list(ThisNode(node), wanted)
            states = yield from _states_that_are_missing(ThisNode(node), response)
        except ConnectError as fault:
            return lost(doing, nodes, fault)
        found = [
            GroupListing(
                group.group_id,
                GroupType(group.group_type) if group.group_type else GroupType.CLASSIC,
                group.protocol_type,
                states[group.group_id] if group.group_id in states else GroupState(group.group_state),
            )
            for group in response.groups
        ]
        take(doing, answer, node, response.error_code, found)
        return answer

    nodes = (yield from describe_cluster(attempts)).nodes
    by_node = yield from each(doing, [node.id for node in nodes], spawn, route=ThisNode, ask=ask)
    # A group whose coordinator moves meanwhile may be listed by two brokers.
    found = {group.group_id: group for groups in by_node.values() for group in groups if wanted.passes(group)}
    return [found[group_id] for group_id in sorted(found)]


def _ask_for_list(node: ThisNode, wanted: GroupFilter) -> Flow[ListGroupsResponse]:
    """Ask a broker for its groups that the filter selects. A broker that is too old to filter lists all its groups."""
    oldest = FIRST_LIST_VERSION_WITH_TYPES if wanted.types else FIRST_LIST_VERSION_WITH_STATES if wanted.states else 0
    request = ListGroupsRequest(states_filter=sorted(wanted.states), types_filter=sorted(wanted.types))
    try:
        response: ListGroupsResponse = yield Call(request, node, min_version=oldest)
    except UnsupportedVersionError:
        if not oldest:
            raise
        response = yield Call(ListGroupsRequest(), node)
    return response


def _states_that_are_missing(node: ThisNode, response: ListGroupsResponse) -> Flow[Mapping[str, GroupState]]:
    """Return the states of groups whose states are not in the list, by group id. Brokers before 2.6 list groups without their states."""
    missing = [group.group_id for group in response.groups if not group.group_state]
    if not missing:
        return {}
    described: DescribeGroupsResponse = yield Call(DescribeGroupsRequest(groups=missing), node)
    return {group.group_id: GroupState(group.group_state) for group in described.groups}


# By coordinator


def delete_groups(groups: Collection[str], attempts: Attempts, finder: CoordinatorFinder, spawn: Spawn) -> Flow[dict[str, None]]:
    """Delete groups without members, and their committed offsets. Return a dict that maps each group to None."""
    doing = Doing(lambda group: f"delete group '{group}'", ON_GROUP_ERROR, attempts, DeleteGroupsRequest.NAME)

    def ask(coordinator: ConnectionKey, wanted: list[str]) -> Flow[Answer[str, None]]:
        try:
            response: DeleteGroupsResponse = yield Call(DeleteGroupsRequest(groups_names=wanted), coordinator)
        except DisconnectError:
            attempts.answers_lost += 1
            raise
        answer: Answer[str, None] = Answer(refresh=False)
        for result in response.results:
            message = after_lost_answers(attempts, result.error_code, ErrorCode.GROUP_ID_NOT_FOUND, result.error_message)
            take_group(doing, finder, answer, result.group_id, result.error_code, None, message)
        return answer

    return each_at_its_coordinator(doing, groups, finder, spawn, ask)


def remove_members(
    group: str, instance_ids: Iterable[str] | None, reason: str, attempts: Attempts, finder: CoordinatorFinder, spawn: Spawn
) -> Flow[dict[str, None]]:
    """Remove members from a group (KIP-345). Return a dict that maps each removed member to None: its group.instance.id, or its member id
    if it has none.

    instance_ids: the group.instance.ids of static members; None for all members, whose ids are requested first. reason: a text for the
    broker's log.
    """
    if instance_ids is None:
        leavers = yield from _all_members(group, attempts, finder, spawn)
    else:
        leavers = {instance_id: MemberIdentity(group_instance_id=instance_id) for instance_id in instance_ids}
    for leaver in leavers.values():
        leaver.reason = reason[:LONGEST_REASON]
    doing = Doing(lambda member: f"remove member '{member}' of group '{group}'", ON_GROUP_ERROR, attempts, LeaveGroupRequest.NAME)
    destination = Coordinator(CoordinatorKind.GROUP, group)

    def ask(_: Whom, wanted: list[str]) -> Flow[Answer[str, None]]:
        request = LeaveGroupRequest(group_id=group, members=[leavers[name] for name in wanted])
        try:
            response: LeaveGroupResponse = yield Call(request, destination, min_version=FIRST_LEAVE_VERSION_WITH_MEMBERS)
        except DisconnectError as fault:
            attempts.answers_lost += 1
            return lost(doing, wanted, fault)
        except ConnectError as fault:
            return lost(doing, wanted, fault)
        codes = {member.group_instance_id or member.member_id: member.error_code for member in response.members}
        if response.error_code:
            codes = dict.fromkeys(wanted, response.error_code)
        answer: Answer[str, None] = Answer(refresh=False)
        for name, code in codes.items():
            message = after_lost_answers(attempts, code, ErrorCode.UNKNOWN_MEMBER_ID, None)
            if take(doing, answer, name, code, None, message) is Reaction.REFIND:
                finder.forget(CoordinatorKind.GROUP, group)
        return answer

    return (yield from each(doing, leavers, None, route=lambda name: destination, ask=ask))


def _all_members(group: str, attempts: Attempts, finder: CoordinatorFinder, spawn: Spawn) -> Flow[dict[str, MemberIdentity]]:
    described = yield from describe_consumer_groups([group], attempts, finder, spawn, authorized_operations=False)
    return {
        member.group_instance_id or member.member_id: MemberIdentity(member_id=member.member_id, group_instance_id=member.group_instance_id)
        for member in described[group].members
    }
