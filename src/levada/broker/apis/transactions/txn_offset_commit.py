"""TxnOffsetCommit: commit the offsets of a group within a transaction (KIP-98, KIP-447)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from levada.broker.coordinators.groups.offset_commits import answered, check_member, commit_each
from levada.broker.coordinators.transactions.verification import verify_group
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from levada.types import TopicPartition

FIRST_VERSION_BY_ID = FIRST_VERSION_WITH_NEWER_CODES = 6


def handle(call: Call) -> TxnOffsetCommitResponse:
    """Commit each partition separately, within the producer's transaction."""
    request: TxnOffsetCommitRequest = call.request

    def check(partitions: Collection[TopicPartition]) -> None:
        call.state.groups.check_named(request.group_id)
        verify_group(call)
        check_member(call, partitions, in_transaction=True, newer_codes_since=FIRST_VERSION_WITH_NEWER_CODES)

    codes = commit_each(
        call,
        request.topics,
        by_id=call.version >= FIRST_VERSION_BY_ID,
        check=check,
        commit=lambda offsets: call.state.cluster.group_offsets.commit_in_transaction(
            request.group_id, request.producer_id, request.producer_epoch, offsets, call.wall_ms
        ),
    )
    return _response(request, codes)


def refuse(request: TxnOffsetCommitRequest, version: int, code: ErrorCode) -> TxnOffsetCommitResponse:
    """Answer with an error in every partition."""
    return _response(request, [[code] * len(topic.partitions) for topic in request.topics])


def _response(request: TxnOffsetCommitRequest, codes: Sequence[Sequence[ErrorCode]]) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(topics=answered(request.topics, codes, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition))


API = Api(TxnOffsetCommitRequest, 0, 6, handle, refuse, 0)
