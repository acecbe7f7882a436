"""ConsumerGroupHeartbeat: a member of a consumer group joins, keeps its session, changes its subscription, or leaves (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from levada.acls import ResourceType
from levada.broker.access.permissions import check_each, may
from levada.broker.cluster.features import GROUPS
from levada.broker.coordinators.groups.consumer_group import ASSIGNORS
from levada.broker.coordinators.groups.consumer_member import JOINING, LEAVING, LEAVING_TEMPORARILY, TopicIdPartition
from levada.broker.coordinators.groups.subscribed_topic_regex import compile_pattern
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

FIRST_VERSION_WITH_OWN_IDS = 1


def handle(call: Call) -> ConsumerGroupHeartbeatResponse:
    """Handle the heartbeat of a member that joins, stays or leaves. The response has the member's assignment if the member needs to be
    told.
    """
    request: ConsumerGroupHeartbeatRequest = call.request
    try:
        if not call.state.cluster.features.level(GROUPS):
            raise BrokerError("group.version is 0", code=ErrorCode.UNSUPPORTED_VERSION)
        check_request(request, call.version)
        check_each(call, ResourceType.TOPIC, request.subscribed_topic_names or ())
        call.state.groups.check(request.group_id)
        return _answer(call, request)
    except BrokerError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.reason)


def refuse(request: ConsumerGroupHeartbeatRequest, version: int, code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    """Answer with an error."""
    return ConsumerGroupHeartbeatResponse(error_code=code)


def check_request(request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """Raise INVALID_REQUEST, UNSUPPORTED_ASSIGNOR or INVALID_REGULAR_EXPRESSION if the request is invalid in itself, whatever the group."""
    if (version >= FIRST_VERSION_WITH_OWN_IDS or request.member_epoch != JOINING) and not request.member_id:
        raise _invalid("MemberId can't be empty.")
    for name, text in (("GroupId", request.group_id), ("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if text is not None and not text.strip():
            raise _invalid(f"{name} can't be empty.")
    if request.member_epoch == JOINING:
        _check_join(request)
    elif request.member_epoch == LEAVING_TEMPORARILY and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < LEAVING_TEMPORARILY:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
        supported = ", ".join(ASSIGNORS)
        raise BrokerError(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {supported}.",
            code=ErrorCode.UNSUPPORTED_ASSIGNOR,
        )
    if request.subscribed_topic_regex:
        compile_pattern(request.subscribed_topic_regex)


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _answer(call: Call, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    groups = call.state.groups
    if request.member_epoch in (LEAVING, LEAVING_TEMPORARILY):
        groups.consumer.leave(groups.existing_consumer(request.group_id), request, call.now_ms)
        return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    if request.member_epoch == JOINING:
        group = groups.joinable_by_consumer(request.group_id, call.now_ms)
    else:
        group = groups.existing_consumer(request.group_id)
    beat = groups.consumer.heartbeat(group, request, call.origin, call.now_ms, partial(may, call, ResourceType.TOPIC))
    return ConsumerGroupHeartbeatResponse(
        member_id=beat.member.id,
        member_epoch=beat.member.epoch,
        heartbeat_interval_ms=call.state.cluster.group_config(request.group_id).consumer_heartbeat_interval_ms,
        assignment=Assignment(topic_partitions=by_topic(beat.member.assigned)) if beat.tells_assignment else None,
    )


def by_topic(partitions: Iterable[TopicIdPartition]) -> list[TopicPartitions]:
    """Group partitions by topic, in the form of responses. Topics and partitions are in order."""
    found: dict[object, TopicPartitions] = {}
    for owned in sorted(partitions):
        found.setdefault(owned.topic_id, TopicPartitions(topic_id=owned.topic_id, partitions=[])).partitions.append(owned.partition)
    return list(found.values())


def _invalid(message: str) -> BrokerError:
    return BrokerError(message, code=ErrorCode.INVALID_REQUEST)


API = Api(ConsumerGroupHeartbeatRequest, 0, 1, handle, refuse, 0)
