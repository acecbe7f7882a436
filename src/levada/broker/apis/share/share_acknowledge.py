"""ShareAcknowledge: acknowledge records that a member of a share group has acquired (KIP-932)."""

from __future__ import annotations

from itertools import groupby

from levada.broker.coordinators.groups.consumer_member import TopicIdPartition
from levada.broker.node.state import Api, Call
from levada.broker.share.requests import Outcome, Outcomes, acknowledge_each, check_member
from levada.broker.share.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSession
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


def handle(call: Call) -> ShareAcknowledgeResponse:
    """Apply the acknowledgements of each partition separately. The last request of a session releases the records that its member has not
    acknowledged.
    """
    request: ShareAcknowledgeRequest = call.request
    try:
        session = _session(call, request)
    except BrokerError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.reason)
    outcomes = acknowledge_each(call, request.topics)
    if request.share_session_epoch == FINAL_EPOCH:
        call.state.shares.end_session(session, call.now_ms)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=call.state.cluster.group_config(session.group).share_limits.lock_ms,
        responses=_by_topic(outcomes),
        node_endpoints=_leaders(call, outcomes),
    )


def refuse(request: ShareAcknowledgeRequest, version: int, code: ErrorCode) -> ShareAcknowledgeResponse:
    """Answer with an error."""
    return ShareAcknowledgeResponse(error_code=code)


def _session(call: Call, request: ShareAcknowledgeRequest) -> ShareSession:
    group, member = check_member(call)
    if request.share_session_epoch == INITIAL_EPOCH:
        raise BrokerError("a share session begins with a fetch", code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    session = call.state.shares.sessions.find(group, member, request.share_session_epoch)
    if request.share_session_epoch != FINAL_EPOCH:
        session.follow()
    return session


def _by_topic(outcomes: Outcomes) -> list[ShareAcknowledgeTopicResponse]:
    return [
        ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=[_partition(part, outcomes[part]) for part in parts])
        for topic_id, parts in groupby(outcomes, key=lambda part: part.topic_id)
    ]


def _partition(part: TopicIdPartition, outcome: Outcome) -> PartitionData:
    answer = PartitionData(partition_index=part.partition, error_code=outcome.code, error_message=outcome.reason)
    if outcome.moved is not None:
        answer.current_leader = LeaderIdAndEpoch(leader_id=outcome.moved.leader, leader_epoch=outcome.moved.leader_epoch)
    return answer


def _leaders(call: Call, outcomes: Outcomes) -> list[NodeEndpoint]:
    """Return the addresses of the new leaders that the response names."""
    nodes = call.nodes
    leaders = sorted({outcome.moved.leader for outcome in outcomes.values() if outcome.moved is not None})
    return [
        NodeEndpoint(node_id=node_id, host=nodes[node_id].host, port=nodes[node_id].port, rack=nodes[node_id].rack) for node_id in leaders
    ]


API = Api(ShareAcknowledgeRequest, 1, 2, handle, refuse, 1)
