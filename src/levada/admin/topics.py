"""Create, delete, list and describe topics (behaviour X7).

Every topic of a call has its own outcome. A call tries all of them, retries those that may yet succeed, and then raises the first error in
the order given, with what became of the other topics: they were tried all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from levada.admin.each import Doing, each, lost, take
from levada.admin.retry import ON_ADMIN_ERROR, Attempts
from levada.client.fan_out import Answer, Whom, raise_first
from levada.client.metadata_update import described_partitions
from levada.client.topic_queries import all_topics, these_topics
from levada.error_codes import ErrorCode
from levada.errors import DisconnectError, KafkaError, UnsupportedVersionError, broker_error
from levada.flow import Call, Flow
from levada.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from levada.protocol.messages.delete_topics import DeleteTopicsRequest
from levada.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from levada.protocol.schema import Request
from levada.types import NewTopic, PartitionInfo

BROKER_DEFAULT = -1
FIRST_VERSION_WITH_DEFAULTS = 4
LAST_DELETE_VERSION_BY_NAME = 5
"""Later versions name topics in another field, and offer nothing more for names."""
_NO_ID = UUID(int=0)


class CreatedTopic(NamedTuple):
    """A topic that was created. What the broker does not say (before 2.4) is -1, and None for the id (before 2.8)."""

    name: str
    topic_id: UUID | None
    partitions: int
    replication_factor: int


class TopicDescription(NamedTuple):
    """A topic as the brokers see it."""

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]


class Outcome(NamedTuple):
    """What a broker said about one topic: an error, or a value."""

    error_code: int
    message: str | None
    value: Any


EXISTENCE: Mapping[int, str] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "it does not exist",
    ErrorCode.TOPIC_ALREADY_EXISTS: "it exists already",
}
"""What is said instead of the brokers' own words, which speak of partitions that a server hosts, or name the topic again."""


class Change(NamedTuple):
    """One kind of change: how to ask for it, how to read the answer, and which error may mean that it was done before."""

    doing: str
    done_already: ErrorCode
    request: Callable[[Sequence[str]], Request]
    outcomes: Callable[[Any], Mapping[str, Outcome]]
    min_version: int
    max_version: int


def create_topics(topics: Sequence[NewTopic], attempts: Attempts, *, timeout_ms: int, validate_only: bool) -> Flow[dict[str, CreatedTopic]]:
    """Create topics; with validate_only, only check whether they could be created."""
    by_name = {topic.name: topic for topic in topics}
    needs_defaults = any(BROKER_DEFAULT in (topic.partitions, topic.replication_factor) for topic in topics)
    change = Change(
        "create topic",
        ErrorCode.TOPIC_ALREADY_EXISTS,
        lambda names: CreateTopicsRequest(
            topics=[_creatable(by_name[name]) for name in names], timeout_ms=timeout_ms, validate_only=validate_only
        ),
        lambda response: {topic.name: Outcome(topic.error_code, topic.error_message, _created(topic)) for topic in response.topics},
        min_version=FIRST_VERSION_WITH_DEFAULTS if needs_defaults else int(validate_only),
        max_version=CreateTopicsRequest.MAX_VERSION,
    )
    try:
        return (yield from _carry_out(change, list(by_name), attempts))
    except UnsupportedVersionError as error:
        if needs_defaults:
            raise UnsupportedVersionError(f"{error.reason}; brokers before 2.4 need partitions and replication_factor") from None
        raise


def delete_topics(names: Sequence[str], attempts: Attempts, *, timeout_ms: int) -> Flow[None]:
    """Delete topics by name."""
    change = Change(
        "delete topic",
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        lambda names: DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms),
        lambda response: {topic.name: Outcome(topic.error_code, topic.error_message, None) for topic in response.responses},
        min_version=0,
        max_version=LAST_DELETE_VERSION_BY_NAME,
    )
    yield from _carry_out(change, list(dict.fromkeys(names)), attempts)


def _carry_out(change: Change, names: list[str], attempts: Attempts) -> Flow[dict[str, Any]]:
    """Ask the controller for all topics, then again for those that may yet succeed."""
    doing = Doing(lambda name: f"{change.doing} '{name}'", ON_ADMIN_ERROR, attempts)
    return each(
        doing, names, None, route=lambda name: attempts.controller(), ask=lambda node, names: _ask(change, names, node, doing, attempts)
    )


def _ask(change: Change, names: Sequence[str], node: Whom, doing: Doing, attempts: Attempts) -> Flow[Answer[str, Any]]:
    """Ask the controller once."""
    call = Call(change.request(names), node, min_version=change.min_version, max_version=change.max_version)
    try:
        response = yield call
    except DisconnectError as fault:
        attempts.answers_lost += 1
        return lost(doing, names, fault)
    said = change.outcomes(response)
    answer: Answer[str, Any] = Answer(refresh=False)
    for name in names:
        if name in said:
            outcome = said[name]
            take(doing, answer, name, outcome.error_code, outcome.value, _message(change, outcome, attempts))
    return answer


def _message(change: Change, outcome: Outcome, attempts: Attempts) -> str | None:
    message = EXISTENCE.get(outcome.error_code, outcome.message)
    if attempts.answers_lost and outcome.error_code == change.done_already:
        return f"{message} (an earlier attempt of this call got no answer, and may have done it)"
    return message


def describe_topics(names: Sequence[str]) -> Flow[dict[str, TopicDescription]]:
    """Describe topics by name; raises the first error in the order given, with the outcomes of all."""
    response: MetadataResponse = yield from these_topics(*names, may_create=False)
    described = {topic.name: topic for topic in response.topics}
    errors: dict[str, KafkaError] = {}
    for name in names:
        code = described[name].error_code if name in described else int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
            why = f": {EXISTENCE[code]}" if code in EXISTENCE else ""
            errors[name] = broker_error(code, f"describe topic '{name}'{why}")
    raise_first(lambda name: f"describe topic '{name}'", names, errors)
    return {name: _description(described[name]) for name in names}


def list_topics(*, internal: bool) -> Flow[list[str]]:
    """Return the names of the topics this user may see, sorted; internal ones on request."""
    response: MetadataResponse = yield from all_topics()
    return sorted(topic.name for topic in response.topics if topic.name is not None and (internal or not topic.is_internal))


def _creatable(topic: NewTopic) -> CreatableTopic:
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in (topic.config or {}).items()]
    return CreatableTopic(name=topic.name, num_partitions=topic.partitions, replication_factor=topic.replication_factor, configs=configs)


def _created(topic: Any) -> CreatedTopic:
    return CreatedTopic(topic.name, None if topic.topic_id == _NO_ID else topic.topic_id, topic.num_partitions, topic.replication_factor)


def _description(topic: MetadataResponseTopic) -> TopicDescription:
    return TopicDescription(
        topic.name or "", None if topic.topic_id == _NO_ID else topic.topic_id, topic.is_internal, described_partitions(topic)
    )
