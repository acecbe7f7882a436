"""The common functions of the assignors: the order of members, and the subscribers of each topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from levada.groups import MemberAssignment, MemberSubscription, TopicLayout
from levada.types import TopicPartition


def in_order(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Return the member ids: first static members, by instance id, so that a restart does not change their places; then the others."""
    return sorted(members, key=lambda member: (members[member].instance_id is None, members[member].instance_id or member))


def subscribers(topics: Mapping[str, TopicLayout], members: Mapping[str, MemberSubscription]) -> dict[str, list[str]]:
    """Return the subscribers of each topic, in the order of members.

    Topics are sorted by name; topics without a subscriber are left out.
    """
    ordered = in_order(members)
    found = {topic: [member for member in ordered if topic in members[member].topics] for topic in sorted(topics)}
    return {topic: wanting for topic, wanting in found.items() if wanting}


def racks_matter(layout: TopicLayout, racks: Iterable[str | None]) -> bool:
    """Return whether racks make a difference for the assignment of a topic (KIP-881). racks: the racks of the members.

    They make no difference if no member shares a rack with a replica, or if every partition has replicas in all racks of the topic.
    """
    everywhere = frozenset[str]().union(*layout.racks)
    return not everywhere.isdisjoint(rack for rack in racks if rack) and any(here != everywhere for here in layout.racks)


def assignments(given: Mapping[str, Sequence[TopicPartition]]) -> dict[str, MemberAssignment]:
    """Return a MemberAssignment for each member, with its partitions sorted by topic and number."""
    return {member: MemberAssignment(tuple(sorted(partitions))) for member, partitions in given.items()}
