"""The balanced assignment that moves as few partitions as possible; the sticky assignors use it.

Balance comes first: no partition could move from its owner to a member that has at least two partitions fewer. With equal subscriptions the
numbers differ by one at most. Then every member keeps what it has, as far as balance allows. A partition without an owner goes to one of
the members with the fewest partitions; among these, one whose rack has a replica is preferred (KIP-881).

Two members may claim the same partition when one of them missed a rebalance. The claim of the newer generation counts; if both are of the
same generation, neither counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from levada.consumer.group.assignors.members import in_order, subscribers
from levada.consumer.group.assignors.sticky_data import Claim
from levada.groups import MemberSubscription, TopicLayout
from levada.types import TopicPartition

Owners = dict[TopicPartition, str]


def owners(claims: Mapping[str, Claim]) -> Owners:
    """Return the owner of each partition: the member that claims it for the newest generation. If several members do, it has none."""
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in sorted(claims):
        for tp in claims[member].partitions:
            generation = claims[member].generation
            known = best.get(tp)
            if known is None or generation > known[0]:
                best[tp] = generation, member
            elif generation == known[0]:
                best[tp] = generation, None
    return {tp: member for tp, (_, member) in best.items() if member is not None}


def balanced(
    topics: Mapping[str, TopicLayout], members: Mapping[str, MemberSubscription], owned: Owners
) -> dict[str, list[TopicPartition]]:
    """Return the partitions of each member, assigned evenly. owned: the present owner of each partition."""
    wanting = subscribers(topics, members)
    loads = _Loads(in_order(members))
    partitions = [tp for topic in wanting for tp in topics[topic].partitions]
    for tp in partitions:
        owner = owned.get(tp)
        if owner is not None and owner in members and tp.topic in members[owner].topics:
            loads.give(tp, owner)
    are_equal = all(len(subscribed) == len(members) for subscribed in wanting.values())
    if are_equal:
        _trim(loads, len(partitions))
    free = [tp for tp in partitions if tp not in loads.owner]
    # Partitions with the fewest possible owners are assigned first, while these members still have few partitions.
    for tp in sorted(free, key=lambda tp: (len(wanting[tp.topic]), tp)):
        loads.give(tp, _least(loads, wanting[tp.topic], members, topics[tp.topic].racks[tp.partition]))
    if not are_equal:
        _even_out(loads, wanting, owned)
    return loads.given


class _Loads:
    """The partitions of each member while they are being assigned."""

    def __init__(self, members: Iterable[str]) -> None:
        self.given: dict[str, list[TopicPartition]] = {member: [] for member in members}
        self.owner: Owners = {}

    def give(self, tp: TopicPartition, member: str) -> None:
        self.given[member].append(tp)
        self.owner[tp] = member

    def take(self, tp: TopicPartition) -> None:
        self.given[self.owner.pop(tp)].remove(tp)

    def count(self, member: str) -> int:
        return len(self.given[member])


def _trim(loads: _Loads, total: int) -> None:
    """Take from each member the partitions above an equal share. Only for members with equal subscriptions.

    If `total` is not a multiple of the number of members, the first members that have more than an equal share keep one more.
    """
    each, extras = divmod(total, len(loads.given) or 1)
    for partitions in list(loads.given.values()):
        keeps = each
        if len(partitions) > each and extras:
            keeps, extras = each + 1, extras - 1
        for tp in sorted(partitions)[keeps:]:
            loads.take(tp)


def _least(loads: _Loads, wanting: Iterable[str], members: Mapping[str, MemberSubscription], racks: frozenset[str]) -> str:
    """Return the subscribed member with the fewest partitions. Among equals, a member in the rack of a replica is preferred; then the first
    one.

    wanting: the subscribed members, one at least. racks: the racks of the partition's replicas.
    """
    return min(wanting, key=lambda member: (loads.count(member), members[member].rack not in racks))


def _even_out(loads: _Loads, wanting: Mapping[str, list[str]], owned: Owners) -> None:
    """Move partitions to members that have at least two fewer, until no such move is possible.

    This ends, because each move makes the sum of the squares of the members' numbers of partitions smaller. Partitions that are new to
    their member are moved first.

    wanting: the subscribed members of each topic. owned: the owners before the rebalance.
    """
    moved = True
    while moved:
        moved = False
        for tp in sorted(loads.owner, key=lambda tp: (owned.get(tp) == loads.owner[tp], tp)):
            owner = loads.owner[tp]
            to = min(wanting[tp.topic], key=loads.count)
            if loads.count(to) + 1 < loads.count(owner):
                loads.take(tp)
                loads.give(tp, to)
                moved = True
