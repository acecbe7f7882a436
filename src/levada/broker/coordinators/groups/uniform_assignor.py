"""The uniform assignor: all members get the same number of partitions, as far as their subscriptions allow, and keep what they have.

First everybody keeps what it has and still subscribes to. What is left goes to whoever has least. Then partitions move from members with
more to members with at least two less, until there are none: each move makes the loads more equal, so this ends, and nothing else moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from levada.broker.coordinators.groups.assignor import Subscriptions, in_order, partitions_of
from levada.broker.coordinators.groups.consumer_member import Owned, Partitions


def assign_uniformly(members: Subscriptions, topics: Mapping[UUID, int]) -> dict[str, Partitions]:
    """Return what each member shall have (levada.broker.coordinators.groups.assignor)."""
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


def _kept(members: Subscriptions, member: str, topics: Mapping[UUID, int]) -> dict[Owned, None]:
    subscription = members[member]
    kept = [one for one in subscription.target if one.topic_id in subscription.topics and one.partition < topics.get(one.topic_id, 0)]
    return dict.fromkeys(sorted(kept))


def _move_one(given: dict[str, dict[Owned, None]], subscribers: Mapping[UUID, list[str]]) -> bool:
    """Move a partition from a member with as many as possible to where fewer are; whether there was one to move."""
    for member in sorted(given, key=lambda member: -len(given[member])):
        for partition in reversed(given[member]):
            least = min(subscribers[partition.topic_id], key=lambda other: len(given[other]))
            if len(given[member]) > len(given[least]) + 1:
                del given[member][partition]
                given[least][partition] = None
                return True
    return False
