"""Committed offsets of consumer groups, and start offsets of share groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from levada.admin import group_offsets, share_offsets
from levada.admin.share_offsets import ShareOffsets
from levada.api import arguments
from levada.api.admin import admin_arguments
from levada.api.admin.core import AdminCore
from levada.api.client import Operation
from levada.api.record_offsets import offsets_to_commit
from levada.client.requests.group_offsets import Committed
from levada.types import OffsetAndMetadata, PartitionInfo, TopicPartition


def list_offsets_of_group(
    admin: AdminCore,
    /,
    group_id: str,
    partitions: Iterable[TopicPartition | PartitionInfo] | None,
    *,
    require_stable: bool,
    timeout: float | None,
) -> Operation[Committed]:
    """Return the committed offset of each partition; None for a partition without one.

    partitions: None for all partitions with a committed offset. require_stable: whether to wait for open transactions that may change the
    offsets.
    """
    group, wanted = arguments.group_id(group_id), None if partitions is None else arguments.topic_partitions(partitions)
    flow = group_offsets.list_group_offsets(group, wanted, admin.attempts(), admin.coordinators, stable=require_stable)
    return admin.operation(flow, "list consumer group offsets", timeout)


def list_offsets_of_groups(
    admin: AdminCore,
    /,
    wanted: Mapping[str, Iterable[TopicPartition | PartitionInfo] | None],
    *,
    require_stable: bool,
    timeout: float | None,
) -> Operation[dict[str, Committed]]:
    """Return the committed offsets of several groups. wanted: the partitions of each group; None for all with a committed offset.

    require_stable: whether to wait for open transactions that may change the offsets.
    """
    flow = group_offsets.list_offsets_of_groups(admin_arguments.offsets_wanted(wanted), *admin.about_groups(), stable=require_stable)
    return admin.operation(flow, "list consumer group offsets", timeout)


def alter_consumer_group_offsets(
    admin: AdminCore, /, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], *, timeout: float | None = None
) -> Operation[dict[TopicPartition, None]]:
    """Commit offsets for a group without members. Return a dict that maps each partition to None.

    A group that does not exist is created. Raises GroupError if the group has members, and UnknownTopicOrPartitionError.
    """
    group, wanted = arguments.group_id(group_id), offsets_to_commit(offsets)
    flow = group_offsets.alter_group_offsets(group, wanted, admin.attempts(), admin.coordinators)
    return admin.operation(flow, "alter consumer group offsets", timeout)


def delete_consumer_group_offsets(
    admin: AdminCore, /, group_id: str, partitions: Iterable[TopicPartition | PartitionInfo], *, timeout: float | None = None
) -> Operation[dict[TopicPartition, None]]:
    """Delete the committed offsets of a group for these partitions. Return a dict that maps each partition to None.

    Raises GroupError (GROUP_ID_NOT_FOUND) for a group that does not exist, GroupError (GROUP_SUBSCRIBED_TO_TOPIC) for a topic to which a
    member is subscribed, and UnsupportedVersionError on brokers before 2.4.
    """
    group, wanted = arguments.group_id(group_id), arguments.topic_partitions(partitions)
    flow = group_offsets.delete_group_offsets(group, wanted, admin.attempts(), admin.coordinators)
    return admin.operation(flow, "delete consumer group offsets", timeout)


def list_share_group_offsets(
    admin: AdminCore, /, group_ids: Mapping[str, Iterable[TopicPartition | PartitionInfo] | None], *, timeout: float | None = None
) -> Operation[dict[str, ShareOffsets]]:
    """Return the offsets of share groups by group id. A group that does not exist has none.

    group_ids: the partitions of each group; None for all partitions that the group has begun to read. Raises UnsupportedVersionError on
    brokers before 4.1.
    """
    flow = share_offsets.list_share_offsets(admin_arguments.offsets_wanted(group_ids), *admin.about_groups())
    return admin.operation(flow, "list share group offsets", timeout)


def alter_share_group_offsets(
    admin: AdminCore, /, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
) -> Operation[dict[TopicPartition, None]]:
    """Set the offsets of a share group without members. Return a dict that maps each partition to None.

    A group that does not exist is created. Raises GroupError (NON_EMPTY_GROUP) if the group has members, UnsupportedVersionError on brokers
    before 4.1.
    """
    wanted = {tp: at.offset for tp, at in offsets_to_commit(offsets).items()}
    flow = share_offsets.alter_share_offsets(arguments.group_id(group_id), wanted, admin.attempts(), admin.coordinators)
    return admin.operation(flow, "alter share group offsets", timeout)


def delete_share_group_offsets(
    admin: AdminCore, /, group_id: str, topics: Sequence[str], *, timeout: float | None = None
) -> Operation[dict[str, None]]:
    """Delete the offsets of a share group without members for these topics. Return a dict that maps each topic to None.

    Raises GroupError (GROUP_ID_NOT_FOUND) for a group that does not exist, GroupError (NON_EMPTY_GROUP) if it has members,
    UnsupportedVersionError on brokers before 4.1.
    """
    wanted = list(dict.fromkeys(arguments.topic_names(topics)))
    flow = share_offsets.delete_share_offsets(arguments.group_id(group_id), wanted, admin.attempts(), admin.coordinators)
    return admin.operation(flow, "delete share group offsets", timeout)
