"""Answering for each partition of a request on its own: an error of one says nothing about the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from levada.broker.access.permissions import find_topic
from levada.broker.cluster.cluster import Topic
from levada.broker.node.state import Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.schema import ZERO_UUID

Wanted = TypeVar("Wanted")
Answered = TypeVar("Answered")


def answer_each(
    call: Call,
    name: str,
    partitions: Sequence[Wanted],
    answer: Callable[[Call, Topic, Wanted], Answered],
    failure: Callable[[Wanted, ErrorCode], Answered],
) -> list[Answered]:
    """Return the answers for partitions of a topic, in order. failure: makes the one for a BrokerError of `answer`, or of the topic."""
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
