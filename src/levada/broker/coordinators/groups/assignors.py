"""The assignors that the group coordinator has for consumer groups and share groups: pure functions from subscriptions to assignments.

Members of consumer groups choose range or uniform. Share groups have the simple assignor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias
from uuid import UUID

from levada.broker.coordinators.groups.consumer_member import Partitions, TopicIdPartition


class Subscription(NamedTuple):
    """The topics to which a member subscribes, and its target assignment so far. instance_id: the member's group.instance.id, None for a
    dynamic member.
    """

    topics: frozenset[UUID]
    target: Partitions
    instance_id: str | None = None


Subscriptions: TypeAlias = Mapping[str, Subscription]
"""By member id."""

Assignor: TypeAlias = Callable[[Subscriptions, Mapping[UUID, int]], dict[str, Partitions]]
"""Returns the target assignment of each member. The second argument is the number of partitions of each topic that exists."""


def in_order(members: Subscriptions) -> list[str]:
    """Return the member ids: static members first, ordered by instance id, so that their restart changes nothing; then the others."""
    return sorted(members, key=lambda member: (members[member].instance_id is None, members[member].instance_id or member))


def partitions_of(topic: UUID, count: int) -> list[TopicIdPartition]:
    """Return all partitions of a topic. count: their number."""
    return [TopicIdPartition(topic, index) for index in range(count)]


def assign_ranges(members: Subscriptions, topics: Mapping[UUID, int]) -> dict[str, Partitions]:
    """Assign as Kafka's RangeAssignor does: each topic's partitions in contiguous blocks, the first ones to the first members.

    Topics with the same number of partitions and the same subscribers are split alike, so that one member gets the partitions that have
    the same number.
    """
    given: dict[str, set[TopicIdPartition]] = {member: set() for member in members}
    ordered = in_order(members)
    for topic, count in topics.items():
        subscribers = [member for member in ordered if topic in members[member].topics]
        if not subscribers:
            continue
        partitions = partitions_of(topic, count)
        size, larger = divmod(count, len(subscribers))
        for place, member in enumerate(subscribers):
            start = place * size + min(place, larger)
            given[member].update(partitions[start : start + size + (place < larger)])
    return {member: frozenset(partitions) for member, partitions in given.items()}


def assign_uniformly(members: Subscriptions, topics: Mapping[UUID, int]) -> dict[str, Partitions]:
    """Assign as Kafka's UniformAssignor does: equally many partitions to all members, as far as their subscriptions allow.

    First each member keeps the partitions that it has and still subscribes to. The remaining ones go to the members with the fewest. Then
    partitions move from members with more to members with at least two fewer. Each move makes the loads more equal, so this ends, and no
    other partition moves.
    """
    ordered = in_order(members)
    subscribers = {topic: [member for member in ordered if topic in members[member].topics] for topic in topics}
    given = {member: _kept(members, member, topics) for member in ordered}
    taken = {partition for partitions in given.values() for partition in partitions}

    def load(member: str) -> int:
        return len(given[member])

    # Topics that few subscribe to first: their partitions have the smallest choice.
    for topic in sorted(topics, key=lambda topic: (len(subscribers[topic]), topic)):
        for partition in partitions_of(topic, topics[topic]):
            if partition not in taken and subscribers[topic]:
                given[min(subscribers[topic], key=load)][partition] = None
    while _move_one(given, subscribers):
        pass
    return {member: frozenset(partitions) for member, partitions in given.items()}


def _kept(members: Subscriptions, member: str, topics: Mapping[UUID, int]) -> dict[TopicIdPartition, None]:
    subscription = members[member]
    kept = [one for one in subscription.target if one.topic_id in subscription.topics and one.partition < topics.get(one.topic_id, 0)]
    return dict.fromkeys(sorted(kept))


def _move_one(given: dict[str, dict[TopicIdPartition, None]], subscribers: Mapping[UUID, list[str]]) -> bool:
    """Move a partition from its member to a subscriber with at least two partitions fewer; members with the most partitions are tried
    first. Returns False if no partition can be moved like this.

    given: the partitions of each member; changed in place. subscribers: the members by topic id.
    """
    for member in sorted(given, key=lambda member: -len(given[member])):
        for partition in reversed(given[member]):
            least = min(subscribers[partition.topic_id], key=lambda other: len(given[other]))
            if len(given[member]) > len(given[least]) + 1:
                del given[member][partition]
                given[least][partition] = None
                return True
    return False


def assign_shared(members: Subscriptions, topics: Mapping[UUID, int]) -> dict[str, Partitions]:
    """Assign as Kafka's SimpleAssignor does for share groups, in which several members may read one partition (KIP-932).

    Every partition gets members, and every member gets partitions, as evenly as subscriptions allow. Where there are more members than
    partitions, each partition gets equally many members, so that some members may read more than one. First each member keeps what it has,
    up to its fair part. Then each partition gets the members that it lacks, those with the fewest partitions first.
    """
    every = [partition for topic in sorted(topics) for partition in partitions_of(topic, topics[topic])]
    readers = {partition: [name for name in members if partition.topic_id in members[name].topics] for partition in every}
    choices = {name: [partition for partition in every if partition.topic_id in members[name].topics] for name in members}
    given: dict[str, dict[TopicIdPartition, None]] = {name: {} for name in members}
    crowd = dict.fromkeys(every, 0)
    wanted = {partition: _ceil(len(names), len(choices[names[0]])) for partition, names in readers.items() if names}

    def give(name: str, partition: TopicIdPartition) -> None:
        given[name][partition] = None
        crowd[partition] += 1

    for partition in wanted:
        for name in readers[partition]:
            fair = _ceil(len(choices[name]) * wanted[partition], len(readers[partition]))
            if partition in members[name].target and crowd[partition] < wanted[partition] and len(given[name]) < fair:
                give(name, partition)
    for partition in wanted:
        while crowd[partition] < wanted[partition]:
            others = [name for name in readers[partition] if partition not in given[name]]
            give(min(others, key=lambda name: len(given[name])), partition)
    return {name: frozenset(partitions) for name, partitions in given.items()}


def _ceil(count: int, by: int) -> int:
    return -(-count // by)
