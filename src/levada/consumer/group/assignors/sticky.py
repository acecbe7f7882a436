"""The sticky assignors: balanced assignments in which every member keeps as much as possible; see `balance`."""

from __future__ import annotations

from collections.abc import Mapping

from levada.consumer.group.assignors.balance import balanced, owners
from levada.consumer.group.assignors.members import assignments
from levada.consumer.group.assignors.sticky_data import (
    NO_GENERATION,
    Claim,
    cooperative_claim,
    cooperative_user_data,
    sticky_claim,
    sticky_user_data,
)
from levada.groups import MemberAssignment, MemberSubscription, PartitionAssignor, RebalanceProtocol, TopicLayout
from levada.types import TopicPartition


class StickyAssignor(PartitionAssignor):
    """Members revoke all partitions before they join, and mostly get the same ones again."""

    NAME = "sticky"

    def __init__(self) -> None:
        self._had = Claim((), NO_GENERATION)

    def assign(self, topics: Mapping[str, TopicLayout], members: Mapping[str, MemberSubscription]) -> Mapping[str, MemberAssignment]:
        """Return the assignment of each member."""
        claims = {member: sticky_claim(subscription) for member, subscription in members.items()}
        return assignments(balanced(topics, members, owners(claims)))

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return the partitions of the last assignment, encoded. None before the first assignment."""
        return sticky_user_data(self._had) if self._had.generation != NO_GENERATION else None

    def on_assignment(self, assignment: MemberAssignment, generation: int) -> None:
        """Remember the assignment for the next join."""
        self._had = Claim(assignment.partitions, generation)


class CooperativeStickyAssignor(PartitionAssignor):
    """Members keep their partitions during a rebalance. A partition that goes to another member is not assigned until its owner has revoked
    it.
    """

    NAME = "cooperative-sticky"
    PROTOCOLS = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def assign(self, topics: Mapping[str, TopicLayout], members: Mapping[str, MemberSubscription]) -> Mapping[str, MemberAssignment]:
        """Return the assignment of each member. Partitions that have to be revoked first are left out; the next rebalance assigns them."""
        claims = {member: cooperative_claim(subscription) for member, subscription in members.items()}
        owned = owners(claims)
        claimants: dict[TopicPartition, set[str]] = {}
        for member, claim in claims.items():
            for tp in claim.partitions:
                claimants.setdefault(tp, set()).add(member)

        def may_have(member: str, tp: TopicPartition) -> bool:
            return owned.get(tp) == member or tp not in claimants

        given = balanced(topics, members, owned)
        return assignments({member: [tp for tp in partitions if may_have(member, tp)] for member, partitions in given.items()})

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return the generation of the last assignment, encoded; -1 before the first one.

        Older clients that lead the group read the generation from the user data.
        """
        return cooperative_user_data(self._generation)

    def on_assignment(self, assignment: MemberAssignment, generation: int) -> None:
        """Remember the generation for the next join."""
        self._generation = generation
