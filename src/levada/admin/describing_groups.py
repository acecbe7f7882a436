"""Descriptions of groups of each type.

Only the coordinator knows whether a group of consumers uses the classic protocol or KIP-848. It is first asked for a consumer group; if it
has none with that id, or does not know consumer groups, it is asked for a classic group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from levada.admin.coordinators import ON_GROUP_ERROR, each_at_its_coordinator, take_group
from levada.admin.group_types import (
    ClassicGroupDescription,
    ConsumerGroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
    ShareGroupDescription,
    ShareMemberDescription,
    operations,
)
from levada.admin.per_key import Attempts, Doing
from levada.base.flow import Call, Flow
from levada.client.network.connection_key import ConnectionKey
from levada.client.requests.coordinator_finder import CoordinatorFinder
from levada.client.requests.fan_out import Answer, Spawn
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, ProtocolError, UnsupportedVersionError, broker_error
from levada.protocol.embedded.consumer_protocol_assignment import ConsumerProtocolAssignment
from levada.protocol.messages import consumer_group_describe, describe_groups, share_group_describe
from levada.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from levada.protocol.messages.describe_groups import OPERATIONS_NOT_ASKED, DescribeGroupsRequest, DescribeGroupsResponse
from levada.protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from levada.protocol.prefixed import decode_prefixed
from levada.types import TopicPartition

V = TypeVar("V")

OF_CONSUMERS = "consumer"
OF_CLASSIC_PROTOCOL, OF_CONSUMER_PROTOCOL = 0, 1
NO_CONSUMER_GROUP = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
NOT_THERE = "there is no such group, or it is of another type; list_groups() tells"


def describe_consumer_groups(
    groups: Collection[str], attempts: Attempts, finder: CoordinatorFinder, spawn: Spawn, *, authorized_operations: bool
) -> Flow[dict[str, ConsumerGroupDescription]]:
    """Describe groups of consumers of either protocol.

    authorized_operations: whether to include the operations that this user may perform on each group.
    """
    doing = Doing(lambda group: f"describe consumer group '{group}'", ON_GROUP_ERROR, attempts, ConsumerGroupDescribeRequest.NAME)
    classic: set[str] = set()

    def ask(coordinator: ConnectionKey, wanted: list[str]) -> Flow[Answer[str, ConsumerGroupDescription]]:
        unknown = [group for group in wanted if group not in classic]
        if not unknown:
            answer = yield from _ask_about_classic(doing, finder, coordinator, wanted, authorized_operations, _of_consumers)
            # Before the next request about it, it may become a consumer group: groups are converted while they run.
            classic.difference_update(answer.again)
            return answer
        request = ConsumerGroupDescribeRequest(group_ids=unknown, include_authorized_operations=authorized_operations)
        answer = Answer(refresh=False)
        try:
            response: ConsumerGroupDescribeResponse = yield Call(request, coordinator)
        except UnsupportedVersionError:
            classic.update(unknown)
        else:
            for found in response.groups:
                if found.error_code in NO_CONSUMER_GROUP:
                    classic.add(found.group_id)
                else:
                    value = _consumer_group(found, coordinator.node_id)
                    take_group(doing, finder, answer, found.group_id, found.error_code, value, found.error_message)
        answer.located = [group for group in wanted if group in classic]
        return answer

    return each_at_its_coordinator(doing, groups, finder, spawn, ask)


def describe_classic_groups(
    groups: Collection[str], attempts: Attempts, finder: CoordinatorFinder, spawn: Spawn, *, authorized_operations: bool
) -> Flow[dict[str, ClassicGroupDescription]]:
    """Describe groups of the classic protocol, whatever their members are.

    authorized_operations: whether to include the operations that this user may perform on each group.
    """
    doing = Doing(lambda group: f"describe classic group '{group}'", ON_GROUP_ERROR, attempts, DescribeGroupsRequest.NAME)

    def ask(coordinator: ConnectionKey, wanted: list[str]) -> Flow[Answer[str, ClassicGroupDescription]]:
        return _ask_about_classic(doing, finder, coordinator, wanted, authorized_operations, _classic_group)

    return each_at_its_coordinator(doing, groups, finder, spawn, ask)


def describe_share_groups(
    groups: Collection[str], attempts: Attempts, finder: CoordinatorFinder, spawn: Spawn, *, authorized_operations: bool
) -> Flow[dict[str, ShareGroupDescription]]:
    """Describe share groups. authorized_operations: whether to include the operations that this user may perform on each group."""
    doing = Doing(lambda group: f"describe share group '{group}'", ON_GROUP_ERROR, attempts, ShareGroupDescribeRequest.NAME)

    def ask(coordinator: ConnectionKey, wanted: list[str]) -> Flow[Answer[str, ShareGroupDescription]]:
        request = ShareGroupDescribeRequest(group_ids=wanted, include_authorized_operations=authorized_operations)
        response: ShareGroupDescribeResponse = yield Call(request, coordinator)
        answer: Answer[str, ShareGroupDescription] = Answer(refresh=False)
        for found in response.groups:
            message = NOT_THERE if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND else found.error_message
            take_group(doing, finder, answer, found.group_id, found.error_code, _share_group(found, coordinator.node_id), message)
        return answer

    return each_at_its_coordinator(doing, groups, finder, spawn, ask)


# Classic groups


def _ask_about_classic(
    doing: Doing,
    finder: CoordinatorFinder,
    coordinator: ConnectionKey,
    groups: list[str],
    authorized_operations: bool,
    read: Callable[[describe_groups.DescribedGroup, int], V],
) -> Flow[Answer[str, V]]:
    """Send one request about classic groups to a coordinator. read: makes a group's description; its second argument is the node id."""
    request = DescribeGroupsRequest(groups=groups, include_authorized_operations=authorized_operations)
    response: DescribeGroupsResponse = yield Call(request, coordinator)
    answer: Answer[str, V] = Answer(refresh=False)
    for found in response.groups:
        code, message = found.error_code, found.error_message
        if code == ErrorCode.GROUP_ID_NOT_FOUND or (not code and GroupState(found.group_state) is GroupState.DEAD):
            # Before version 6 (Kafka 4.0) a group that is not there is described as a dead one.
            code, message = ErrorCode.GROUP_ID_NOT_FOUND, NOT_THERE
        try:
            value: Any = None if code else read(found, coordinator.node_id)
        except (ProtocolError, BrokerError) as error:
            answer.errors[found.group_id] = error
        else:
            take_group(doing, finder, answer, found.group_id, code, value, message)
    return answer


