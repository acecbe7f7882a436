"""OffsetCommit: commit the offsets of a group."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from levada.broker.coordinators.groups.offset_commits import answered, check_member, commit_each
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from levada.types import TopicPartition

FIRST_VERSION_WITH_NEWER_CODES = 9
FIRST_VERSION_BY_ID = 10


def handle(call: Call) -> OffsetCommitResponse:
    """Commit each partition separately."""
    request: OffsetCommitRequest = call.request

    def check(partitions: Collection[TopicPartition]) -> None:
        call.state.groups.check(request.group_id)
        check_member(call, partitions, in_transaction=False, newer_codes_since=FIRST_VERSION_WITH_NEWER_CODES)

    codes = commit_each(
        call,
        request.topics,
        by_id=call.version >= FIRST_VERSION_BY_ID,
        check=check,
        commit=lambda offsets: call.state.cluster.group_offsets.commit(request.group_id, offsets, call.wall_ms, request.retention_time_ms),
    )
    return _response(request, codes)


def refuse(request: OffsetCommitRequest, version: int, code: ErrorCode) -> OffsetCommitResponse:
    """Answer with an error in every partition."""
    return _response(request, [[code] * len(topic.partitions) for topic in request.topics])


def _response(request: OffsetCommitRequest, codes: Sequence[Sequence[ErrorCode]]) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=answered(request.topics, codes, OffsetCommitResponseTopic, OffsetCommitResponsePartition))


API = Api(OffsetCommitRequest, 2, 10, handle, refuse, 2)
