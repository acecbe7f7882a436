"""Offsets of groups: what they have committed, and where share groups are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from levada.admin import group_offsets, share_offsets
from levada.admin.share_offsets import ShareOffsets
from levada.api import arguments
from levada.api.admin import admin_arguments
from levada.api.admin.administering import Administering
from levada.api.client import Operation
from levada.client.requests.group_offsets import Committed
from levada.types import OffsetAndMetadata, PartitionInfo, TopicPartition


def list_offsets_of_group(
    admin: Administering,
    /,
    group_id: str,
    partitions: Iterable[TopicPartition | PartitionInfo] | None,
    *,
    require_stable: bool,
    timeout: float | None,
) -> Operation[Committed]:
    """Return what a group has committed for these partitions, None for nothing; by default all that it has committed."""
    group, wanted = arguments.group_id(group_id), None if partitions is None else arguments.topic_partitions(partitions)
    flow = group_offsets.list_group_offsets(group, wanted, admin.attempts(), admin.coordinators, stable=require_stable)
    return admin.operation(flow, "list consumer group offsets", timeout)


def list_offsets_of_groups(
    admin: Administering,
    /,
    wanted: Mapping[str, Iterable[TopicPartition | PartitionInfo] | None],
    *,
    require_stable: bool,
    timeout: float | None,
) -> Operation[dict[str, Committed]]:
    """Return what each of several groups has committed."""
    flow = group_offsets.list_offsets_of_groups(admin_arguments.offsets_wanted(wanted), *admin.about_groups(), stable=require_stable)
    return admin.operation(flow, "list consumer group offsets", timeout)


def alter_consumer_group_offsets(
    admin: Administering, /, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], *, timeout: float | None = None
) -> Operation[dict[TopicPartition, None]]:
    """Commit offsets for a group without members; one that does not exist is created. Raises GroupError where it has members."""
    group, wanted = arguments.group_id(group_id), arguments.offsets_to_commit(offsets)
    flow = group_offsets.alter_group_offsets(group, wanted, admin.attempts(), admin.coordinators)
    return admin.operation(flow, "alter consumer group offsets", timeout)


def delete_consumer_group_offsets(
    admin: Administering, /, group_id: str, partitions: Iterable[TopicPartition | PartitionInfo], *, timeout: float | None = None
) -> Operation[dict[TopicPartition, None]]:
    """Have a group forget what it has committed for these partitions. Raises GroupError for a group that does not exist."""
    group, wanted = arguments.group_id(group_id), arguments.topic_partitions(partitions)
    flow = group_offsets.delete_group_offsets(group, wanted, admin.attempts(), admin.coordinators)
    return admin.operation(flow, "delete consumer group offsets", timeout)


def list_share_group_offsets(
    admin: Administering, /, group_ids: Mapping[str, Iterable[TopicPartition | PartitionInfo] | None], *, timeout: float | None = None
) -> Operation[dict[str, ShareOffsets]]:
    """Return where share groups are in their partitions, by id: in those given for each, with None in all that it has begun with.

    Raises UnsupportedVersionError on brokers before 4.1.
    """
    flow = share_offsets.list_share_offsets(admin_arguments.offsets_wanted(group_ids), *admin.about_groups())
    return admin.operation(flow, "list share group offsets", timeout)


def alter_share_group_offsets(
    admin: Administering, /, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
) -> Operation[dict[TopicPartition, None]]:
    """Have a share group without members go on from these offsets; one that does not exist is created.

    Raises GroupError where it has members.
    """
    wanted = {tp: at.offset for tp, at in arguments.offsets_to_commit(offsets).items()}
    flow = share_offsets.alter_share_offsets(arguments.group_id(group_id), wanted, admin.attempts(), admin.coordinators)
    return admin.operation(flow, "alter share group offsets", timeout)


def delete_share_group_offsets(
    admin: Administering, /, group_id: str, topics: Sequence[str], *, timeout: float | None = None
) -> Operation[dict[str, None]]:
    """Have a share group without members forget where it is in these topics. Raises GroupError for one that is not there."""
    wanted = list(dict.fromkeys(arguments.topic_names(topics)))
    flow = share_offsets.delete_share_offsets(arguments.group_id(group_id), wanted, admin.attempts(), admin.coordinators)
    return admin.operation(flow, "delete share group offsets", timeout)
