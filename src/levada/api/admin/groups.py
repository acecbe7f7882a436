"""Groups: list and describe them, delete them, remove members."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from levada.admin import describing_groups, describing_streams, groups
from levada.admin.group_types import (
    ClassicGroupDescription,
    ConsumerGroupDescription,
    GroupListing,
    ShareGroupDescription,
    StreamsGroupDescription,
)
from levada.api import arguments
from levada.api.admin import admin_arguments
from levada.api.admin.core import AdminCore
from levada.api.client import Operation


def list_groups(
    admin: AdminCore,
    /,
    *,
    types: Iterable[str] = (),
    states: Iterable[str] = (),
    protocol_types: Iterable[str] = (),
    timeout: float | None = None,
) -> Operation[list[GroupListing]]:
    """Return the groups of all brokers that match all filters, sorted by id.

    types: for example "Consumer", "Classic", "Share". states: for example "Stable", "Empty". protocol_types: groups of consumers have
    "consumer" or "". An empty filter matches all groups. If a broker does not support a filter, the client filters the groups itself.
    """
    wanted = admin_arguments.group_filter(types, states, protocol_types)
    return admin.operation(groups.list_groups(admin.attempts(), admin.spawn, wanted), "list groups", timeout)


def describe_consumer_groups(
    admin: AdminCore, /, group_ids: Sequence[str], *, include_authorized_operations: bool = False, timeout: float | None = None
) -> Operation[dict[str, ConsumerGroupDescription]]:
    """Describe groups of consumers by id, both of the classic protocol and of KIP-848.

    include_authorized_operations: whether to include the operations that this user may perform on each group. Raises GroupError
    (GROUP_ID_NOT_FOUND) if a group does not exist or is of another type, whatever the age of the brokers; GroupError
    (INCONSISTENT_GROUP_PROTOCOL) for a classic group whose members are not consumers.
    """
    wanted, describe = arguments.ids(group_ids, "group ids"), describing_groups.describe_consumer_groups
    flow = describe(wanted, *admin.about_groups(), authorized_operations=include_authorized_operations)
    return admin.operation(flow, "describe consumer groups", timeout)


def describe_classic_groups(
    admin: AdminCore, /, group_ids: Sequence[str], *, include_authorized_operations: bool = False, timeout: float | None = None
) -> Operation[dict[str, ClassicGroupDescription]]:
    """Describe groups of the classic protocol by id, including those of Kafka Connect.

    include_authorized_operations: whether to include the operations that this user may perform on each group. Raises GroupError
    (GROUP_ID_NOT_FOUND) for a group that does not exist or is of another type.
    """
    wanted, describe = arguments.ids(group_ids, "group ids"), describing_groups.describe_classic_groups
    flow = describe(wanted, *admin.about_groups(), authorized_operations=include_authorized_operations)
    return admin.operation(flow, "describe classic groups", timeout)


def describe_share_groups(
    admin: AdminCore, /, group_ids: Sequence[str], *, include_authorized_operations: bool = False, timeout: float | None = None
) -> Operation[dict[str, ShareGroupDescription]]:
    """Describe share groups by id (KIP-932).

    include_authorized_operations: whether to include the operations that this user may perform on each group. Raises GroupError
    (GROUP_ID_NOT_FOUND) for a group that does not exist or is of another type, UnsupportedVersionError on brokers before 4.1.
    """
    wanted, describe = arguments.ids(group_ids, "group ids"), describing_groups.describe_share_groups
    flow = describe(wanted, *admin.about_groups(), authorized_operations=include_authorized_operations)
    return admin.operation(flow, "describe share groups", timeout)


def describe_streams_groups(
    admin: AdminCore, /, group_ids: Sequence[str], *, include_authorized_operations: bool = False, timeout: float | None = None
) -> Operation[dict[str, StreamsGroupDescription]]:
    """Describe groups of Kafka Streams by id (KIP-1071), with their topologies and tasks.

    include_authorized_operations: whether to include the operations that this user may perform on each group. Raises GroupError
    (GROUP_ID_NOT_FOUND) for a group that does not exist or is of another type, UnsupportedVersionError on brokers before 4.1.
    """
    wanted, describe = arguments.ids(group_ids, "group ids"), describing_streams.describe_streams_groups
    flow = describe(wanted, *admin.about_groups(), authorized_operations=include_authorized_operations)
    return admin.operation(flow, "describe streams groups", timeout)


def delete_consumer_groups(admin: AdminCore, /, group_ids: Sequence[str], *, timeout: float | None = None) -> Operation[dict[str, None]]:
    """Delete groups of any type that have no members, and their offsets. Return a dict that maps each group to None.

    Raises GroupError (NON_EMPTY_GROUP) for a group with members, GroupError (GROUP_ID_NOT_FOUND) for a group that does not exist,
    UnsupportedVersionError on brokers before 1.1.
    """
    flow = groups.delete_groups(arguments.ids(group_ids, "group ids"), *admin.about_groups())
    return admin.operation(flow, "delete consumer groups", timeout)


def remove_members_from_consumer_group(
    admin: AdminCore,
    /,
    group_id: str,
    group_instance_ids: Iterable[str] | None = None,
    *,
    reason: str = "",
    timeout: float | None = None,
) -> Operation[dict[str, None]]:
    """Remove members from a group at once (KIP-345). A consumer that still runs joins the group again with its next poll. Return a dict
    that maps each removed member to None: its group.instance.id, or its member id if it has none.

    group_instance_ids: names static members; None removes all members of the group. reason: a text for the broker's log.

    Raises GroupError for a member or a group that does not exist, UnsupportedVersionError on brokers before 2.4. `outcomes` of the error is
    by group.instance.id, or by member id for members without one. Brokers before 4.4 may know only members of the classic protocol.
    """
    leavers = None if group_instance_ids is None else arguments.ids(group_instance_ids, "group instance ids")
    flow = groups.remove_members(arguments.group_id(group_id), leavers, admin_arguments.reason(reason), *admin.about_groups())
    return admin.operation(flow, "remove members from consumer group", timeout)
