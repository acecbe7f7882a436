"""ShareGroupDescribe: the states of share groups, and their members (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable

from levada.acls import ResourceType
from levada.broker.access.permissions import authorized_operations, check
from levada.broker.coordinators.groups.consumer_member import TopicIdPartition
from levada.broker.coordinators.share.share_group import ASSIGNOR, ShareMember
from levada.broker.node.answers import by_topic, check_topics
from levada.broker.node.state import Api, Call
from levada.broker.share.requests import check_share_groups
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)


def handle(call: Call) -> ShareGroupDescribeResponse:
    """Describe each group separately, and only once: a small request may name a large group a thousand times."""
    return ShareGroupDescribeResponse(groups=[_describe(call, group_id) for group_id in dict.fromkeys(call.request.group_ids)])


def refuse(request: ShareGroupDescribeRequest, version: int, code: ErrorCode) -> ShareGroupDescribeResponse:
    """Answer with an error for every group."""
    return ShareGroupDescribeResponse(groups=[DescribedGroup(group_id=group_id, error_code=code) for group_id in request.group_ids])


def _describe(call: Call, group_id: str) -> DescribedGroup:
    try:
        check_share_groups(call)
        call.state.groups.check_named(group_id)
        check(call, ResourceType.GROUP, group_id)
        group = call.state.groups.existing_share(group_id)
        check_topics(call, (owned for member in group.members.values() for owned in member.assigned))
    except BrokerError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.reason)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(call, member) for member in group.members.values()],
        authorized_operations=authorized_operations(
            call, ResourceType.GROUP, group_id, is_asked=call.request.include_authorized_operations
        ),
    )


def _member(call: Call, member: ShareMember) -> Member:
    return Member(
        member_id=member.id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.origin.client_id,
        client_host=member.origin.host,
        subscribed_topic_names=sorted(member.topics),
        assignment=_assignment(call, member.assigned),
    )


def _assignment(call: Call, partitions: Iterable[TopicIdPartition]) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic.id, topic_name=topic.name, partitions=numbers)
            for topic, numbers in by_topic(call.state.cluster, partitions)
        ]
    )


API = Api(ShareGroupDescribeRequest, 1, 1, handle, refuse, 1)
