"""The group coordinator of one node: its groups, and how they are loaded and unloaded when coordinators move.

A node coordinates the groups of the partitions of __consumer_offsets that it leads. When it becomes the leader it loads what was stored:
classic groups as they were when they were last stable or empty, consumer groups and share groups as they are, and all committed offsets.
When it stops being the leader it unloads them, and answers waiting requests with NOT_COORDINATOR. A rebalance of a classic group that was
in progress is lost; its members notice and join again.

A group changes its type when it is empty and a member of another type joins, when the first member of the consumer protocol joins a classic
group, and when the last such member leaves it. Its offsets stay. A share group stays one until it is deleted, and no other group becomes
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from levada.broker.config.group_config import GroupConfig
from levada.broker.config.settings import BrokerSettings
from levada.broker.coordinators.groups.classic_group import CONSUMER, ClassicGroup, StoredGroup
from levada.broker.coordinators.groups.classic_groups import ClassicGroups
from levada.broker.coordinators.groups.consumer_deadlines import Deadlines
from levada.broker.coordinators.groups.consumer_group import ConsumerGroup, Topics
from levada.broker.coordinators.groups.consumer_groups import ConsumerGroups
from levada.broker.coordinators.groups.consumer_member import TopicIdPartition
from levada.broker.coordinators.groups.group_conversion import to_classic_group, to_consumer_group
from levada.broker.coordinators.groups.group_offsets import GroupOffsets
from levada.broker.coordinators.groups.group_records import GroupRecords
from levada.broker.coordinators.groups.group_states import State
from levada.broker.coordinators.groups.mixed_groups import MixedGroups
from levada.broker.coordinators.placement import Placement
from levada.broker.coordinators.share.share_group import ShareGroup
from levada.broker.coordinators.share.share_groups import ShareGroups
from levada.broker.node.purgatory import Timers
from levada.broker.share.share_states import ShareStates
from levada.error_codes import ErrorCode
from levada.errors import BrokerError

Group: TypeAlias = ClassicGroup | ConsumerGroup | ShareGroup


MINUTE_MS = 60_000


class Commit(NamedTuple):
    """The group and the member in a request that commits offsets. generation: the generation, or the member epoch in a consumer group.
    version: the version of the request.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    version: int


@dataclass(slots=True)
class StoredGroups:
    """The groups of all nodes of a cluster, with their offsets.

    share_states: the states of share partitions. kept: writes groups as records; None if nothing is written.
    """

    offsets: GroupOffsets = field(default_factory=GroupOffsets)
    classic: dict[str, StoredGroup] = field(default_factory=dict)
    consumer: dict[str, ConsumerGroup] = field(default_factory=dict)
    share: dict[str, ShareGroup] = field(default_factory=dict)
    share_states: ShareStates = field(default_factory=ShareStates)
    kept: GroupRecords | None = None

    def keep_all(self, kept: GroupRecords, now_ms: int) -> None:
        """Write all classic and consumer groups that have had members as records, and each change from now on.

        now_ms: milliseconds since the epoch.
        """
        self.kept = kept
        for group_id in sorted(self.classic.keys() | self.consumer.keys()):
            self.keep(group_id, now_ms)

    def keep(self, group_id: str, now_ms: int) -> None:
        """Write the present state of a group as records, unless nothing is written at all. now_ms: milliseconds since the epoch."""
        if self.kept is not None:
            self.kept.keep(group_id, self.consumer.get(group_id) or self.classic.get(group_id), now_ms)

    def clear(self) -> None:
        """Remove all groups and their offsets, because the topic __consumer_offsets was deleted."""
        self.offsets.clear()
        for known in (self.classic, self.consumer, self.share):
            known.clear()
        if self.kept is not None:
            self.kept.clear()


