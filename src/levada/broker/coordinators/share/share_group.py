"""A share group (KIP-932): its members, their assignments, and its epochs.

Members of a share group read the same partitions. So no partition has to be revoked before another member gets it: a member has its target
assignment as soon as its next heartbeat is answered. The group epoch rises with each change of the members, of their subscriptions or of
the topics. All nodes share the groups in memory, so a new coordinator continues where the former one ended. After a restart of the broker,
a group has no members.

A group has two states, which follow from its members: Empty without members, else Stable. A member has no states, only
an epoch: the epoch of the last assignment that it was sent. What can never happen: a member whose epoch is beyond the group's; a target
assignment without a subscribed partition that existed when it was computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from levada.broker.coordinators.groups.assignors import Subscription, assign_shared
from levada.broker.coordinators.groups.classic_group import ClientOrigin
from levada.broker.coordinators.groups.consumer_group import FIRST_EPOCH, Topics, TopicSize
from levada.broker.coordinators.groups.consumer_member import JOINING, NO_PARTITIONS, UNKNOWN_ORIGIN, Partitions
from levada.error_codes import ErrorCode
from levada.errors import BrokerError

ASSIGNOR = "simple"
SHARE = "share"


class ShareGroupState(StrEnum):
    """The state of a group, by its name in ShareGroupDescribe and ListGroups."""

    EMPTY = "Empty"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """A member of a share group. topics: the topics to which it subscribes. assigned: its assignment. previous_epoch: its member epoch
    before the last change.
    """

    id: str
    rack_id: str | None = None
    origin: ClientOrigin = UNKNOWN_ORIGIN
    topics: frozenset[str] = frozenset()
    epoch: int = JOINING
    previous_epoch: int = JOINING
    assigned: Partitions = NO_PARTITIONS


class ShareGroup:
    """A share group (KIP-932).

    assignment_epoch: the group epoch for which the target assignment was computed. targets: the target assignment by member id. sizes: ids
    and partition counts of the subscribed topics when it was computed. expires_offsets: False, because the group has no committed offsets.
    """

    TYPE = SHARE
    protocol_type = SHARE
    expires_offsets = False

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = FIRST_EPOCH
        self.assignment_epoch = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.sizes: Mapping[str, TopicSize] = {}

    @property
    def state(self) -> ShareGroupState:
        """The group's state: Stable if it has members, otherwise Empty."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic."""
        return any(topic in member.topics for member in self.members.values())

    def existing(self, member_id: str) -> ShareMember:
        """Return the member with this id. Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise BrokerError(f"Member {member_id} is not a member of group {self.id}.", code=ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def advance(self, topics: Topics, before: ShareMember, after: ShareMember) -> ShareMember:
        """Apply a change of a member, compute a new target assignment if needed, and give the member its target. Returns the member
        afterwards.

        before, after: the member before and after the change.
        """
        self.members[after.id] = after
        names = {name for member in self.members.values() for name in member.topics}
        found = {name: topics.find(name) for name in names}
        sizes = {name: size for name, size in found.items() if size is not None}
        if after.topics != before.topics or sizes != self.sizes:
            self.epoch += 1
        self.sizes = sizes
        if self.epoch > self.assignment_epoch:
            self._assign()
        if after.epoch == self.assignment_epoch:
            return after
        assigned = self.targets.get(after.id, NO_PARTITIONS)
        reached = self.members[after.id] = replace(after, epoch=self.assignment_epoch, previous_epoch=after.epoch, assigned=assigned)
        return reached

    def remove(self, member_id: str) -> None:
        """Remove a member. The others get a new assignment with their next heartbeats."""
        del self.members[member_id]
        self.targets.pop(member_id, None)
        self.epoch += 1
        if not self.members:
            self.assignment_epoch = self.epoch

    def _assign(self) -> None:
        """Compute the target assignment of all members for the present group epoch."""
        subscriptions = {
            member.id: Subscription(
                frozenset(self.sizes[name].id for name in member.topics if name in self.sizes), self.targets.get(member.id, NO_PARTITIONS)
            )
            for member in self.members.values()
        }
        self.targets = assign_shared(subscriptions, {size.id: size.partitions for size in self.sizes.values()})
        self.assignment_epoch = self.epoch
