"""What a broker answers to a question about several partitions, whatever the question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

from levada.acls import ResourceType
from levada.base.permissions import refused
from levada.client.requests.fan_out import Answer
from levada.client.requests.retry import Reaction, RetryPolicy
from levada.error_codes import ErrorCode
from levada.types import TopicPartition


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Group partitions by their topic, both in the order given."""
    topics: dict[str, list[TopicPartition]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp)
    return topics


T = TypeVar("T")

CONSUMER_REPLICA_ID = -1

PartitionAnswer: TypeAlias = Answer[TopicPartition, T]


class Part(NamedTuple):
    """One partition's part of a response. value: what it says where there is no error."""

    tp: TopicPartition
    error_code: int
    value: Any


class Asked(NamedTuple):
    """What was asked for: by which API, what that is in an error's words, and of which group, "" for none."""

    api: str
    words: str
    group_id: str = ""


def partition_answer(
    who: str, wanted: Mapping[TopicPartition, object], parts: Iterable[Part], policy: RetryPolicy, what: Asked
) -> PartitionAnswer[Any]:
    """Sort the parts of a response by what its API's table says about their error codes.

    who: gave the response, in an error's words. what: was asked for. A partition that the response leaves out is to be asked about
    again; one that was not asked about is ignored, as is what is said of one a second time. None is found where an error code means that
    there is nothing.
    """
    answer: PartitionAnswer[Any] = Answer.missing(wanted, f"{who} left it out of its answer")
    unheard = set(wanted)
    for tp, error_code, value in parts:
        if tp not in unheard:
            continue
        unheard.discard(tp)
        del answer.again[tp]
        code = ErrorCode.of(error_code)
        reaction = Reaction.NOTHING if code is ErrorCode.NONE else policy.reaction(code)
        if reaction is Reaction.NOTHING:
            answer.found[tp] = value if code is ErrorCode.NONE else None
        elif reaction is Reaction.RAISE:
            names = {ResourceType.TOPIC: tp.topic, ResourceType.GROUP: what.group_id}
            answer.errors[tp] = refused(what.api, error_code, f"{tp}: {what.words} at {who}", names)
        else:
            answer.again[tp] = f"{who}: {code.name}"
    return answer