class GroupCoordinator:
    """The coordinator of the groups on a node.

    config_of: returns the settings of a group by its id. wall_ms: converts the node's time to milliseconds since the epoch. new_id: returns
    a unique suffix for a member id.
    """

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        node_id: int,
        placement: Placement,
        stored: StoredGroups,
        timers: Timers,
        topics: Topics,
        config_of: Callable[[str], GroupConfig],
        wall_ms: Callable[[int], int],
        new_id: Callable[[], str],
    ) -> None:
        self._node_id = node_id
        self._placement = placement
        self._settings = settings
        self._stored = stored
        self._wall_ms = wall_ms
        self._groups: dict[str, Group] = {}
        self._touched: set[str] = set()
        """Groups that may have changed since the last keep()."""
        self._loaded: dict[int, int] = {}
        self._topics = topics
        self._deadlines = Deadlines(config_of, timers, self._after_removal)
        self.classic = ClassicGroups(settings, timers, self._store, new_id)
        self.consumer = ConsumerGroups(settings, self._deadlines, topics, new_id)
        self.mixed = MixedGroups(settings, self._deadlines, topics, new_id)
        self.share = ShareGroups(settings, timers, topics, config_of, stored.share_states, wall_ms)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    # Finding groups

    def check(self, group_id: str) -> None:
        """Raise NOT_COORDINATOR if the node does not coordinate the group, COORDINATOR_LOAD_IN_PROGRESS if it has not loaded the group yet.
        Creates the topic __consumer_offsets if it does not exist.
        """
        self._placement.check(group_id, self._node_id)

    def check_named(self, group_id: str) -> None:
        """Raise the errors of check(), and INVALID_GROUP_ID for the group id "". A group with this id can have offsets but no members."""
        if not group_id:
            raise BrokerError("the group id is empty", code=ErrorCode.INVALID_GROUP_ID)
        self.check(group_id)

    def check_all_loaded(self) -> None:
        """Raise COORDINATOR_LOAD_IN_PROGRESS if the node has not yet loaded all groups that it coordinates."""
        if self._placement.is_loading(self._node_id):
            raise BrokerError("groups are being loaded", code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def existing(self, group_id: str, *, missing: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND) -> Group:
        """Return the group with this id. missing: the error code to raise if there is none. The caller may change a consumer group: the
        next keep() writes what has changed.
        """
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            # Other groups are written by _store() only.
            self._touched.add(group_id)
        if group is None:
            # These messages are Kafka's: descriptions of groups return them.
            raise BrokerError(f"Group {group_id} not found.", code=missing)
        return group

    def existing_classic(self, group_id: str, *, missing: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND) -> ClassicGroup:
        """Return the classic group with this id. missing: the error code to raise if there is none, or if it has another type."""
        group = self.existing(group_id, missing=missing)
        if not isinstance(group, ClassicGroup):
            raise BrokerError(f"Group {group_id} is not a classic group.", code=missing)
        return group

    def existing_of_consumers(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        """Return the classic group or consumer group with this id. Raises UNKNOWN_MEMBER_ID if there is none, or if it is a share group."""
        group = self.existing(group_id, missing=ErrorCode.UNKNOWN_MEMBER_ID)
        if isinstance(group, ShareGroup):
            raise BrokerError(f"Group {group_id} is a share group.", code=ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    def existing_consumer(self, group_id: str) -> ConsumerGroup:
        """Return the consumer group with this id. Raises GROUP_ID_NOT_FOUND if there is none, or if it has another type."""
        group = self.existing(group_id)
        if not isinstance(group, ConsumerGroup):
            raise BrokerError(f"Group {group_id} is not a consumer group.", code=ErrorCode.GROUP_ID_NOT_FOUND)
        return group

    def existing_share(self, group_id: str) -> ShareGroup:
        """Return the share group with this id. Raises GROUP_ID_NOT_FOUND if there is none, or if it has another type."""
        group = self.existing(group_id)
        if not isinstance(group, ShareGroup):
            raise BrokerError(f"Group {group_id} is not a share group.", code=ErrorCode.GROUP_ID_NOT_FOUND)
        return group

    def joinable_by_share(self, group_id: str) -> ShareGroup:
        """Return the share group with this id; create it if there is no group with this id. Raises GROUP_ID_NOT_FOUND if the group has
        another type.
        """
        if group_id not in self._groups:
            self._groups[group_id] = self._stored.share[group_id] = ShareGroup(group_id)
        return self.existing_share(group_id)

    def joinable_by_classic(self, group_id: str, *, is_new: bool) -> ClassicGroup | ConsumerGroup:
        """Return the group that a member of the classic protocol joins: a classic group, or a consumer group with members.

        is_new: whether the client has no member id yet; in this case a missing group is created, and a consumer group without members
        becomes a classic group. Otherwise UNKNOWN_MEMBER_ID is raised for these. Raises INCONSISTENT_GROUP_PROTOCOL for a share group.
        """
        group = self._groups.get(group_id)
        if isinstance(group, ShareGroup):
            raise BrokerError(f"Group {group_id} is a share group.", code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if isinstance(group, ConsumerGroup) and group.members:
            return self.existing_consumer(group_id)
        if is_new and not isinstance(group, ClassicGroup):
            self._forget(group_id)
            self._groups[group_id] = ClassicGroup(group_id)
        return self.existing_classic(group_id, missing=ErrorCode.UNKNOWN_MEMBER_ID)

    def joinable_by_consumer(self, group_id: str, now_ms: int) -> ConsumerGroup:
        """Return the group that a member of the consumer protocol joins. A missing group is created. A classic group becomes a consumer
        group; if it has members, they have to be consumers (group_conversion).

        Raises GROUP_ID_NOT_FOUND for a share group, and for a classic group that cannot be converted.
        """
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup | ShareGroup):
            return self.existing_consumer(group_id)
        if group is None or group.state is State.EMPTY:
            converted = ConsumerGroup(group_id)
            if group is not None:
                self.classic.delete(group)
        else:
            converted = to_consumer_group(group, self._topics)
            self.classic.release(group)
        self._forget(group_id)
        self._groups[group_id] = self._stored.consumer[group_id] = converted
        self._deadlines.load(converted, now_ms)
        return converted

    def _after_removal(self, group: ConsumerGroup, now_ms: int) -> None:
        """Convert a consumer group to a classic group if all its remaining members use the classic protocol."""
        self._touched.add(group.id)
        if group.is_all_classic:
            self._deadlines.unload(group)
            self._forget(group.id)
            classic = to_classic_group(group, self._topics, self._wall_ms(now_ms))
            self._groups[group.id] = classic
            self.classic.adopt(classic, now_ms)

    # Checks for APIs about offsets

    def check_commit(self, commit: Commit, partitions: Sequence[TopicIdPartition], now_ms: int, *, in_transaction: bool) -> None:
        """Raise BrokerError with Kafka's code, such as GROUP_ID_NOT_FOUND, if the member may not commit offsets for these partitions.

        Administrators, and consumers with manual assignment, commit with a generation below 0. For them a missing group is created.
        """
        if commit.generation < 0 and commit.group_id not in self._groups:
            self._groups[commit.group_id] = ClassicGroup(commit.group_id)
        group = self.existing(commit.group_id)
        who = commit.member_id, commit.instance_id, commit.generation
        if isinstance(group, ClassicGroup):
            self.classic.check_commit(group, *who, now_ms, in_transaction=in_transaction)
        elif isinstance(group, ShareGroup):
            raise BrokerError(f"Group {group.id} is a share group, which commits no offsets.", code=ErrorCode.GROUP_ID_NOT_FOUND)
        else:
            self.consumer.check_commit(group, *who, partitions, commit.version, in_transaction=in_transaction)

    def check_offset_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Raise BrokerError with Kafka's code if a member of a consumer group may not fetch committed offsets."""
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            self.consumer.check_fetch(group, member_id, epoch)

    def check_offset_delete(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        """Return a group after checking that its offsets may be deleted.

        Raises NON_EMPTY_GROUP if it has members that are not consumers, GROUP_ID_NOT_FOUND if there is none or it is a share group.
        """
        group = self.existing(group_id)
        if isinstance(group, ShareGroup):
            raise BrokerError(f"Group {group_id} is a share group.", code=ErrorCode.GROUP_ID_NOT_FOUND)
        if not _is_empty(group) and group.protocol_type != CONSUMER:
            raise _non_empty(group)
        return group

    def delete(self, group_id: str) -> None:
        """Delete a group with its offsets. Raises GROUP_ID_NOT_FOUND if there is none, NON_EMPTY_GROUP if it has members."""
        group = self.existing(group_id)
        check_is_empty(group)
        if isinstance(group, ClassicGroup):
            self.classic.delete(group)
        self._forget(group_id)
        self._stored.share_states.forget_group(group_id)
        self._stored.offsets.delete_group(group_id)

    def expire(self, now_ms: int) -> None:
        """Remove the offsets that were unused for offsets.retention.minutes, or whose commit had a retention time that has passed. Then
        remove the groups that have neither members nor offsets. Share groups stay, and so do groups in which a client has a member id but
        has not joined yet.
        """
        wall_ms = self._wall_ms(now_ms)
        for group in [group for group in self._groups.values() if not isinstance(group, ShareGroup)]:
            offsets, retention_ms = self._stored.offsets, self._settings.offsets_retention_minutes * MINUTE_MS
            if group.expires_offsets and offsets.has_any(group.id):
                offsets.expire(group.id, wall_ms, self._empty_since_ms(group), retention_ms, group.is_subscribed)
            is_awaited = isinstance(group, ClassicGroup) and group.pending
            if _is_empty(group) and not is_awaited and not offsets.has_any(group.id):
                self.delete(group.id)

    def _empty_since_ms(self, group: Group) -> int | None:
        """Return since when a classic group without members has been empty, in milliseconds since the epoch. None for other groups; their
        offsets expire counting from their commits.
        """
        stored = self._stored.classic.get(group.id)
        return stored.since_ms if isinstance(group, ClassicGroup) and group.state is State.EMPTY and stored is not None else None

    def _forget(self, group_id: str) -> None:
        self._touched.add(group_id)
        self._groups.pop(group_id, None)
        self._stored.classic.pop(group_id, None)
        self._stored.consumer.pop(group_id, None)
        self._stored.share.pop(group_id, None)

    def keep(self, now_ms: int) -> None:
        """Write the groups that were changed since the last call as records, before any client gets a response about the changes.

        If writing fails, BrokerError is raised after all groups were tried. The groups that failed are tried again in the next call.
        """
        touched, self._touched = self._touched, set()
        refused: BrokerError | None = None
        for group_id in sorted(touched) if self._stored.kept is not None else ():
            try:
                self._stored.keep(group_id, self._wall_ms(now_ms))
            except BrokerError as fault:
                self._touched.add(group_id)
                refused = refused or fault
        if refused is not None:
            raise refused

    # Loading and unloading

    def follow_placement(self, now_ms: int) -> None:
        """Load the groups in partitions that the node has become the leader of, and unload the groups in partitions that it has ceased to
        lead.
        """
        led = self._placement.loaded_by(self._node_id)
        gone = {partition for partition, epoch in self._loaded.items() if led.get(partition) != epoch}
        new = {partition for partition, epoch in led.items() if self._loaded.get(partition) != epoch}
        self._loaded = led
        for group in [group for group in self._groups.values() if self._placement.partition_of(group.id) in gone]:
            del self._groups[group.id]
            self._unload(group)
        if new:
            self._load(new, now_ms)

    def begin(self, now_ms: int) -> None:
        """Start the sessions of the members of loaded groups, when the node learns the current time."""
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                self.classic.resume(group, now_ms)
            elif isinstance(group, ConsumerGroup):
                self._deadlines.load(group, now_ms)

    def _unload(self, group: Group) -> None:
        if isinstance(group, ClassicGroup):
            self.classic.unload(group)
        elif isinstance(group, ShareGroup):
            self.share.unload(group)
        else:
            self._deadlines.unload(group)

    def _load(self, partitions: set[int], now_ms: int) -> None:
        stored = self._stored
        for group_id in dict.fromkeys([*stored.offsets, *stored.classic, *stored.consumer, *stored.share_states, *stored.share]):
            if self._placement.partition_of(group_id) not in partitions:
                continue
            if group_id in stored.consumer:
                self._groups[group_id] = stored.consumer[group_id]
                self._deadlines.load(stored.consumer[group_id], now_ms)
            elif group_id in stored.share or group_id in stored.share_states:
                self._groups[group_id] = stored.share.setdefault(group_id, ShareGroup(group_id))
                self.share.load(stored.share[group_id], now_ms)
            elif group_id in stored.classic:
                self._groups[group_id] = self.classic.restore(group_id, stored.classic[group_id], now_ms)
            else:
                self._groups[group_id] = ClassicGroup(group_id)

    def _store(self, group: ClassicGroup, now_ms: int) -> None:
        self._touched.add(group.id)
        self._stored.classic[group.id] = group.stored(self._wall_ms(now_ms))


def check_is_empty(group: Group) -> None:
    """Raise NON_EMPTY_GROUP if a group has members."""
    if not _is_empty(group):
        raise _non_empty(group)


def _is_empty(group: Group) -> bool:
    return group.state is State.EMPTY if isinstance(group, ClassicGroup) else not group.members


def _non_empty(group: Group) -> BrokerError:
    return BrokerError(f"group '{group.id}' has members", code=ErrorCode.NON_EMPTY_GROUP)