def _of_consumers(found: describe_groups.DescribedGroup, coordinator_id: int) -> ConsumerGroupDescription:
    if found.protocol_type not in ("", OF_CONSUMERS):
        raise broker_error(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"describe consumer group '{found.group_id}': its members are of type '{found.protocol_type}'; use describe_classic_groups()",
        )
    return ConsumerGroupDescription(
        group_id=found.group_id,
        is_simple_consumer_group=not found.protocol_type,
        type=GroupType.CLASSIC,
        state=GroupState(found.group_state),
        members=_classic_members(found),
        partition_assignor=found.protocol_data,
        coordinator_id=coordinator_id,
        authorized_operations=operations(found.authorized_operations, OPERATIONS_NOT_ASKED),
    )


def _classic_group(found: describe_groups.DescribedGroup, coordinator_id: int) -> ClassicGroupDescription:
    return ClassicGroupDescription(
        group_id=found.group_id,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol_data,
        state=GroupState(found.group_state),
        members=_classic_members(found),
        coordinator_id=coordinator_id,
        authorized_operations=operations(found.authorized_operations, OPERATIONS_NOT_ASKED),
    )


def _classic_members(group: describe_groups.DescribedGroup) -> tuple[MemberDescription, ...]:
    return tuple(
        MemberDescription(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            host=member.client_host,
            assignment=_assigned(member.member_assignment) if group.protocol_type == OF_CONSUMERS else frozenset(),
        )
        for member in group.members
    )


def _assigned(data: bytes) -> frozenset[TopicPartition]:
    """Return the partitions in the assignment of a member, which its group's leader has made. Without bytes there are no partitions."""
    topics = decode_prefixed(ConsumerProtocolAssignment, data).assigned_partitions if data else []
    return frozenset(TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions)


# Consumer groups and share groups


def _consumer_group(found: consumer_group_describe.DescribedGroup, coordinator_id: int) -> ConsumerGroupDescription:
    return ConsumerGroupDescription(
        group_id=found.group_id,
        is_simple_consumer_group=False,
        type=GroupType.CONSUMER,
        state=GroupState(found.group_state),
        members=tuple(_consumer_member(member) for member in found.members),
        partition_assignor=found.assignor_name,
        coordinator_id=coordinator_id,
        authorized_operations=operations(found.authorized_operations, OPERATIONS_NOT_ASKED),
        group_epoch=found.group_epoch,
        target_assignment_epoch=found.assignment_epoch,
    )


def _consumer_member(member: consumer_group_describe.Member) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions(member.assignment.topic_partitions),
        target_assignment=_partitions(member.target_assignment.topic_partitions),
        member_epoch=member.member_epoch,
        upgraded={OF_CLASSIC_PROTOCOL: False, OF_CONSUMER_PROTOCOL: True}.get(member.member_type),
    )


def _share_group(found: share_group_describe.DescribedGroup, coordinator_id: int) -> ShareGroupDescription:
    return ShareGroupDescription(
        group_id=found.group_id,
        state=GroupState(found.group_state),
        members=tuple(
            ShareMemberDescription(
                member_id=member.member_id,
                client_id=member.client_id,
                host=member.client_host,
                member_epoch=member.member_epoch,
                assignment=_partitions(member.assignment.topic_partitions),
            )
            for member in found.members
        ),
        coordinator_id=coordinator_id,
        group_epoch=found.group_epoch,
        target_assignment_epoch=found.assignment_epoch,
        authorized_operations=operations(found.authorized_operations, OPERATIONS_NOT_ASKED),
    )


def _partitions(
    topics: Iterable[consumer_group_describe.TopicPartitions | share_group_describe.TopicPartitions],
) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic.topic_name, index) for topic in topics for index in topic.partitions)
