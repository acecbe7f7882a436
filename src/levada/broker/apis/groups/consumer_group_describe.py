"""ConsumerGroupDescribe: the states of consumer groups, and their members (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable

from levada.acls import ResourceType
from levada.broker.access.permissions import authorized_operations, check
from levada.broker.cluster.features import GROUPS
from levada.broker.coordinators.groups.consumer_group import ConsumerGroup
from levada.broker.coordinators.groups.consumer_member import ConsumerMember, TopicIdPartition
from levada.broker.node.answers import by_topic, check_topics
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

OF_CLASSIC_PROTOCOL, OF_CONSUMER_PROTOCOL = 0, 1


def handle(call: Call) -> ConsumerGroupDescribeResponse:
    """Describe each group separately, and only once: a small request may name a large group a thousand times."""
    return ConsumerGroupDescribeResponse(groups=[_describe(call, group_id) for group_id in dict.fromkeys(call.request.group_ids)])


def refuse(request: ConsumerGroupDescribeRequest, version: int, code: ErrorCode) -> ConsumerGroupDescribeResponse:
    """Answer with an error for every group."""
    return ConsumerGroupDescribeResponse(groups=[DescribedGroup(group_id=group_id, error_code=code) for group_id in request.group_ids])


def _describe(call: Call, group_id: str) -> DescribedGroup:
    try:
        if not call.state.cluster.features.level(GROUPS):
            raise BrokerError("group.version is 0", code=ErrorCode.UNSUPPORTED_VERSION)
        call.state.groups.check_named(group_id)
        check(call, ResourceType.GROUP, group_id)
        group = call.state.groups.existing_consumer(group_id)
        members = group.members.values()
        check_topics(call, (owned for member in members for owned in (*member.held, *group.target(member.id))))
    except BrokerError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.reason)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(call, group, member) for member in members],
        authorized_operations=authorized_operations(
            call, ResourceType.GROUP, group_id, is_asked=call.request.include_authorized_operations
        ),
    )


def _member(call: Call, group: ConsumerGroup, member: ConsumerMember) -> Member:
    """Describe a member. Its assignment includes partitions that it still has to revoke, since no other member may have them yet."""
    return Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.origin.client_id,
        client_host=member.origin.host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_assignment(call, member.held),
        target_assignment=_assignment(call, group.target(member.id)),
        member_type=OF_CONSUMER_PROTOCOL if member.classic is None else OF_CLASSIC_PROTOCOL,
    )


def _assignment(call: Call, partitions: Iterable[TopicIdPartition]) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic.id, topic_name=topic.name, partitions=numbers)
            for topic, numbers in by_topic(call.state.cluster, partitions)
        ]
    )


API = Api(ConsumerGroupDescribeRequest, 0, 1, handle, refuse, 0)
