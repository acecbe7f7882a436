"""Topics: create, delete, describe and list them, and add partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Never
from uuid import UUID

from levada.admin import describing_topics, topics
from levada.admin.describing_topics import TopicDescription
from levada.admin.topics import CreatedTopic
from levada.api import arguments
from levada.api.admin import admin_arguments
from levada.api.admin.core import CLIENT, AdminCore
from levada.api.client import Operation
from levada.api.keywords import unknown_keyword
from levada.types import NewPartitions, NewTopic


def create_topics(
    admin: AdminCore, /, new_topics: Sequence[NewTopic], *, validate_only: bool = False, timeout: float | None = None, **unknown: Never
) -> Operation[dict[str, CreatedTopic]]:
    """Create topics; return the created topics, by name. validate_only: whether only to check if they could be created.

    Raises TopicAlreadyExistsError, InvalidTopicError and others, and UnsupportedVersionError if brokers before 2.4 are to choose partitions
    or replication_factor. Other brokers may learn of a new topic a moment after this returns.
    """
    if unknown:
        raise unknown_keyword(create_topics, unknown, CLIENT)
    wanted = arguments.new_topics(new_topics)
    flow = topics.create_topics(wanted, admin.attempts(), timeout_ms=admin.request_timeout_ms, validate_only=validate_only)
    return admin.operation(flow, "create topics", timeout)


def delete_topics(
    admin: AdminCore, /, names: Sequence[str], *, timeout: float | None = None, **unknown: Never
) -> Operation[dict[str, None]]:
    """Delete topics and all their records. Return a dict that maps each topic to None. Raises UnknownTopicOrPartitionError and others."""
    if unknown:
        raise unknown_keyword(delete_topics, unknown, CLIENT)
    flow = topics.delete_topics(arguments.topic_names(names), admin.attempts(), timeout_ms=admin.request_timeout_ms)
    return admin.operation(flow, "delete topics", timeout)


def delete_topics_by_id(admin: AdminCore, /, topic_ids: Iterable[UUID], *, timeout: float | None = None) -> Operation[dict[UUID, None]]:
    """Delete topics by id. So a new topic with the name of a deleted one is not deleted by mistake. Return a dict that maps each topic id
    to None.

    Raises BrokerError (UNKNOWN_TOPIC_ID and others), UnsupportedVersionError on brokers before 2.8.
    """
    flow = topics.delete_topics_by_id(admin_arguments.topic_ids(topic_ids), admin.attempts(), timeout_ms=admin.request_timeout_ms)
    return admin.operation(flow, "delete topics", timeout)


def describe_topics(admin: AdminCore, /, names: Sequence[str], *, timeout: float | None = None) -> Operation[dict[str, TopicDescription]]:
    """Describe topics by name. Missing topics are not created. Raises UnknownTopicOrPartitionError and others."""
    flow = describing_topics.describe_topics(arguments.topic_names(names), admin.attempts())
    return admin.operation(flow, "describe topics", timeout)


def describe_topics_by_id(
    admin: AdminCore, /, topic_ids: Iterable[UUID], *, timeout: float | None = None
) -> Operation[dict[UUID, TopicDescription]]:
    """Describe topics by id.

    Raises BrokerError (UNKNOWN_TOPIC_ID) for a topic that does not exist any more, UnsupportedVersionError on brokers before 3.1.
    """
    flow = describing_topics.describe_topics_by_id(admin_arguments.topic_ids(topic_ids), admin.attempts())
    return admin.operation(flow, "describe topics", timeout)


def create_partitions(
    admin: AdminCore,
    /,
    new_partitions: Mapping[str, int | NewPartitions],
    *,
    validate_only: bool = False,
    timeout: float | None = None,
) -> Operation[dict[str, None]]:
    """Add partitions to topics. Records with keys may go to other partitions than before. Return a dict that maps each topic to None.

    new_partitions: for each topic, the new total number of partitions, or a NewPartitions that also assigns the new replicas.
    validate_only: whether only to check if they could be created. Raises BrokerError (INVALID_PARTITIONS) for a topic that already has that
    many, UnsupportedVersionError on brokers before 1.0, and others.
    """
    wanted = admin_arguments.new_partitions(new_partitions)
    flow = topics.create_partitions(wanted, admin.attempts(), timeout_ms=admin.request_timeout_ms, validate_only=validate_only)
    return admin.operation(flow, "create partitions", timeout)


def list_topics(admin: AdminCore, /, *, internal: bool = False, timeout: float | None = None) -> Operation[list[str]]:
    """Return the sorted names of the topics that this user may describe. internal: whether to include internal topics, such as
    __consumer_offsets.
    """
    return admin.operation(topics.list_topics(admin.attempts(), internal=internal), "list topics", timeout)
