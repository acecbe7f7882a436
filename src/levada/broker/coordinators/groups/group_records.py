"""Groups and their members as records of __consumer_offsets: written when they change, and read when a broker starts.

A classic group is one record with all its members, a consumer group is several records. After a change, only the records are written that
differ from those written before. So a group that changes its type or is deleted needs no special rule. Members of share groups are not
stored (share_records stores the positions of these groups).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from uuid import UUID

from levada.broker.coordinators.groups.classic_group import ClientOrigin, Protocol, StoredGroup, StoredMember
from levada.broker.coordinators.groups.consumer_group import ConsumerGroup
from levada.broker.coordinators.groups.consumer_member import ClassicPart, ConsumerMember, MemberState, TopicIdPartition
from levada.broker.coordinators.logs import CoordinatorLog, CoordinatorRecord, CoordinatorWrite
from levada.errors import ProtocolError
from levada.logs import Log
from levada.protocol.prefixed import GROUP_RECORDS, encode_prefixed
from levada.protocol.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from levada.protocol.records.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from levada.protocol.records.consumer_group_metadata import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from levada.protocol.records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from levada.protocol.records.consumer_group_target_assignment_member import (
    TopicPartition as TargetPartitions,
)
from levada.protocol.records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from levada.protocol.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from levada.protocol.schema import RecordKey, RecordValue
from levada.types import TopicPartition

_log = Log("levada.broker")
_CLASSIC_VERSION, _CONSUMER_VERSION = 3, 0
_STATES = (MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS)
"""The states in the order of their numbers in a record."""

Records = dict[bytes, bytes]


class GroupRecords:
    """Writes the state of groups as records of __consumer_offsets. place_of: returns the partition of this topic to which a
    group belongs.
    """

    def __init__(self, log: CoordinatorLog, place_of: Callable[[str], TopicPartition]) -> None:
        self._log = log
        self._place_of = place_of
        self._written: dict[str, Records] = {}
        """The records of each group that were written last."""

    def keep(self, group_id: str, group: StoredGroup | ConsumerGroup | None, now_ms: int) -> None:
        """Write the changes of a group since the last call. group: its present state, None if it was deleted or has never had members.
        now_ms: milliseconds since the epoch.
        """
        before, after = self._written.get(group_id, {}), _records(group_id, group)
        gone = [CoordinatorRecord(key, None) for key in before if key not in after]
        changed = [CoordinatorRecord(key, value) for key, value in after.items() if before.get(key) != value]
        if gone or changed:
            self._log.append(self._place_of(group_id), [*gone, *changed], now_ms)
            self._written[group_id] = after
        if not after:
            self._written.pop(group_id, None)

    def clear(self) -> None:
        """Forget which records were written, because the topic was deleted."""
        self._written.clear()

    def restore(self, written: Iterable[CoordinatorWrite]) -> tuple[dict[str, StoredGroup], dict[str, ConsumerGroup]]:
        """Return the classic groups and the consumer groups that the records describe, by group id. Records of unknown kinds or versions
        are skipped.
        """
        for one in written:
            for record in one.records:
                self._take(one, record)
        classic: dict[str, StoredGroup] = {}
        consumer: dict[str, ConsumerGroup] = {}
        for group_id, records in self._written.items():
            for key, value in _decoded(records):
                if isinstance(value, GroupMetadataValue):
                    classic[group_id] = _classic_group(value)
                elif not isinstance(key, GroupMetadataKey):
                    _put(consumer.setdefault(group_id, ConsumerGroup(group_id)), key, value)
        return classic, consumer

    def _take(self, written: CoordinatorWrite, record: CoordinatorRecord) -> None:
        try:
            key = GROUP_RECORDS.decode(record.key, record.value).key
        except ProtocolError as fault:
            _log.warning("%s: a record is skipped: %s", written.place, fault)
            return
        if not isinstance(key, _KEYS):
            return
        group_id = key.group if isinstance(key, GroupMetadataKey) else key.group_id
        records = self._written.setdefault(group_id, {})
        if record.value is None:
            records.pop(record.key, None)
        else:
            records[record.key] = record.value


_KEYS = (
    GroupMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupCurrentMemberAssignmentKey,
)


def _records(group_id: str, group: StoredGroup | ConsumerGroup | None) -> Records:
    if group is None:
        return {}
    if isinstance(group, StoredGroup):
        return {encode_prefixed(GroupMetadataKey(group=group_id), 0): encode_prefixed(_classic_value(group), _CLASSIC_VERSION)}
    return {encode_prefixed(key, 0): encode_prefixed(value, _CONSUMER_VERSION) for key, value in _of_consumer_group(group)}


def _decoded(records: Records) -> Iterator[tuple[RecordKey, RecordValue | None]]:
    # Assignments can only be applied after the records of the members.
    for key, value in sorted(records.items()):
        decoded = GROUP_RECORDS.decode(key, value)
        yield decoded.key, decoded.value


# Classic groups


def _classic_value(group: StoredGroup) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader,
        current_state_timestamp=group.since_ms,
        members=[
            MemberMetadata(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.origin.client_id,
                client_host=member.origin.host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.protocol.metadata,
                assignment=member.assignment,
            )
            for member in group.members
        ],
    )


def _classic_group(value: GroupMetadataValue) -> StoredGroup:
    members = tuple(
        StoredMember(
            member.member_id,
            member.group_instance_id,
            ClientOrigin(member.client_id, member.client_host),
            member.rebalance_timeout,
            member.session_timeout,
            Protocol(value.protocol or "", member.subscription),
            member.assignment,
        )
        for member in value.members
    )
    return StoredGroup(value.protocol_type or None, value.generation, value.protocol, value.leader, members, value.current_state_timestamp)


# Consumer groups


def _of_consumer_group(group: ConsumerGroup) -> Iterator[tuple[RecordKey, RecordValue]]:
    yield ConsumerGroupMetadataKey(group_id=group.id), ConsumerGroupMetadataValue(epoch=group.epoch)
    target = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=group.assignment_epoch)
    yield ConsumerGroupTargetAssignmentMetadataKey(group_id=group.id), target
    for member in group.members.values():
        yield ConsumerGroupMemberMetadataKey(group_id=group.id, member_id=member.id), _metadata(member)
        partitions = [TargetPartitions(topic_id=topic, partitions=numbers) for topic, numbers in _by_topic(group.target(member.id)).items()]
        shall_have = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=partitions)
        yield ConsumerGroupTargetAssignmentMemberKey(group_id=group.id, member_id=member.id), shall_have
        yield ConsumerGroupCurrentMemberAssignmentKey(group_id=group.id, member_id=member.id), _current(member)


def _metadata(member: ConsumerMember) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.origin.client_id,
        client_host=member.origin.host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None if member.classic is None else _classic_part(member.classic),
    )


def _classic_part(classic: ClassicPart) -> ClassicMemberMetadata:
    offered = [ClassicProtocol(name=protocol.name, metadata=protocol.metadata) for protocol in classic.protocols]
    return ClassicMemberMetadata(session_timeout_ms=classic.session_timeout_ms, supported_protocols=offered)


def _current(member: ConsumerMember) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=_STATES.index(member.state),
        assigned_partitions=_topics_since(member.assigned),
        partitions_pending_revocation=_topics_since(member.revoking),
    )


def _topics_since(since: Mapping[TopicIdPartition, int]) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic, partitions=numbers, assignment_epochs=[since[TopicIdPartition(topic, number)] for number in numbers]
        )
        for topic, numbers in _by_topic(since).items()
    ]


def _by_topic(partitions: Iterable[TopicIdPartition]) -> dict[UUID, list[int]]:
    found: dict[UUID, list[int]] = {}
    for owned in sorted(partitions):
        found.setdefault(owned.topic_id, []).append(owned.partition)
    return found


def _put(group: ConsumerGroup, key: RecordKey, value: RecordValue | None) -> None:
    """Apply a stored record to a group. The metadata record of a member comes before the record of its assignment."""
    if isinstance(value, ConsumerGroupMetadataValue):
        group.epoch = value.epoch
    elif isinstance(value, ConsumerGroupTargetAssignmentMetadataValue):
        group.assignment_epoch = value.assignment_epoch
    elif isinstance(key, ConsumerGroupMemberMetadataKey) and isinstance(value, ConsumerGroupMemberMetadataValue):
        group.members[key.member_id] = _member(key.member_id, value)
    elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey) and isinstance(value, ConsumerGroupTargetAssignmentMemberValue):
        group.targets[key.member_id] = frozenset(_owned(value.topic_partitions))
    elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey) and isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
        group.members[key.member_id] = _having(group.members[key.member_id], value)


def _member(member_id: str, said: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    classic = said.classic_member_metadata
    return ConsumerMember(
        id=member_id,
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        origin=ClientOrigin(said.client_id, said.client_host),
        rebalance_timeout_ms=said.rebalance_timeout_ms,
        topics=frozenset(said.subscribed_topic_names),
        pattern=said.subscribed_topic_regex or "",
        assignor=said.server_assignor,
        classic=None
        if classic is None
        else ClassicPart(classic.session_timeout_ms, tuple(Protocol(one.name, one.metadata) for one in classic.supported_protocols)),
    )


def _having(member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
    return replace(
        member,
        state=_STATES[value.state],
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        assigned=_with_epochs(value.assigned_partitions, value.member_epoch),
        revoking=_with_epochs(value.partitions_pending_revocation, value.member_epoch),
    )


def _with_epochs(topics: Iterable[TopicPartitions], epoch: int) -> dict[TopicIdPartition, int]:
    """Return the partitions of a stored assignment, each with the epoch in which the member got it. epoch: the member's epoch, which is
    used if no such epochs are stored.
    """
    found: dict[TopicIdPartition, int] = {}
    for topic in topics:
        found.update(zip(_owned([topic]), topic.assignment_epochs or [epoch] * len(topic.partitions), strict=True))
    return found


def _owned(topics: Iterable[TargetPartitions | TopicPartitions]) -> Iterator[TopicIdPartition]:
    return (TopicIdPartition(topic.topic_id, index) for topic in topics for index in topic.partitions)
