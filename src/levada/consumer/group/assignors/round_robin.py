"""The round-robin assignor: deals all partitions of all topics to the members one by one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from levada.consumer.group.assignors.members import assignments, in_order, subscribers
from levada.groups import MemberAssignment, MemberSubscription, PartitionAssignor, TopicLayout
from levada.types import TopicPartition


class RoundRobinAssignor(PartitionAssignor):
    """Assigns partitions to the members in turn, one by one. For a topic, members that are not subscribed to it are left out."""

    NAME = "roundrobin"

    def assign(self, topics: Mapping[str, TopicLayout], members: Mapping[str, MemberSubscription]) -> Mapping[str, MemberAssignment]:
        """Return the assignment of each member."""
        given: dict[str, list[TopicPartition]] = {member: [] for member in members}
        turns = cycle(in_order(members))
        for topic in subscribers(topics, members):
            for tp in topics[topic].partitions:
                given[next(member for member in turns if topic in members[member].topics)].append(tp)
        return assignments(given)
