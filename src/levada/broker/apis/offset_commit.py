"""OffsetCommit: store how far a group has read."""

from __future__ import annotations

from collections.abc import Sequence

from levada.broker.committing import check_member, commit_each
from levada.broker.state import Api, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

FIRST_VERSION_WITH_UNKNOWN_GROUPS = 9
FIRST_VERSION_BY_ID = 10


def handle(call: Call) -> OffsetCommitResponse:
    """Commit each partition on its own."""
    request: OffsetCommitRequest = call.request

    def check() -> None:
        call.state.cluster.group_coordinators.check(request.group_id, call.state.node_id)
        unknown_group = ErrorCode.GROUP_ID_NOT_FOUND if call.version >= FIRST_VERSION_WITH_UNKNOWN_GROUPS else ErrorCode.ILLEGAL_GENERATION
        check_member(call.state, request.group_id, request.generation_id_or_member_epoch, unknown_group=unknown_group)

    codes = commit_each(
        call,
        request.topics,
        by_id=call.version >= FIRST_VERSION_BY_ID,
        check=check,
        commit=lambda offsets: call.state.cluster.group_offsets.commit(request.group_id, offsets),
    )
    return _response(request, codes)


def refuse(request: OffsetCommitRequest, version: int, code: ErrorCode) -> OffsetCommitResponse:
    """Answer with an error in every partition."""
    return _response(request, [[code] * len(topic.partitions) for topic in request.topics])


def _response(request: OffsetCommitRequest, codes: Sequence[Sequence[ErrorCode]]) -> OffsetCommitResponse:
    # As in Kafka, a topic without partitions is not answered.
    answered = [(topic, found) for topic, found in zip(request.topics, codes, strict=True) if found]
    return OffsetCommitResponse(topics=[_topic(topic, found) for topic, found in answered])


def _topic(topic: OffsetCommitRequestTopic, codes: Sequence[ErrorCode]) -> OffsetCommitResponseTopic:
    partitions = [
        OffsetCommitResponsePartition(partition_index=wanted.partition_index, error_code=code)
        for wanted, code in zip(topic.partitions, codes, strict=True)
    ]
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


API = Api(OffsetCommitRequest, 2, 10, handle, refuse, 2)
