"""Admin calls about partitions, which have to be sent to each partition's leader."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from levada.admin.per_key import Doing, each, lost, take
from levada.base.flow import ANY_NODE, Flow
from levada.client.metadata.topic_queries import these_topics
from levada.client.requests.destination import ThisNode
from levada.client.requests.fan_out import Answer, Spawn, Whom
from levada.client.requests.retry import Reaction, RetryPolicy
from levada.error_codes import ErrorCode
from levada.errors import ConnectError
from levada.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from levada.types import TopicPartition

V = TypeVar("V")

ON_LEADER_ERROR = RetryPolicy(
    dict.fromkeys(
        (
            ErrorCode.LEADER_NOT_AVAILABLE,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.REPLICA_NOT_AVAILABLE,
            ErrorCode.BROKER_NOT_AVAILABLE,
            ErrorCode.KAFKA_STORAGE_ERROR,
        ),
        Reaction.RETRY,
    )
)

AskLeader = Callable[[ThisNode, list[TopicPartition]], Flow[Answer[TopicPartition, V]]]


def each_at_its_leader(
    doing: Doing, partitions: Collection[TopicPartition], spawn: Spawn, ask: AskLeader[V]
) -> Flow[dict[TopicPartition, V]]:
    """Ask the leaders of partitions, all leaders at the same time. Return the value for each partition.

    ask: sends one request to one leader. The leaders are looked up first, and again before a request about a partition is repeated.
    """
    leaders: dict[TopicPartition, ThisNode] = {}

    def ask_one(whom: Whom, tps: list[TopicPartition]) -> Flow[Answer[TopicPartition, V]]:
        try:
            if not isinstance(whom, ThisNode):
                return (yield from _find_leaders(doing, tps, leaders))
            for tp in tps:
                del leaders[tp]
            return (yield from ask(whom, tps))
        except ConnectError as fault:
            return lost(doing, tps, fault)

    return each(doing, partitions, spawn, route=lambda tp: leaders.get(tp, ANY_NODE), ask=ask_one)


def _find_leaders(doing: Doing, tps: list[TopicPartition], leaders: dict[TopicPartition, ThisNode]) -> Flow[Answer[TopicPartition, Any]]:
    """Look up the leaders of partitions and add them to `leaders`. The errors of partitions are in the returned answer."""
    response: MetadataResponse = yield from these_topics(*(tp.topic for tp in tps), may_create=False)
    topics = {topic.name: topic for topic in response.topics}
    answer: Answer[TopicPartition, Any] = Answer(refresh=False)
    for tp in tps:
        leader, code = _leader(topics.get(tp.topic), tp)
        if code is ErrorCode.NONE:
            leaders[tp] = ThisNode(leader)
            answer.located.append(tp)
        else:
            take(doing, answer, tp, code, None)
    return answer


def _leader(topic: MetadataResponseTopic | None, tp: TopicPartition) -> tuple[int, ErrorCode]:
    if topic is None or topic.error_code:
        return -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else ErrorCode.of(topic.error_code)
    found: MetadataResponsePartition | None = next((part for part in topic.partitions if part.partition_index == tp.partition), None)
    if found is None:
        return -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return found.leader_id, ErrorCode.NONE if found.leader_id >= 0 else ErrorCode.LEADER_NOT_AVAILABLE
