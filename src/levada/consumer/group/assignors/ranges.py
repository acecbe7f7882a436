"""The range assignor: for each topic, every member gets a block of consecutive partitions (KIP-881).

If the number does not divide, the first members get one partition more. So for topics with the same number of partitions and the same
members, partitions with the same number are assigned to the same member, which joins depend on. Where racks count, members first get
partitions that have a replica in their rack; for such co-partitioned topics, either all partitions of a number or none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from levada.consumer.group.assignors.members import assignments, racks_matter, subscribers
from levada.groups import MemberAssignment, MemberSubscription, PartitionAssignor, TopicLayout
from levada.types import TopicPartition


class RangeAssignor(PartitionAssignor):
    """Assigns blocks of consecutive partitions, topic by topic."""

    NAME = "range"

    def assign(self, topics: Mapping[str, TopicLayout], members: Mapping[str, MemberSubscription]) -> Mapping[str, MemberAssignment]:
        """Return the assignment of each member."""
        rounds = [_Topic(topics[topic], wanting, members) for topic, wanting in subscribers(topics, members).items()]
        if any(topic.racks_matter for topic in rounds):
            for alike in _co_partitioned(rounds):
                _assign_by_rack(alike)
        for topic in rounds:
            topic.assign_ranges(lambda member, tp: True)
        given: dict[str, list[TopicPartition]] = {member: [] for member in members}
        for topic in rounds:
            for member, partitions in topic.given.items():
                given[member] += partitions
        return assignments(given)


class _Topic:
    """One topic while it is being assigned. left: the partitions that are not assigned yet."""

    def __init__(self, layout: TopicLayout, members: Sequence[str], subscriptions: Mapping[str, MemberSubscription]) -> None:
        self.layout = layout
        self.members = members
        self.left = dict.fromkeys(layout.partitions)
        self.given: dict[str, list[TopicPartition]] = {member: [] for member in members}
        self._rack = {member: subscriptions[member].rack for member in members}
        self.racks_matter = racks_matter(layout, self._rack.values())
        self._each, self._extras = divmod(len(layout.racks), len(members))

    def quota(self, member: str) -> int:
        """Return how many partitions more a member may be given."""
        return max(self._each + (self._extras > 0) - len(self.given[member]), 0)

    def give(self, member: str, partitions: Sequence[TopicPartition]) -> None:
        """Assign these partitions to a member."""
        self.given[member] += partitions
        for tp in partitions:
            del self.left[tp]
        if partitions and len(self.given[member]) > self._each:
            self._extras -= 1

    def is_near(self, member: str, tp: TopicPartition) -> bool:
        """Whether a partition has a replica in the member's rack. A member without a rack is near to every partition."""
        rack = self._rack[member]
        return not rack or rack in self.layout.racks[tp.partition]

    def assign_ranges(self, may_have: Callable[[str, TopicPartition], bool]) -> None:
        """Give each member the next partitions that it may have, up to its quota."""
        for member in self.members:
            wanted = [tp for tp in self.left if may_have(member, tp)]
            self.give(member, wanted[: self.quota(member)])


def _co_partitioned(topics: Sequence[_Topic]) -> list[list[_Topic]]:
    """Group topics that have the same number of partitions and the same members."""
    alike: defaultdict[tuple[int, tuple[str, ...]], list[_Topic]] = defaultdict(list)
    for topic in topics:
        alike[len(topic.layout.racks), tuple(topic.members)].append(topic)
    return list(alike.values())


def _assign_by_rack(alike: Sequence[_Topic]) -> None:
    """Assign partitions to members in the rack of a replica. Partitions with the same number in co-partitioned topics go to one member."""
    first = alike[0]
    if len(alike) == 1:
        if first.racks_matter:
            first.assign_ranges(first.is_near)
        return
    for index in range(len(first.layout.racks)):
        for member in first.members:
            at = [(topic, TopicPartition(topic.layout.name, index)) for topic in alike]
            if all(topic.quota(member) and topic.is_near(member, tp) for topic, tp in at):
                for topic, tp in at:
                    topic.give(member, [tp])
                break
