"""The heartbeats of a member of a consumer group, and the reaction to each error code (KIP-848; HeartbeatRequestManager in Java). Pure.

The first heartbeat has all fields. A heartbeat after an error, or after a heartbeat that was not answered, has all fields as well, because
it is unknown which fields the coordinator has. Every other heartbeat has the member's identity, and the fields that have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple, Protocol
from uuid import UUID

from levada.acls import ResourceType
from levada.base.permissions import refused
from levada.error_codes import ErrorCode
from levada.errors import KafkaError
from levada.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_FOR_A_WHILE_EPOCH = -2
"""Sent by a static member that leaves: its partitions stay reserved for it until its session ends."""
FIRST_VERSION_WITH_PATTERNS = 1


class Owned(NamedTuple):
    """A partition with the id of its topic, as coordinators name it."""

    topic_id: UUID
    partition: int


class AnyTopicPartitions(Protocol):
    """The partitions of one topic, in a message of any group protocol."""

    topic_id: UUID
    partitions: list[int]


class HeartbeatReaction(Enum):
    """The reaction to the error code of a heartbeat."""

    RETRY = "retry after a backoff"
    REFIND = "look up the coordinator and retry: after a first failure at once, else after a backoff"
    FENCE = "the membership is lost: join again, after on_partitions_lost() was called"
    TELL = "raise it to the program, and go on"
    FAIL = "raise it to the program; the membership is lost"


_C, _R = ErrorCode, HeartbeatReaction

ON_HEARTBEAT_ERROR: Mapping[ErrorCode, HeartbeatReaction] = {
    _C.NOT_COORDINATOR: _R.REFIND,
    _C.COORDINATOR_NOT_AVAILABLE: _R.REFIND,
    _C.COORDINATOR_LOAD_IN_PROGRESS: _R.RETRY,
    _C.FENCED_MEMBER_EPOCH: _R.FENCE,
    _C.UNKNOWN_MEMBER_ID: _R.FENCE,
    _C.GROUP_ID_NOT_FOUND: _R.FENCE,
    _C.TOPIC_AUTHORIZATION_FAILED: _R.TELL,
}
"""For any other code the reaction is FAIL: for a missing permission, a group of another type, or a group.instance.id that is in use (only
after the wait of InstanceRelease).
"""


def reaction_to(code: ErrorCode, epoch: int) -> HeartbeatReaction:
    """Return the reaction to the error code of a heartbeat. epoch: the member epoch in that heartbeat."""
    # A member that is just joining has no membership to lose. The group is of another kind, and does not accept it.
    if code is ErrorCode.GROUP_ID_NOT_FOUND and epoch == JOIN_EPOCH:
        return HeartbeatReaction.FAIL
    return ON_HEARTBEAT_ERROR.get(code, HeartbeatReaction.FAIL)


class SentFields(NamedTuple):
    """The fields of a heartbeat, to compare with those of the previous heartbeat.

    pattern: the regular expression that brokers match; "" without one. owned: the partitions that the member reports as its own.
    """

    rebalance_timeout_ms: int
    topics: frozenset[str]
    pattern: str
    assignor: str | None
    rack: str | None
    owned: frozenset[Owned]


class Identity(NamedTuple):
    """Identifies a member in its heartbeats. instance_id: its group.instance.id, None for a dynamic member."""

    group_id: str
    member_id: str
    instance_id: str | None


def heartbeat(who: Identity, epoch: int, fields: SentFields, sent: SentFields | None) -> ConsumerGroupHeartbeatRequest:
    """Return a heartbeat with the fields that have changed. sent: the fields that were sent last; None sends all fields."""
    request = _request(who, epoch)
    if sent is None or fields.rebalance_timeout_ms != sent.rebalance_timeout_ms:
        request.rebalance_timeout_ms = fields.rebalance_timeout_ms
    if sent is None or fields.topics != sent.topics:
        request.subscribed_topic_names = sorted(fields.topics)
    if fields.pattern != ("" if sent is None else sent.pattern):
        request.subscribed_topic_regex = fields.pattern
    if sent is None or fields.owned != sent.owned:
        request.topic_partitions = by_topic(fields.owned)
    if sent is None:
        request.server_assignor, request.rack_id = fields.assignor, fields.rack
    return request


def leaving(who: Identity, *, for_a_while: bool) -> ConsumerGroupHeartbeatRequest:
    """Return the heartbeat that leaves the group. for_a_while: whether a static member keeps its assignment until its session ends."""
    return _request(who, LEAVE_FOR_A_WHILE_EPOCH if for_a_while else LEAVE_EPOCH)


def makes_sense(answer: ConsumerGroupHeartbeatResponse) -> bool:
    """Return whether an answer is valid: it has an error code, or a member epoch above 0 and no negative partition number."""
    given = () if answer.assignment is None else owned_of(answer.assignment.topic_partitions)
    return bool(answer.error_code) or (answer.member_epoch > JOIN_EPOCH and all(partition >= 0 for _, partition in given))


def refusal(who: Identity, code: ErrorCode, why: str | None) -> KafkaError:
    """Return the error for a member that the coordinator refuses. why: the message of the answer."""
    text = f"group '{who.group_id}': the coordinator refuses this member{f': {why}' if why else ''}"
    if code is ErrorCode.UNSUPPORTED_VERSION:
        text += "; group.protocol=consumer needs Kafka 4.0 with group.version=1, group.protocol=classic works with every Kafka"
    elif code in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID):
        text += f"; each member needs a group.instance.id of its own, and '{who.instance_id}' is another one's"
    return refused(ConsumerGroupHeartbeatRequest.NAME, code, text, {ResourceType.GROUP: who.group_id})


def _request(who: Identity, epoch: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id=who.group_id, member_id=who.member_id, member_epoch=epoch, instance_id=who.instance_id)


def by_topic(owned: Iterable[Owned]) -> list[TopicPartitions]:
    """Return partitions as the field of ConsumerGroupHeartbeat: grouped by topic id, and sorted."""
    topics: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(owned):
        topics.setdefault(topic_id, []).append(partition)
    return [TopicPartitions(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()]


def owned_of(topics: Iterable[AnyTopicPartitions]) -> frozenset[Owned]:
    """Return the partitions of an assignment that is grouped by topic id."""
    return frozenset(Owned(topic.topic_id, partition) for topic in topics for partition in topic.partitions)
