"""Asking a leader where epochs end (OffsetForLeaderEpoch, KIP-320)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from levada.consumer.leader_answer import CONSUMER_REPLICA_ID, LeaderAnswer
from levada.error_codes import ErrorCode
from levada.errors import ConnectError, broker_error
from levada.flow import Call, Flow
from levada.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from levada.types import NO_LEADER_EPOCH, UNKNOWN_OFFSET, TopicPartition

FIRST_VERSION_FOR_CONSUMERS = 3
"""Earlier ones take the permissions of a broker."""
RAISED = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION})
"""Any other code is tried again, at the leader of fresh metadata."""


class EpochAsked(NamedTuple):
    """The epoch whose end is wanted, and the leader's own as metadata has it."""

    epoch: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """The newest epoch not after the one asked about, and the offset after its last record; -1 when the leader knows none."""

    epoch: int
    offset: int

    @property
    def is_known(self) -> bool:
        """Whether the leader could tell."""
        return self.epoch != NO_LEADER_EPOCH and self.offset != UNKNOWN_OFFSET


EpochsAnswer: TypeAlias = LeaderAnswer[EpochEnd]


def ask_epoch_ends(node_id: int, wanted: Mapping[TopicPartition, EpochAsked]) -> Flow[EpochsAnswer]:
    """Ask one broker where epochs of partitions it leads end. Raises UnsupportedVersionError where brokers do not tell consumers."""
    try:
        response = yield Call(_request(wanted), node=node_id, min_version=FIRST_VERSION_FOR_CONSUMERS)
    except ConnectError as fault:
        return EpochsAnswer.missing(wanted, str(fault))
    return _answer(node_id, wanted, response)


def _request(wanted: Mapping[TopicPartition, EpochAsked]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for tp, asked in wanted.items():
        topic = topics.setdefault(tp.topic, OffsetForLeaderTopic(topic=tp.topic, partitions=[]))
        partition = OffsetForLeaderPartition(partition=tp.partition, current_leader_epoch=asked.leader_epoch, leader_epoch=asked.epoch)
        topic.partitions.append(partition)
    return OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA_ID, topics=list(topics.values()))


def _answer(node_id: int, wanted: Mapping[TopicPartition, EpochAsked], response: OffsetForLeaderEpochResponse) -> EpochsAnswer:
    answer = EpochsAnswer.missing(wanted, f"node {node_id} left it out of its answer")
    for topic in response.topics:
        for part in topic.partitions:
            tp = TopicPartition(topic.topic, part.partition)
            if tp in wanted:
                answer.again.pop(tp, None)
                _take_in(answer, tp, node_id, part)
    return answer


def _take_in(answer: EpochsAnswer, tp: TopicPartition, node_id: int, part: EpochEndOffset) -> None:
    code = ErrorCode.of(part.error_code)
    if code is ErrorCode.NONE:
        answer.found[tp] = EpochEnd(part.leader_epoch, part.end_offset)
    elif code in RAISED:
        answer.errors[tp] = broker_error(part.error_code, f"{tp}: the end of a leader epoch at node {node_id}")
    else:
        answer.again[tp] = f"node {node_id}: {code.name}"
