"""The consumer group protocol (KIP-848): how a heartbeat changes a group, and when it is refused.

The caller has checked the coordinator and the fields of the request. A request is refused with a BrokerError that has Kafka's error code
and Kafka's message, since clients log it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from levada.broker.config.settings import BrokerSettings
from levada.broker.coordinators.groups.classic_group import ClientOrigin
from levada.broker.coordinators.groups.consumer_deadlines import Deadlines
from levada.broker.coordinators.groups.consumer_group import ConsumerGroup, Topics
from levada.broker.coordinators.groups.consumer_member import (
    JOINING,
    LEAVING_TEMPORARILY,
    ConsumerMember,
    Partitions,
    TopicIdPartition,
)
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

UNCHANGED_MS = -1

FIRST_COMMIT_WITH_EPOCHS = 9
"""The first version of OffsetCommit that members of consumer groups can use."""


class HeartbeatResult(NamedTuple):
    """The member after a heartbeat. tells_assignment: whether the response has to contain the member's assignment."""

    member: ConsumerMember
    tells_assignment: bool


class ConsumerGroups:
    """Handles the requests of the members of a node's consumer groups. new_id: returns a new member id, for clients that send none."""

    def __init__(self, settings: BrokerSettings, deadlines: Deadlines, topics: Topics, new_id: Callable[[], str]) -> None:
        self._settings = settings
        self._deadlines = deadlines
        self._topics = topics
        self._new_id = new_id

    # Heartbeats

    def heartbeat(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        origin: ClientOrigin,
        now_ms: int,
        sees: Callable[[str], bool],
    ) -> HeartbeatResult:
        """Handle a heartbeat: add or update the member, and reconcile it one step further with its target.

        sees: returns whether the member's user may describe a topic.
        """
        owned = _owned(request.topic_partitions)
        before = self._member(group, request, owned)
        after = replace(self._updated(before, request, origin), sees=sees)
        if before.id != after.id:
            self._deadlines.cancel(group, before.id)
        member = group.advance(self._topics, before, after, owned)
        self._deadlines.restart_session(group, member, now_ms)
        self._deadlines.limit_revocation(group, after, member, now_ms)
        is_full = request.rebalance_timeout_ms != UNCHANGED_MS and owned is not None and _names_topics(request)
        changed = member.assigned.keys() != before.assigned.keys()
        return HeartbeatResult(member, request.member_epoch == JOINING or is_full or changed)

    def leave(self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> None:
        """Handle the heartbeat of a member that leaves. A static member may leave temporarily: it keeps its partitions until its session
        expires, except those that it was told to revoke.
        """
        if request.instance_id is None:
            member = group.existing(request.member_id)
        else:
            member = group.existing_static(request.member_id, request.instance_id)
        if request.member_epoch == LEAVING_TEMPORARILY:
            group.leave_temporarily(member)
            self._deadlines.limit_revocation(group, member, group.members[member.id], now_ms)
        else:
            self._deadlines.remove(group, member.id, now_ms)

    def _member(self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, owned: Partitions | None) -> ConsumerMember:
        """Return the member that sends a heartbeat, before the changes in the heartbeat are applied.

        owned: the partitions in the heartbeat; None if the heartbeat does not list them.
        """
        if request.member_epoch == JOINING:
            member_id = request.member_id or self._new_id()
            check_size(group, member_id, self._settings)
            return group.joining(member_id, request.instance_id)
        if request.instance_id is None:
            member = group.existing(request.member_id)
        else:
            member = group.existing_static(request.member_id, request.instance_id)
        _check_epoch(member, request.member_epoch, owned)
        return member

    def _updated(self, before: ConsumerMember, request: ConsumerGroupHeartbeatRequest, origin: ClientOrigin) -> ConsumerMember:
        """Return the member with the changes in the request. Fields with null or -1 are unchanged."""
        return replace(
            before,
            id=before.id if request.member_epoch != JOINING else request.member_id or before.id,
            instance_id=_or(request.instance_id, before.instance_id),
            rack_id=_or(request.rack_id, before.rack_id),
            rebalance_timeout_ms=(
                before.rebalance_timeout_ms if request.rebalance_timeout_ms == UNCHANGED_MS else request.rebalance_timeout_ms
            ),
            topics=before.topics if request.subscribed_topic_names is None else frozenset(request.subscribed_topic_names),
            pattern=_or(request.subscribed_topic_regex, before.pattern) or "",
            assignor=_or(request.server_assignor, before.assignor),
            origin=origin,
            classic=None,
        )

    # Offsets

    def check_commit(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        partitions: Sequence[TopicIdPartition],
        version: int,
        *,
        in_transaction: bool,
    ) -> None:
        """Raise BrokerError with Kafka's code if the member may not commit offsets for these partitions.

        A member may commit with an earlier member epoch for partitions that it has owned since that epoch (KIP-1251). If this is not the
        case for one of the partitions, the whole commit is refused. A request without an epoch may commit for a group without members and,
        if it names no member either, within a transaction. instance_id: the group.instance.id; None for a dynamic member.
        """
        if epoch < 0 and not group.members:
            return
        if in_transaction and epoch < 0 and not member_id and instance_id is None:
            return
        member = group.existing(member_id)
        if not in_transaction and member.classic is None and version < FIRST_COMMIT_WITH_EPOCHS:
            raise BrokerError(
                f"OffsetCommit version {version} or lower cannot be used by members of consumer groups", code=ErrorCode.UNSUPPORTED_VERSION
            )
        if epoch != member.epoch and (epoch > member.epoch or not all(_had(member, partition, epoch) for partition in partitions)):
            raise _stale(group, member, epoch, ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION)

    def check_fetch(self, group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
        """Raise BrokerError with Kafka's code if the member may not fetch committed offsets. A request without member id and member epoch
        may always fetch them.
        """
        if member_id is None and epoch < 0:
            return
        member = group.existing(member_id or "")
        if epoch != member.epoch:
            raise _stale(group, member, epoch, ErrorCode.STALE_MEMBER_EPOCH)


def check_size(group: ConsumerGroup, member_id: str, settings: BrokerSettings) -> None:
    """Raise GROUP_MAX_SIZE_REACHED if the group is full and has no member with this id."""
    limit = settings.group_consumer_max_size
    if member_id not in group.members and len(group.members) >= limit:
        raise BrokerError(f"The consumer group has reached its maximum capacity of {limit} members.", code=ErrorCode.GROUP_MAX_SIZE_REACHED)


def _check_epoch(member: ConsumerMember, epoch: int, owned: Partitions | None) -> None:
    """Raise FENCED_MEMBER_EPOCH if the epoch in a heartbeat is not the member's epoch.

    A member that has not received the last response sends its previous epoch again. This is allowed if the heartbeat lists the partitions
    that it owns, and all of them belong to its assignment. owned: the partitions in the heartbeat; None if the heartbeat does not list
    them.
    """
    if epoch == member.epoch:
        return
    if epoch < member.epoch and epoch == member.previous_epoch and owned is not None and owned <= member.assigned.keys():
        return
    greater = "greater" if epoch > member.epoch else "smaller"
    raise BrokerError(
        f"The consumer group member has a {greater} member epoch ({epoch}) than the one known by the group coordinator ({member.epoch}). "
        "The member must abandon all its partitions and rejoin.",
        code=ErrorCode.FENCED_MEMBER_EPOCH,
    )


def _stale(group: ConsumerGroup, member: ConsumerMember, epoch: int, code: ErrorCode) -> BrokerError:
    return BrokerError(f"member {member.id!r} of group '{group.id}' is at epoch {member.epoch}, not {epoch}", code=code)


def _had(member: ConsumerMember, partition: TopicIdPartition, epoch: int) -> bool:
    """Return whether a member has owned a partition continuously since it had this epoch."""
    since = member.held_since(partition)
    return since is not None and since <= epoch


def _owned(topics: Sequence[TopicPartitions] | None) -> Partitions | None:
    if topics is None:
        return None
    return frozenset(TopicIdPartition(topic.topic_id, partition) for topic in topics for partition in topic.partitions)


def _names_topics(request: ConsumerGroupHeartbeatRequest) -> bool:
    return request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None


def _or(said: str | None, before: str | None) -> str | None:
    return before if said is None else said
