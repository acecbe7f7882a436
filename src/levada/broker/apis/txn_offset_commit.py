"""TxnOffsetCommit: store how far a group has read, for when a transaction is committed (KIP-98, KIP-447)."""

from __future__ import annotations

from collections.abc import Sequence

from levada.broker.committing import check_member, commit_each
from levada.broker.state import Api, Call
from levada.broker.verification import verify_group
from levada.error_codes import ErrorCode
from levada.errors import broker_error
from levada.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

FIRST_VERSION_BY_ID = 6


def handle(call: Call) -> TxnOffsetCommitResponse:
    """Commit each partition on its own, within the producer's transaction."""
    request: TxnOffsetCommitRequest = call.request

    def check() -> None:
        if not request.group_id:
            raise broker_error(ErrorCode.INVALID_GROUP_ID, "a group without a name")
        call.state.cluster.group_coordinators.check(request.group_id, call.state.node_id)
        verify_group(call)
        generation = request.generation_id_or_member_epoch
        check_member(call.state, request.group_id, generation, unknown_group=ErrorCode.ILLEGAL_GENERATION)

    codes = commit_each(
        call,
        request.topics,
        by_id=call.version >= FIRST_VERSION_BY_ID,
        check=check,
        commit=lambda offsets: call.state.cluster.group_offsets.commit_in_transaction(
            request.group_id, request.producer_id, request.producer_epoch, offsets
        ),
    )
    return _response(request, codes)


def refuse(request: TxnOffsetCommitRequest, version: int, code: ErrorCode) -> TxnOffsetCommitResponse:
    """Answer with an error in every partition."""
    return _response(request, [[code] * len(topic.partitions) for topic in request.topics])


def _response(request: TxnOffsetCommitRequest, codes: Sequence[Sequence[ErrorCode]]) -> TxnOffsetCommitResponse:
    # As in Kafka, a topic without partitions is not answered.
    answered = [(topic, found) for topic, found in zip(request.topics, codes, strict=True) if found]
    return TxnOffsetCommitResponse(topics=[_topic(topic, found) for topic, found in answered])


def _topic(topic: TxnOffsetCommitRequestTopic, codes: Sequence[ErrorCode]) -> TxnOffsetCommitResponseTopic:
    partitions = [
        TxnOffsetCommitResponsePartition(partition_index=wanted.partition_index, error_code=code)
        for wanted, code in zip(topic.partitions, codes, strict=True)
    ]
    return TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


API = Api(TxnOffsetCommitRequest, 0, 6, handle, refuse, 0)
