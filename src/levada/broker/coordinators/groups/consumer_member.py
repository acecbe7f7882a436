"""A member of a consumer group (KIP-848), and how it is reconciled with its target assignment.

The coordinator computes a target assignment for each member, in numbered epochs. A member moves to its target at its own pace: first it
revokes the partitions that it loses, then it gets those that others have released. The member epoch is the epoch of the target that it has
reached, and every heartbeat carries it. Three things move a member: a new target, a heartbeat with the partitions that it owns, and other
members that release partitions. The states:

- Stable: the member has reached the target of its epoch.
- UnrevokedPartitions: it was told to revoke partitions, and stays in its epoch until a heartbeat no longer lists them as owned.
- UnreleasedPartitions: it is in the target's epoch, but lacks partitions that another member has not released yet.

What can never happen: a partition that is assigned to two members; a partition that gets a new owner while its old owner is a member whose
heartbeats still list it; an epoch that falls, except that of a static member that leaves temporarily. Apart from such a leave, reconcile()
is the only way from state to state. The next state depends only on what is left to revoke and to get, whatever the state was before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, TypeAlias
from uuid import UUID

from levada.broker.coordinators.groups.classic_group import ClientOrigin, Protocol

UNKNOWN_ORIGIN = ClientOrigin("", "")

JOINING, LEAVING, LEAVING_TEMPORARILY = 0, -1, -2
"""Epochs with a special meaning in heartbeats."""


class TopicIdPartition(NamedTuple):
    """A partition, with its topic's id."""

    topic_id: UUID
    partition: int


Partitions: TypeAlias = frozenset[TopicIdPartition]

NO_PARTITIONS: Partitions = frozenset()


class MemberState(StrEnum):
    """The progress of a member from its present assignment to its target assignment."""

    STABLE = "Stable"
    UNREVOKED_PARTITIONS = "UnrevokedPartitions"
    UNRELEASED_PARTITIONS = "UnreleasedPartitions"


class ClassicPart(NamedTuple):
    """The session timeout and the assignors of a consumer group's member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


def _sees_all(topic: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member of a consumer group.

    topics, pattern: its subscription by names and by a regular expression ("" for none). sees: returns whether its user may describe a
    topic; the pattern matches only such topics. assigned: the partitions that are assigned to it, each with the member epoch in which they
    were assigned. revoking: the partitions that it has to revoke, with the same epochs. classic: None unless the member uses the classic
    protocol.
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
    assigned: Mapping[TopicIdPartition, int] = field(default_factory=dict)
    revoking: Mapping[TopicIdPartition, int] = field(default_factory=dict)
    classic: ClassicPart | None = None

    @property
    def held(self) -> Partitions:
        """The partitions that the member has or must still revoke, so that no other member may get them."""
        return frozenset(self.revoking.keys() | self.assigned.keys())

    def held_since(self, partition: TopicIdPartition) -> int | None:
        """Return the member epoch in which a partition was assigned to the member, None if it does not hold the partition (KIP-1251)."""
        return self.assigned.get(partition, self.revoking.get(partition))

    def has_reached(self, epoch: int) -> bool:
        """Return whether the member has its complete target assignment of an assignment epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch


def reconcile(
    member: ConsumerMember, target: Partitions, target_epoch: int, is_free: Callable[[TopicIdPartition], bool], owned: Partitions | None
) -> ConsumerMember:
    """Return the member one step nearer to its target assignment.

    First the member has to revoke partitions that are not in the target; then it gets those that are free. is_free: returns whether no
    member holds a partition. owned: the partitions that the member reports to own, None if it reports nothing.
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
    member: ConsumerMember,
    state: MemberState,
    epoch: int,
    assigned: Mapping[TopicIdPartition, int],
    revoking: Mapping[TopicIdPartition, int],
) -> ConsumerMember:
    return replace(member, state=state, epoch=epoch, previous_epoch=member.epoch, assigned=assigned, revoking=revoking)


def _still_has(partitions: Collection[TopicIdPartition], owned: Partitions | None) -> bool:
    """Return whether the member may still read one of these partitions. The result is True if `owned` is None, because the member has
    reported nothing.
    """
    return owned is None or not owned.isdisjoint(partitions)
