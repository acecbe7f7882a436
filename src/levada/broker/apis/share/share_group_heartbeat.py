"""ShareGroupHeartbeat: a member of a share group joins, keeps its session, changes its subscription, or leaves (KIP-932)."""

from __future__ import annotations

from levada.acls import ResourceType
from levada.broker.access.permissions import check_each
from levada.broker.apis.groups.consumer_group_heartbeat import by_topic
from levada.broker.coordinators.groups.consumer_member import JOINING, LEAVING
from levada.broker.node.state import Api, Call
from levada.broker.share.requests import check_share_groups
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

MAX_MEMBER_ID = 36


def handle(call: Call) -> ShareGroupHeartbeatResponse:
    """Handle the heartbeat of a member that joins, stays or leaves. The response has the member's assignment if the member needs to be
    told.
    """
    request: ShareGroupHeartbeatRequest = call.request
    try:
        check_share_groups(call)
        check_request(request)
        check_each(call, ResourceType.TOPIC, request.subscribed_topic_names or ())
        call.state.groups.check(request.group_id)
        return _answer(call, request)
    except BrokerError as error:
        return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.reason)


def refuse(request: ShareGroupHeartbeatRequest, version: int, code: ErrorCode) -> ShareGroupHeartbeatResponse:
    """Answer with an error."""
    return ShareGroupHeartbeatResponse(error_code=code)


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """Raise INVALID_REQUEST if the request is invalid in itself, whatever the group."""
    for name, text in (("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id)):
        if text is not None and not text.strip():
            raise _invalid(f"{name} can't be empty.")
    if len(request.member_id) > MAX_MEMBER_ID:
        raise _invalid(f"MemberId can't be longer than {MAX_MEMBER_ID} characters.")
    if request.member_epoch == JOINING and not request.subscribed_topic_names:
        raise _invalid("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVING:
        raise _invalid("MemberEpoch is invalid.")


def _answer(call: Call, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    groups = call.state.groups
    if request.member_epoch == LEAVING:
        groups.share.leave(groups.existing_share(request.group_id), request)
        return ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=LEAVING)
    join = request.member_epoch == JOINING
    group = groups.joinable_by_share(request.group_id) if join else groups.existing_share(request.group_id)
    beat = groups.share.heartbeat(group, request, call.origin, call.now_ms)
    given = [TopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions) for topic in by_topic(beat.member.assigned)]
    return ShareGroupHeartbeatResponse(
        member_id=beat.member.id,
        member_epoch=beat.member.epoch,
        heartbeat_interval_ms=call.state.cluster.group_config(request.group_id).share_heartbeat_interval_ms,
        assignment=Assignment(topic_partitions=given) if beat.tells_assignment else None,
    )


def _invalid(message: str) -> BrokerError:
    return BrokerError(message, code=ErrorCode.INVALID_REQUEST)


API = Api(ShareGroupHeartbeatRequest, 1, 1, handle, refuse, 1)
