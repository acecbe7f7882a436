"""A consumer group (KIP-848): its members, their target assignments, and its epochs.

The group epoch rises with each change of the members, of their subscriptions or of the topics. An assignment is computed for an epoch, and
the members reach it one by one (consumer_member). Each change is stored, so a new coordinator continues where the former one ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import cache
from typing import NamedTuple
from uuid import UUID

from levada.broker.coordinators.groups.assignors import Assignor, Subscription, assign_ranges, assign_uniformly
from levada.broker.coordinators.groups.classic_group import CONSUMER
from levada.broker.coordinators.groups.consumer_member import (
    LEAVING_TEMPORARILY,
    NO_PARTITIONS,
    ConsumerMember,
    MemberState,
    Partitions,
    TopicIdPartition,
    reconcile,
)
from levada.broker.coordinators.groups.subscribed_topic_regex import matching
from levada.error_codes import ErrorCode
from levada.errors import BrokerError

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""By the names that members may choose. The first one is the default."""


FIRST_EPOCH = 1
"""The epoch of a group that has never had members, as in Kafka 4.4."""


class TopicSize(NamedTuple):
    """The id and the partition count of a topic, from which assignments are computed."""

    id: UUID
    partitions: int


class Topics(NamedTuple):
    """Functions to look up the topics of the cluster.

    find: returns the id and partition count of a topic by name, None if there is no such topic. name_of: returns the name of a topic by id,
    or None. names: iterates over the names of all topics.
    """

    find: Callable[[str], TopicSize | None]
    name_of: Callable[[UUID], str | None]
    names: Callable[[], Iterator[str]]


