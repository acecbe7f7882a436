"""Partitions grouped by their topics, as responses name them."""

from __future__ import annotations

from collections.abc import Iterable

from levada.acls import ResourceType
from levada.broker.access.permissions import may
from levada.broker.cluster.cluster import Cluster, Topic
from levada.broker.coordinators.groups.consumer_member import Owned
from levada.broker.node.state import Call
from levada.errors import TopicAuthorizationError
from levada.types import TopicPartition


def by_topic(cluster: Cluster, partitions: Iterable[Owned]) -> list[tuple[Topic, list[int]]]:
    """Return the partitions of each topic, in order, where groups know them by its id.

    A topic that was deleted has no name any more and is left out.
    """
    found: dict[Topic, list[int]] = {}
    for owned in sorted(partitions):
        topic = cluster.topic_by_id(owned.topic_id)
        if topic is not None:
            found.setdefault(topic, []).append(owned.partition)
    return list(found.items())


def check_topics(call: Call, partitions: Iterable[Owned]) -> None:
    """Raise TopicAuthorizationError where the client may not describe a topic of these: it is not shown what a group does with it."""
    if not all(may(call, ResourceType.TOPIC, topic.name) for topic, _ in by_topic(call.state.cluster, set(partitions))):
        raise TopicAuthorizationError("The group has topics that the client is not authorized to describe.")


def indexes_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partitions of each topic by its name, in the order given."""
    found: dict[str, list[int]] = {}
    for name, index in partitions:
        found.setdefault(name, []).append(index)
    return found
