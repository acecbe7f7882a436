"""Create, delete and list topics, and add partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from levada.admin.per_key import Attempts
from levada.admin.requests import Asked, Outcome, carry_out, from_any
from levada.base.flow import Flow
from levada.client.metadata.topic_queries import all_topics
from levada.error_codes import ErrorCode
from levada.errors import UnsupportedVersionError
from levada.protocol.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from levada.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.metadata import MetadataResponse
from levada.protocol.schema import ZERO_UUID
from levada.types import NewPartitions, NewTopic

BROKER_DEFAULT = -1
FIRST_VERSION_WITH_DEFAULTS = 4
LAST_DELETE_VERSION_BY_NAME = 5
"""Later versions have the names in another field, and offer nothing more for names."""
FIRST_DELETE_VERSION_BY_ID = 6


class CreatedTopic(NamedTuple):
    """A topic that was created. Numbers are -1 if the broker does not report them (before Kafka 2.4); the id is None before Kafka 2.8."""

    name: str
    topic_id: UUID | None
    partitions: int
    replication_factor: int


def create_topics(topics: Sequence[NewTopic], attempts: Attempts, *, timeout_ms: int, validate_only: bool) -> Flow[dict[str, CreatedTopic]]:
    """Create topics, and return the created topics by name. With validate_only, check only whether they could be created.

    timeout_ms: how long the broker may take.
    """
    by_name = {topic.name: topic for topic in topics}
    needs_defaults = any(not topic.assignment and BROKER_DEFAULT in (topic.partitions, topic.replication_factor) for topic in topics)
    asked = Asked(
        lambda name: f"create topic '{name}'",
        lambda names: CreateTopicsRequest(
            topics=[_creatable(by_name[name]) for name in names], timeout_ms=timeout_ms, validate_only=validate_only
        ),
        lambda response: {topic.name: Outcome(topic.error_code, topic.error_message, _created(topic)) for topic in response.topics},
        ErrorCode.TOPIC_ALREADY_EXISTS,
        min_version=FIRST_VERSION_WITH_DEFAULTS if needs_defaults else int(validate_only),
    )
    try:
        return (yield from carry_out(asked, list(by_name), attempts))
    except UnsupportedVersionError as error:
        if needs_defaults:
            raise UnsupportedVersionError(f"{error.reason}; brokers before 2.4 need partitions and replication_factor") from None
        raise


def delete_topics(names: Sequence[str], attempts: Attempts, *, timeout_ms: int) -> Flow[dict[str, None]]:
    """Delete topics by name. Return a dict that maps each topic to None. timeout_ms: how long the broker may take."""
    asked = Asked(
        lambda name: f"delete topic '{name}'",
        lambda names: DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms),
        lambda response: {topic.name: Outcome(topic.error_code, topic.error_message) for topic in response.responses},
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        max_version=LAST_DELETE_VERSION_BY_NAME,
    )
    return carry_out(asked, list(dict.fromkeys(names)), attempts)


def delete_topics_by_id(ids: Collection[UUID], attempts: Attempts, *, timeout_ms: int) -> Flow[dict[UUID, None]]:
    """Delete topics by id (KIP-516). So a new topic with the name of a deleted one is not deleted by mistake. Return a dict that maps each
    topic id to None.

    timeout_ms: how long the broker may take.
    """
    asked = Asked(
        lambda topic_id: f"delete the topic with id {topic_id}",
        lambda ids: DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=one) for one in ids], timeout_ms=timeout_ms),
        lambda response: {topic.topic_id: Outcome(topic.error_code, topic.error_message) for topic in response.responses},
        ErrorCode.UNKNOWN_TOPIC_ID,
        min_version=FIRST_DELETE_VERSION_BY_ID,
    )
    return carry_out(asked, ids, attempts)


def create_partitions(
    wanted: Mapping[str, NewPartitions], attempts: Attempts, *, timeout_ms: int, validate_only: bool
) -> Flow[dict[str, None]]:
    """Add partitions to topics. Return a dict that maps each topic to None. With validate_only, check only whether they could be added.

    timeout_ms: how long the broker may take.
    """
    asked = Asked(
        lambda name: f"create partitions of topic '{name}'",
        lambda names: CreatePartitionsRequest(
            topics=[_more(name, wanted[name]) for name in names], timeout_ms=timeout_ms, validate_only=validate_only
        ),
        lambda response: {topic.name: Outcome(topic.error_code, topic.error_message) for topic in response.results},
        ErrorCode.INVALID_PARTITIONS,
    )
    return carry_out(asked, wanted, attempts)


def list_topics(attempts: Attempts, *, internal: bool) -> Flow[list[str]]:
    """Return the sorted names of the topics that this user may see; internal topics are included on request."""
    response: MetadataResponse = yield from from_any("list topics", attempts, all_topics)
    return sorted(topic.name for topic in response.topics if topic.name is not None and (internal or not topic.is_internal))


def _creatable(topic: NewTopic) -> CreatableTopic:
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in (topic.config or {}).items()]
    placed = (topic.assignment or {}).items()
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers)) for index, brokers in placed],
        configs=configs,
    )


def _created(topic: Any) -> CreatedTopic:
    return CreatedTopic(topic.name, None if topic.topic_id == ZERO_UUID else topic.topic_id, topic.num_partitions, topic.replication_factor)


def _more(name: str, wanted: NewPartitions) -> CreatePartitionsTopic:
    placed = None if wanted.assignment is None else [CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in wanted.assignment]
    return CreatePartitionsTopic(name=name, count=wanted.total_count, assignments=placed)
