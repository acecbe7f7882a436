"""Range: of each topic every member gets a block of neighbours (behaviour G20, KIP-881).

The first members get one partition more where the number does not divide. So topics with as many partitions and the same members have
their partitions of one number with one member, which joins depend on; and where racks count, members are given partitions with a replica in
their rack first, of such topics all of one number or none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from levada.consumer.group.assignors.members import assignments, racks_matter, subscribers
from levada.groups import MemberAssignment, MemberSubscription, PartitionAssignor, TopicLayout
from levada.types import TopicPartition


class RangeAssignor(PartitionAssignor):
    """See the module's theory."""

    NAME = "range"

    def assign(self, topics: Mapping[str, TopicLayout], members: Mapping[str, MemberSubscription]) -> Mapping[str, MemberAssignment]:
        """Return what each member gets."""
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
    """One topic while it is shared out. left: its partitions that nobody has yet."""

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
        """Give partitions to a member."""
        self.given[member] += partitions
        for tp in partitions:
            del self.left[tp]
        if partitions and len(self.given[member]) > self._each:
            self._extras -= 1

    def is_near(self, member: str, tp: TopicPartition) -> bool:
        """Whether a partition has a replica in the member's rack; a member without one is near to all."""
        rack = self._rack[member]
        return not rack or rack in self.layout.racks[tp.partition]

    def assign_ranges(self, may_have: Callable[[str, TopicPartition], bool]) -> None:
        """Give each member the next partitions that it may have, up to its quota."""
        for member in self.members:
            wanted = [tp for tp in self.left if may_have(member, tp)]
            self.give(member, wanted[: self.quota(member)])


def _co_partitioned(topics: Sequence[_Topic]) -> list[list[_Topic]]:
    """Return the topics, those with as many partitions and the same members together."""
    alike: defaultdict[tuple[int, tuple[str, ...]], list[_Topic]] = defaultdict(list)
    for topic in topics:
        alike[len(topic.layout.racks), tuple(topic.members)].append(topic)
    return list(alike.values())


def _assign_by_rack(alike: Sequence[_Topic]) -> None:
    """Give members partitions that are near to them, of several topics those of one number together."""
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
