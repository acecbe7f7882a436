"""Helpers with which the handlers of several APIs build responses: deferred answers, errors per partition, partitions by topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from levada.acls import ResourceType
from levada.base.promise import Promise
from levada.broker.access.permissions import find_topic, may
from levada.broker.cluster.cluster import Cluster
from levada.broker.cluster.topic import Topic
from levada.broker.coordinators.groups.consumer_member import TopicIdPartition
from levada.broker.node.state import Answer, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, TopicAuthorizationError
from levada.protocol.schema import ZERO_UUID, Response
from levada.types import TopicPartition

R = TypeVar("R", bound=Response)
Wanted = TypeVar("Wanted")
Answered = TypeVar("Answered")


def deferred_answer(ask: Callable[[], Promise[R]], refuse: Callable[[BrokerError], Response]) -> Answer:
    """Call `ask` and return a promise of its response, or the response of `refuse` if `ask` raises BrokerError.

    refuse: makes the response for a BrokerError, which `ask` may raise or its promise may have.
    """
    try:
        asked = ask()
    except BrokerError as error:
        return refuse(error)
    answer: Promise[Response] = Promise()

    def settle(settled: Promise[R]) -> None:
        answer.resolve(refuse(settled.error) if isinstance(settled.error, BrokerError) else settled.result())

    asked.on_done(settle)
    return answer


def answer_each(
    call: Call,
    name: str,
    partitions: Sequence[Wanted],
    answer: Callable[[Call, Topic, Wanted], Answered],
    failure: Callable[[Wanted, ErrorCode], Answered],
) -> list[Answered]:
    """Return one answer for each of a topic's partitions, in order. answer: makes the answer for a partition. failure: makes the answer if
    the topic is not found, the client may not use it, or `answer` raises BrokerError.
    """
    try:
        topic = find_topic(call, name, ZERO_UUID, by_id=False)
    except BrokerError as error:
        return [failure(wanted, error.code) for wanted in partitions]
    answers = []
    for wanted in partitions:
        try:
            answers.append(answer(call, topic, wanted))
        except BrokerError as error:
            answers.append(failure(wanted, error.code))
    return answers


def by_topic(cluster: Cluster, partitions: Iterable[TopicIdPartition]) -> list[tuple[Topic, list[int]]]:
    """Group partitions by topic, in order; return each topic with its partition numbers. Partitions of deleted topics are left out."""
    found: dict[Topic, list[int]] = {}
    for owned in sorted(partitions):
        topic = cluster.topic_by_id(owned.topic_id)
        if topic is not None:
            found.setdefault(topic, []).append(owned.partition)
    return list(found.items())


def check_topics(call: Call, partitions: Iterable[TopicIdPartition]) -> None:
    """Raise TopicAuthorizationError if the client may not describe one of these topics. It must not learn from a group's description that
    the topic exists.
    """
    if not all(may(call, ResourceType.TOPIC, topic.name) for topic, _ in by_topic(call.state.cluster, set(partitions))):
        raise TopicAuthorizationError("The group has topics that the client is not authorized to describe.")


def indexes_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partitions by topic; return the partition numbers by topic name, in the order given."""
    found: dict[str, list[int]] = {}
    for name, index in partitions:
        found.setdefault(name, []).append(index)
    return found
