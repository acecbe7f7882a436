"""Groups for the commands that show or change them: members, lag, and plans for resetting offsets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from levada import (
    ClassicGroupDescription,
    ConsumerGroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    KafkaAdmin,
    KafkaError,
    MemberDescription,
    OffsetAndMetadata,
    ShareGroupDescription,
    ShareMemberDescription,
    TopicPartition,
)
from levada.cli.lag import LogEnds, PartitionLag, Reader, lag_of
from levada.types import OF_SPARK

LogEndsOf: TypeAlias = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, LogEnds]]
"""A function that returns the start and end offsets of partitions."""

_OF_CONSUMERS = ("consumer", "")
"""Protocol types of classic groups of consumers. "" is the type of a group that never had members."""


class MemberView(NamedTuple):
    """A member of a group. member_epoch: None in groups of the classic protocol."""

    group: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    member_epoch: int | None
    partitions: tuple[TopicPartition, ...]


class GroupView(NamedTuple):
    """A group. assignor: name of its assignor, "" if not chosen yet, and for share groups. lags: its lag in each partition.

    of_spark: whether a Spark query commits its progress for the group (commitOffsets), so that it needs no members.
    """

    group: str
    type: GroupType
    state: GroupState
    assignor: str
    coordinator: int
    members: tuple[MemberView, ...]
    lags: tuple[PartitionLag, ...]
    of_spark: bool = False


class _Committed(NamedTuple):
    """The committed offsets of a group, None for a partition without one. of_spark: see GroupView."""

    offsets: Mapping[TopicPartition, int | None]
    of_spark: bool = False


Description: TypeAlias = ConsumerGroupDescription | ClassicGroupDescription | ShareGroupDescription


def group_views(admin: KafkaAdmin, listings: Iterable[GroupListing], ends_of: LogEndsOf) -> dict[str, GroupView | KafkaError]:
    """Return the group, or the error of describing it or reading its offsets, by group id."""
    by_id = {listing.group_id: listing for listing in listings}
    described = _described(admin, by_id.values())
    positions = _positions(admin, [by_id[group] for group, found in described.items() if not isinstance(found, KafkaError)])
    outcomes = {group: found if isinstance(found, KafkaError) else positions[group] for group, found in described.items()}
    committed = {group: found for group, found in outcomes.items() if not isinstance(found, KafkaError)}
    assigned = {tp for group in committed for member in described[group].members for tp in member.assignment}
    ends = ends_of(assigned.union(*(found.offsets for found in committed.values())))
    return {
        group: found if isinstance(found, KafkaError) else _view(by_id[group].type, described[group], found, ends)
        for group, found in outcomes.items()
    }


def _described(admin: KafkaAdmin, listings: Collection[GroupListing]) -> dict[str, Any]:
    """Describe each group with the admin call for its type."""
    found: dict[str, Any] = {}
    wanted: tuple[tuple[Callable[..., dict[str, Any]], list[str]], ...] = (
        (admin.describe_share_groups, [one.group_id for one in listings if one.type is GroupType.SHARE]),
        (admin.describe_consumer_groups, [one.group_id for one in listings if _has_consumers(one)]),
        (admin.describe_classic_groups, [one.group_id for one in listings if one.type is not GroupType.SHARE and not _has_consumers(one)]),
    )
    for call, group_ids in wanted:
        if group_ids:
            found |= admin.outcomes(call, group_ids)
    return found


def _has_consumers(listing: GroupListing) -> bool:
    return listing.type is GroupType.CONSUMER or (listing.type is GroupType.CLASSIC and listing.protocol_type in _OF_CONSUMERS)


def _positions(admin: KafkaAdmin, listings: Sequence[GroupListing]) -> dict[str, _Committed | KafkaError]:
    """Return the groups' committed offsets, or start offsets of share groups, by group id; the error if they could not be read."""
    found: dict[str, _Committed | KafkaError] = {}
    shares: dict[str, None] = {one.group_id: None for one in listings if one.type is GroupType.SHARE}
    others: dict[str, None] = {one.group_id: None for one in listings if one.type is not GroupType.SHARE}
    if shares:
        for group, begun in admin.outcomes(admin.list_share_group_offsets, shares).items():
            found[group] = begun if isinstance(begun, KafkaError) else _Committed({tp: at and at.start_offset for tp, at in begun.items()})
    if others:
        for group, committed in admin.outcomes(admin.list_consumer_group_offsets, others).items():
            found[group] = committed if isinstance(committed, KafkaError) else _committed(committed)
    return found


def _committed(found: Mapping[TopicPartition, OffsetAndMetadata | None]) -> _Committed:
    of_spark = any(at is not None and at.metadata == OF_SPARK for at in found.values())
    return _Committed({tp: at and at.offset for tp, at in found.items()}, of_spark)


def _view(kind: GroupType, found: Description, committed: _Committed, ends: Mapping[TopicPartition, LogEnds]) -> GroupView:
    members = tuple(_member(found.group_id, member) for member in found.members)
    readers = {tp: Reader(member.member_id, member.client_id, member.host) for member in members for tp in member.partitions}
    # In a share group several members read a partition, so it has no single owner.
    lags = lag_of(found.group_id, committed.offsets, ends, {} if kind is GroupType.SHARE else readers)
    assignor, of_spark = _assignor(found), committed.of_spark
    return GroupView(found.group_id, kind, found.state, assignor, found.coordinator_id, members, tuple(lags), of_spark)


def _assignor(found: Description) -> str:
    if isinstance(found, ConsumerGroupDescription):
        return found.partition_assignor
    return found.protocol_data if isinstance(found, ClassicGroupDescription) else ""


def _member(group: str, member: MemberDescription | ShareMemberDescription) -> MemberView:
    instance = member.group_instance_id if isinstance(member, MemberDescription) else None
    partitions = tuple(sorted(member.assignment))
    return MemberView(group, member.member_id, instance, member.client_id, member.host, member.member_epoch, partitions)


class Plan(NamedTuple):
    """A reset of a group in a partition. committed: its committed offset, None if there is none. offset: the new one.

    records: number of offsets that the group reads again; negative: the number that it skips; None if nothing is committed.
    """

    group: str
    topic: str
    partition: int
    committed: int | None
    offset: int
    records: int | None

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


def to_offsets(
    group: str, wanted: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int | None], ends: Mapping[TopicPartition, LogEnds]
) -> list[Plan]:
    """Return the plans for a reset to these offsets. An offset outside of the log becomes its start or end, like in Java's tool.

    committed: the present offsets; None without one. ends: the start and end of each log; without them, an offset is used as it is.
    """
    return [_plan(group, tp, offset, committed.get(tp), ends.get(tp)) for tp, offset in sorted(wanted.items())]


def by_offsets(
    group: str,
    shift: int,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, int | None],
    ends: Mapping[TopicPartition, LogEnds],
) -> list[Plan]:
    """Return the plans for a shift by a number of offsets (negative: back), for partitions with a committed offset."""
    at = {tp: committed.get(tp) for tp in partitions}
    return to_offsets(group, {tp: offset + shift for tp, offset in at.items() if offset is not None}, committed, ends)


def _plan(group: str, tp: TopicPartition, offset: int, committed: int | None, ends: LogEnds | None) -> Plan:
    if ends is not None:
        offset = min(max(offset, ends.start), ends.end)
    return Plan(group, tp.topic, tp.partition, committed, offset, None if committed is None else committed - offset)
