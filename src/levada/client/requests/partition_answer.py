"""Responses that have an error code per partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

from levada.acls import ResourceType
from levada.base.permissions import refused
from levada.client.requests.fan_out import Answer
from levada.client.requests.retry import Reaction, RetryPolicy
from levada.error_codes import ErrorCode, described
from levada.types import TopicPartition


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Group partitions by topic. Topics and partitions keep their order."""
    topics: dict[str, list[TopicPartition]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp)
    return topics


T = TypeVar("T")

CONSUMER_REPLICA_ID = -1

PartitionAnswer: TypeAlias = Answer[TopicPartition, T]


class Part(NamedTuple):
    """The part of a response about one partition. value: its result, if there is no error."""

    tp: TopicPartition
    error_code: int
    value: Any


class Asked(NamedTuple):
    """Describes a request for error messages. api: the name of the API. words: what was requested. group_id: the group; "" without one."""

    api: str
    words: str
    group_id: str = ""


def partition_answer(
    who: str, wanted: Mapping[TopicPartition, object], parts: Iterable[Part], policy: RetryPolicy, what: Asked
) -> PartitionAnswer[Any]:
    """Sort the parts of a response by their error codes: into results, keys to ask about again, and errors.

    who: the broker, in error messages. policy: the reactions to error codes. what: the request. A partition that the response leaves out is
    asked about again. A partition that was not requested is ignored, and so is a second part about the same partition. A partition whose
    error code means "there is none" has the value None.
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
            answer.again[tp] = f"{who}: {described(error_code)}"
    return answer
