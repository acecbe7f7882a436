"""Groups as commands show them: their members and positions, the ledgers of Spark sinks among them, and where a reset leads."""

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
    ShareGroupDescription,
    ShareMemberDescription,
    TopicPartition,
)
from levada.cli.exits import CommandError
from levada.cli.lag import LogEnds, PartitionLag, Reader, lag_of
from levada.errors import CorruptRecordError, IllegalStateError
from levada.exactly_once.batch import sink_of_group
from levada.exactly_once.ledger import Entry
from levada.exactly_once.slots import Slots

LogEndsOf: TypeAlias = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, LogEnds]]
"""Looks up where logs begin and end."""

_OF_CONSUMERS = ("consumer", "")
"""What the members of a classic group call themselves, and a group that never had any."""


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
    """A group. assignor: who shares out partitions, "" where that is not settled. lags: where it is, partition by partition."""

    group: str
    type: GroupType
    state: GroupState
    assignor: str
    coordinator: int
    members: tuple[MemberView, ...]
    lags: tuple[PartitionLag, ...]


Description: TypeAlias = ConsumerGroupDescription | ClassicGroupDescription | ShareGroupDescription


def group_views(admin: KafkaAdmin, listings: Iterable[GroupListing], ends_of: LogEndsOf) -> dict[str, GroupView | KafkaError]:
    """Return groups by id, or why one could not be described."""
    by_id = {listing.group_id: listing for listing in listings}
    described = _described(admin, by_id.values())
    positions = _positions(admin, [by_id[group] for group, found in described.items() if not isinstance(found, KafkaError)])
    outcomes = {group: found if isinstance(found, KafkaError) else positions[group] for group, found in described.items()}
    committed = {group: found for group, found in outcomes.items() if not isinstance(found, KafkaError)}
    assigned = {tp for group in committed for member in described[group].members for tp in member.assignment}
    ends = ends_of(assigned.union(*committed.values()))
    return {
        group: found if isinstance(found, KafkaError) else _view(by_id[group].type, described[group], found, ends)
        for group, found in outcomes.items()
    }


def _described(admin: KafkaAdmin, listings: Collection[GroupListing]) -> dict[str, Any]:
    """Ask about groups of each kind by the call that is for it."""
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


def _positions(admin: KafkaAdmin, listings: Sequence[GroupListing]) -> dict[str, dict[TopicPartition, int | None] | KafkaError]:
    """Return where groups are, by id, by partition."""
    found: dict[str, dict[TopicPartition, int | None] | KafkaError] = {}
    shares: dict[str, None] = {one.group_id: None for one in listings if one.type is GroupType.SHARE}
    others: dict[str, None] = {one.group_id: None for one in listings if one.type is not GroupType.SHARE}
    if shares:
        for group, begun in admin.outcomes(admin.list_share_group_offsets, shares).items():
            found[group] = begun if isinstance(begun, KafkaError) else {tp: at and at.start_offset for tp, at in begun.items()}
    if others:
        for group, committed in admin.outcomes(admin.list_consumer_group_offsets, others).items():
            found[group] = committed if isinstance(committed, KafkaError) else {tp: at and at.offset for tp, at in committed.items()}
    return found


def _view(
    kind: GroupType, found: Description, committed: Mapping[TopicPartition, int | None], ends: Mapping[TopicPartition, LogEnds]
) -> GroupView:
    members = tuple(_member(found.group_id, member) for member in found.members)
    readers = {tp: Reader(member.member_id, member.client_id, member.host) for member in members for tp in member.partitions}
    # Of a share group several members read a partition; none of them is its reader.
    lags = lag_of(found.group_id, committed, ends, {} if kind is GroupType.SHARE else readers)
    return GroupView(found.group_id, kind, found.state, _assignor(found), found.coordinator_id, members, tuple(lags))


def _assignor(found: Description) -> str:
    if isinstance(found, ConsumerGroupDescription):
        return found.partition_assignor
    return found.protocol_data if isinstance(found, ClassicGroupDescription) else ""


def _member(group: str, member: MemberDescription | ShareMemberDescription) -> MemberView:
    instance = member.group_instance_id if isinstance(member, MemberDescription) else None
    partitions = tuple(sorted(member.assignment))
    return MemberView(group, member.member_id, instance, member.client_id, member.host, member.member_epoch, partitions)


def ledger_entry(admin: KafkaAdmin, group: str, timeout: float | None = None) -> Entry | None:
    """Return what the ledger of a Spark sink says, None for any other group. Raises IllegalStateError for the ledger of a newer levada."""
    try:
        return Slots(admin, group).last_entry(timeout_s=timeout, stable=False)
    except CorruptRecordError:
        return None


def refuse_ledgers(admin: KafkaAdmin, groups: Sequence[str], advice: str) -> None:
    """Raise CommandError if one of these groups is a ledger, or a part of one: it must not be changed as if consumers had committed it."""
    for group in groups:
        sink = sink_of_group(group)
        try:
            entry = ledger_entry(admin, sink)
        except IllegalStateError as newer:
            raise CommandError(f"nothing was done: group {group} is a ledger. {newer}") from newer
        if entry is None:
            continue
        what = "is the ledger" if group == sink else f"belongs to the ledger {sink}"
        raise CommandError(
            f"nothing was done: group {group} {what} of a Spark sink that writes exactly once, at batch {entry.batch.number}. Without it, "
            f"rows that are in Kafka are written twice when Spark repeats their batch. {advice}"
        )


class Plan(NamedTuple):
    """Where a group is to go on in a partition. committed: where it would go on now, None where nothing is committed.

    records: how many offsets more it reads than it would now (negative: fewer), None where nothing is committed.
    """

    group: str
    topic: str
    partition: int
    committed: int | None
    offset: int
    records: int | None

    @property
    def tp(self) -> TopicPartition:
        """Its partition."""
        return TopicPartition(self.topic, self.partition)


def to_offsets(
    group: str, wanted: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int | None], ends: Mapping[TopicPartition, LogEnds]
) -> list[Plan]:
    """Return what going to these offsets comes to; what lies outside of a log becomes its start or end, as in Java's tool."""
    return [_plan(group, tp, offset, committed.get(tp), ends.get(tp)) for tp, offset in sorted(wanted.items())]


def by_offsets(
    group: str,
    shift: int,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, int | None],
    ends: Mapping[TopicPartition, LogEnds],
) -> list[Plan]:
    """Return what going on or back by a number of offsets comes to, in partitions for which something is committed."""
    at = {tp: committed.get(tp) for tp in partitions}
    return to_offsets(group, {tp: offset + shift for tp, offset in at.items() if offset is not None}, committed, ends)


def _plan(group: str, tp: TopicPartition, offset: int, committed: int | None, ends: LogEnds | None) -> Plan:
    if ends is not None:
        offset = min(max(offset, ends.start), ends.end)
    return Plan(group, tp.topic, tp.partition, committed, offset, None if committed is None else committed - offset)
