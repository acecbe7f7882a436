"""OffsetForLeaderEpoch: where a leader epoch ends (KIP-320)."""

from __future__ import annotations

from penstock.broker.cluster import Topic
from penstock.broker.state import Api, Call
from penstock.error_codes import ErrorCode
from penstock.errors import BrokerError
from penstock.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from penstock.protocol.schema import ZERO_UUID

API_NAME = OffsetForLeaderEpochRequest.NAME


def handle(call: Call) -> OffsetForLeaderEpochResponse:
    """Answer for every partition on its own."""
    return OffsetForLeaderEpochResponse(topics=[_answer_topic(call, topic) for topic in call.request.topics])


def refuse(request: OffsetForLeaderEpochRequest, version: int, code: ErrorCode) -> OffsetForLeaderEpochResponse:
    """Answer with an error in every partition."""
    return OffsetForLeaderEpochResponse(topics=[_refused(topic, code) for topic in request.topics])


def _answer_topic(call: Call, topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
    try:
        found = call.state.find_topic(topic.topic, ZERO_UUID, by_id=False)
    except BrokerError as error:
        return _refused(topic, error.code)
    return OffsetForLeaderTopicResult(topic=topic.topic, partitions=[_answer(call, found, wanted) for wanted in topic.partitions])


def _answer(call: Call, topic: Topic, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = call.state.lead_partition(topic, wanted.partition)
        call.state.raise_planned_fault(API_NAME, partition.name)
        partition.check_leader_epoch(wanted.current_leader_epoch)
    except BrokerError as error:
        return EpochEndOffset(partition=wanted.partition, error_code=error.code)
    end = partition.epochs.end_of(wanted.leader_epoch, partition.log.end_offset)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=end.epoch, end_offset=end.end_offset)


def _refused(topic: OffsetForLeaderTopic, code: ErrorCode) -> OffsetForLeaderTopicResult:
    partitions = [EpochEndOffset(partition=wanted.partition, error_code=code) for wanted in topic.partitions]
    return OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions)


API = Api(OffsetForLeaderEpochRequest, 2, 4, handle, refuse, 2)