class GroupState(StrEnum):
    """The state of a consumer group, by its name in ConsumerGroupDescribe and ListGroups. It is computed from the group's
    epochs and members for these responses only.
    """

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """A group of the consumer protocol (KIP-848).

    assignment_epoch: the group epoch for which the target assignment was computed. targets: the target assignment by member id. sizes: ids
    and partition counts of the subscribed topics when the target assignment was computed. expires_offsets: whether unused offsets may
    expire.
    """

    TYPE = "consumer"
    protocol_type = CONSUMER
    expires_offsets = True

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = FIRST_EPOCH
        self.assignment_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.sizes: Mapping[str, TopicSize] = {}

    @property
    def state(self) -> GroupState:
        """The group's state, computed from its epochs and its members."""
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        if all(member.has_reached(self.assignment_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    @property
    def assignor(self) -> str:
        """The assignor that most members choose; uniform if none chooses."""
        asked = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return asked.most_common(1)[0][0] if asked else next(iter(ASSIGNORS))

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic."""
        return any(topic in member.topics or topic in matching(member.pattern, [topic]) for member in self.members.values())

    def target(self, member_id: str) -> Partitions:
        """Return the target assignment of a member."""
        return self.targets.get(member_id, NO_PARTITIONS)

    # Members

    def existing(self, member_id: str) -> ConsumerMember:
        """Return the member with this id. Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise BrokerError(f"Member {member_id} is not a member of group {self.id}.", code=ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """Return the member with an instance id, None if there is none."""
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    def existing_static(self, member_id: str, instance_id: str) -> ConsumerMember:
        """Return the member with an instance id. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if its member id is not `member_id`."""
        member = self.static_member(instance_id)
        if member is None:
            raise BrokerError(f"Instance id {instance_id} is unknown.", code=ErrorCode.UNKNOWN_MEMBER_ID)
        if member.id != member_id:
            raise BrokerError(
                f"Static member {member_id} with instance id {instance_id} was fenced by member {member.id}.",
                code=ErrorCode.FENCED_INSTANCE_ID,
            )
        return member

    def joining(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """Return the member as which a client joins: a new member, an existing member, or a static member whose process was restarted and
        whose assignment the client takes over.

        Raises UNRELEASED_INSTANCE_ID if the former process of the static member has not left. If that process uses the classic protocol, it
        may be replaced at any time, because it does not report that it leaves temporarily.
        """
        before = None if instance_id is None else self.static_member(instance_id)
        if before is None:
            return self.members.get(member_id) or ConsumerMember(id=member_id)
        if before.epoch != LEAVING_TEMPORARILY and before.classic is None:
            raise BrokerError(
                f"Static member {member_id} with instance id {instance_id} cannot join the group {self.id} because the instance id is "
                f"owned by {before.id} member.",
                code=ErrorCode.UNRELEASED_INSTANCE_ID,
            )
        return before

    def remove(self, member_id: str) -> None:
        """Remove a member. The other members get its partitions with their next heartbeats."""
        del self.members[member_id]
        self.targets.pop(member_id, None)
        if self.is_all_classic:
            return  # It becomes a classic group, which begins a generation of its own.
        self.epoch += 1
        if not self.members:
            self.assignment_epoch = self.epoch

    # Members of the classic protocol

    @property
    def is_all_classic(self) -> bool:
        """Whether the group has members, and all of them use the classic protocol."""
        return bool(self.members) and all(member.classic is not None for member in self.members.values())

    def common_protocols(self, names: Iterable[str]) -> set[str]:
        """Return those of the named assignors that all members of the classic protocol support."""
        offers = [{offered.name for offered in member.classic.protocols} for member in self.members.values() if member.classic is not None]
        return set(names).intersection(*offers)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Return whether the member's target has a partition that another member has not released yet."""
        held = self._held()
        return any(partition in held for partition in self.target(member.id) - member.assigned.keys())

    # Assignments

    def advance(self, topics: Topics, before: ConsumerMember, after: ConsumerMember, owned: Partitions | None) -> ConsumerMember:
        """Apply a change of a member, compute a new target assignment if needed, and reconcile the member one step further with its target.
        Returns the member afterwards.

        before, after: the member before and after the change. owned: the partitions that the member reports to own, None if it reports
        nothing.
        """
        has_changed = (after.topics, after.pattern) != (before.topics, before.pattern)
        sizes_changed = self._refresh_sizes(topics, including=after)
        self._replace(before, after)
        if has_changed or sizes_changed:
            self.epoch += 1
        if self.epoch > self.assignment_epoch:
            self._assign(topics)
        held = cache(self._held)  # Computed when first used: most heartbeats have no partition to take.
        reconciled = reconcile(after, self.target(after.id), self.assignment_epoch, lambda partition: partition not in held(), owned)
        self.members[after.id] = reconciled
        return reconciled

    def leave_temporarily(self, member: ConsumerMember) -> None:
        """Mark a static member as temporarily left. It keeps its partitions, except those that it was told to revoke."""
        self.members[member.id] = replace(
            member, epoch=LEAVING_TEMPORARILY, previous_epoch=member.epoch, state=MemberState.STABLE, revoking={}
        )

    def learn_sizes(self, topics: Topics) -> None:
        """Store the present ids and sizes of the subscribed topics as those of the target assignment. After a restart they are unknown,
        because they are not stored.
        """
        self.sizes = self._sizes(topics, self.members.values())

    def _refresh_sizes(self, topics: Topics, *, including: ConsumerMember) -> bool:
        """Look up the ids and sizes of the subscribed topics, including those of a changed member. Returns whether one of them
        has changed.
        """
        sizes = self._sizes(topics, [*(member for member in self.members.values() if member.id != including.id), including])
        changed, self.sizes = sizes != self.sizes, sizes
        return changed

    def _sizes(self, topics: Topics, members: Iterable[ConsumerMember]) -> dict[str, TopicSize]:
        names = {name for member in members for name in self._subscribed(member, topics)}
        found = {name: topics.find(name) for name in names}
        return {name: size for name, size in found.items() if size is not None}

    def _assign(self, topics: Topics) -> None:
        """Compute the target assignment of all members for the present group epoch."""
        subscriptions = {
            member.id: Subscription(
                frozenset(self.sizes[name].id for name in self._subscribed(member, topics) if name in self.sizes),
                self.target(member.id),
                member.instance_id,
            )
            for member in self.members.values()
        }
        counts = {size.id: size.partitions for size in self.sizes.values()}
        self.targets = ASSIGNORS[self.assignor](subscriptions, counts)
        self.assignment_epoch = self.epoch

    def _replace(self, before: ConsumerMember, after: ConsumerMember) -> None:
        """Replace a member by its changed version, which may have another member id."""
        if before.id != after.id:
            self.members.pop(before.id, None)
            self.targets[after.id] = self.targets.pop(before.id, NO_PARTITIONS)
        self.members[after.id] = after

    def _held(self) -> frozenset[TopicIdPartition]:
        return frozenset(partition for member in self.members.values() for partition in member.held)

    def _subscribed(self, member: ConsumerMember, topics: Topics) -> frozenset[str]:
        return member.topics | matching(member.pattern, filter(member.sees, topics.names())) if member.pattern else member.topics
