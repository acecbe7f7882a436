"""Requests for the end offset of leader epochs (OffsetForLeaderEpoch, KIP-320)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from levada.base.flow import Call, Flow
from levada.client.requests.fan_out import Whom
from levada.client.requests.partition_answer import CONSUMER_REPLICA_ID, Asked, Part, PartitionAnswer, partition_answer
from levada.client.requests.retry import Reaction, RetryPolicy
from levada.error_codes import ErrorCode
from levada.errors import ConnectError
from levada.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from levada.types import NO_LEADER_EPOCH, UNKNOWN_OFFSET, TopicPartition

FIRST_VERSION_FOR_CONSUMERS = 3
"""Earlier versions need the permissions of a broker."""

ON_EPOCH_END_ERROR = RetryPolicy(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: Reaction.RAISE,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Reaction.RAISE,
        ErrorCode.INVALID_TOPIC_EXCEPTION: Reaction.RAISE,
    },
    otherwise=Reaction.REFRESH,
)


class EpochAsked(NamedTuple):
    """The leader epoch to look up, and the current leader epoch in metadata."""

    epoch: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """The answer of a leader: its newest epoch that is not above the requested one, and the end offset of that epoch; -1 if it knows none.

    leader_epoch: the current epoch of the leader, which the request named.
    """

    epoch: int
    offset: int
    leader_epoch: int

    @property
    def is_known(self) -> bool:
        """Whether the leader knows an epoch that is not above the requested one."""
        return self.epoch != NO_LEADER_EPOCH and self.offset != UNKNOWN_OFFSET


EpochsAnswer: TypeAlias = PartitionAnswer[EpochEnd]


def ask_epoch_ends(node_id: Whom, wanted: Mapping[TopicPartition, EpochAsked]) -> Flow[EpochsAnswer]:
    """Ask a leader for the ends of epochs. Raises UnsupportedVersionError if the broker supports the request only between brokers."""
    try:
        response = yield Call(_request(wanted), node=node_id, min_version=FIRST_VERSION_FOR_CONSUMERS)
    except ConnectError as fault:
        return EpochsAnswer.missing(wanted, str(fault))
    what = Asked(OffsetForLeaderEpochRequest.NAME, "the end of a leader epoch")
    return partition_answer(f"node {node_id}", wanted, _parts(wanted, response), ON_EPOCH_END_ERROR, what)


def _request(wanted: Mapping[TopicPartition, EpochAsked]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for tp, asked in wanted.items():
        topic = topics.setdefault(tp.topic, OffsetForLeaderTopic(topic=tp.topic, partitions=[]))
        partition = OffsetForLeaderPartition(partition=tp.partition, current_leader_epoch=asked.leader_epoch, leader_epoch=asked.epoch)
        topic.partitions.append(partition)
    return OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA_ID, topics=list(topics.values()))


def _parts(wanted: Mapping[TopicPartition, EpochAsked], response: OffsetForLeaderEpochResponse) -> Iterator[Part]:
    for topic in response.topics:
        for part in topic.partitions:
            tp = TopicPartition(topic.topic, part.partition)
            if tp in wanted:
                yield Part(tp, part.error_code, EpochEnd(part.leader_epoch, part.end_offset, wanted[tp].leader_epoch))
