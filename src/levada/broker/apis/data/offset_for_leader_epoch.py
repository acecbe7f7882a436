"""OffsetForLeaderEpoch: the end offset of a leader epoch (KIP-320)."""

from __future__ import annotations

from levada.broker.cluster.topic import Topic
from levada.broker.node.answers import answer_each
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)

API_NAME = OffsetForLeaderEpochRequest.NAME


def handle(call: Call) -> OffsetForLeaderEpochResponse:
    """Return, for each partition, the end offset of the requested leader epoch, or an error code.

    If the log does not have the epoch, the response has the newest earlier one and its end offset. If there is no earlier one, it has the
    requested epoch and the start of the first epoch. If the epoch is negative or newer than the current one, both are -1.
    """
    request: OffsetForLeaderEpochRequest = call.request
    return OffsetForLeaderEpochResponse(
        topics=[_topic(topic, answer_each(call, topic.topic, topic.partitions, _answer, _failure)) for topic in request.topics]
    )


def refuse(request: OffsetForLeaderEpochRequest, version: int, code: ErrorCode) -> OffsetForLeaderEpochResponse:
    """Answer with an error in every partition."""
    return OffsetForLeaderEpochResponse(
        topics=[_topic(topic, [_failure(wanted, code) for wanted in topic.partitions]) for topic in request.topics]
    )


def _topic(topic: OffsetForLeaderTopic, partitions: list[EpochEndOffset]) -> OffsetForLeaderTopicResult:
    return OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions)


def _failure(wanted: OffsetForLeaderPartition, code: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(partition=wanted.partition, error_code=code)


def _answer(call: Call, topic: Topic, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = call.state.lead_partition(topic, wanted.partition)
    call.state.raise_planned_fault(API_NAME, partition.name)
    partition.check_leader_epoch(wanted.current_leader_epoch)
    end = partition.epochs.end_of(wanted.leader_epoch, partition.log.end_offset)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=end.epoch, end_offset=end.end_offset)


API = Api(OffsetForLeaderEpochRequest, 2, 4, handle, refuse, 2)
