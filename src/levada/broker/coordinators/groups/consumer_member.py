"""A member of a consumer group (KIP-848), and how it gets from what it has to what it shall have.

The coordinator decides what each member shall have, its target, in numbered assignments. A member moves to a target at its own pace:
first it gives up what it shall no longer have, then it takes what others have given up. The member's epoch is the number of the assignment
that it has reached, and every heartbeat carries it. Three things move a member: a new target, a heartbeat that says what the member owns,
and others that give up partitions. The states:

- Stable: the member has reached the target of its epoch.
- UnrevokedPartitions: it was told to give up partitions and stays in its epoch until a heartbeat leaves them out of what it owns.
- UnreleasedPartitions: it is in the target's epoch but lacks partitions that another member has not given up yet.

What can never be: a partition that two members are assigned; a partition that is handed on while a heartbeat of its owner still names it;
an epoch that falls, but for a static member that leaves for a while. reconcile() is the only way from state to state; which one follows
depends on what is left to give up and to take, whatever the state was before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, TypeAlias
from uuid import UUID

from levada.broker.coordinators.groups.classic_group import ClientOrigin, Protocol

UNKNOWN_ORIGIN = ClientOrigin("", "")

JOINING, LEAVING, LEAVING_FOR_A_WHILE = 0, -1, -2
"""Epochs of heartbeats with a meaning of their own."""


class Owned(NamedTuple):
    """A partition by its topic's id."""

    topic_id: UUID
    partition: int


Partitions: TypeAlias = frozenset[Owned]

NO_PARTITIONS: Partitions = frozenset()


class MemberState(StrEnum):
    """How far a member is on its way to its target."""

    STABLE = "Stable"
    UNREVOKED_PARTITIONS = "UnrevokedPartitions"
    UNRELEASED_PARTITIONS = "UnreleasedPartitions"


class ClassicPart(NamedTuple):
    """What a member of the classic protocol has beyond that: the assignors that it offers, and a session of its own length."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


def _sees_all(topic: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member. topics, pattern: what it subscribes to. sees: which topics its user may know of; a pattern matches no others.

    assigned: what it has, and in which epoch it got each. revoking: what it was assigned and has to give up, likewise. classic: None unless
    it uses the classic protocol.
    """

    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    origin: ClientOrigin = UNKNOWN_ORIGIN
    rebalance_timeout_ms: int = 0
    topics: frozenset[str] = frozenset()
    pattern: str = ""
    sees: Callable[[str], bool] = field(default=_sees_all, compare=False)
    assignor: str | None = None
    state: MemberState = MemberState.STABLE
    epoch: int = JOINING
    previous_epoch: int = JOINING
    assigned: Mapping[Owned, int] = field(default_factory=dict)
    revoking: Mapping[Owned, int] = field(default_factory=dict)
    classic: ClassicPart | None = None

    @property
    def held(self) -> Partitions:
        """The partitions that may not be assigned to another member now."""
        return frozenset(self.revoking.keys() | self.assigned.keys())

    def held_since(self, partition: Owned) -> int | None:
        """Return the epoch in which it got a partition that it still holds, None for one that it does not hold (KIP-1251)."""
        return self.assigned.get(partition, self.revoking.get(partition))

    def has_reached(self, epoch: int) -> bool:
        """Whether the member has what the assignment of an epoch gives it."""
        return self.state is MemberState.STABLE and self.epoch == epoch


def reconcile(
    member: ConsumerMember, target: Partitions, target_epoch: int, is_free: Callable[[Owned], bool], owned: Partitions | None
) -> ConsumerMember:
    """Return the member one step further on its way to a target.

    is_free: whether nobody has a partition. owned: what the member says it has, None if its heartbeat does not say.
    """
    if member.has_reached(target_epoch):
        return member
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _still_has(member.revoking, owned):
            return member
        epoch += 1
    kept = {partition: since for partition, since in member.assigned.items() if partition in target}
    revoked = {partition: since for partition, since in member.assigned.items() if partition not in target}
    if revoked and _still_has(revoked, owned):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, epoch, kept, revoked)
    missing = target - kept.keys()
    added = {partition: target_epoch for partition in missing if is_free(partition)}
    state = MemberState.STABLE if len(added) == len(missing) else MemberState.UNRELEASED_PARTITIONS
    return _moved(member, state, target_epoch, {**kept, **added}, {})


def _moved(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: Mapping[Owned, int], revoking: Mapping[Owned, int]
) -> ConsumerMember:
    return replace(member, state=state, epoch=epoch, previous_epoch=member.epoch, assigned=assigned, revoking=revoking)


def _still_has(partitions: Collection[Owned], owned: Partitions | None) -> bool:
    """Whether the member may still read some of these; also when it does not say."""
    return owned is None or not owned.isdisjoint(partitions)
