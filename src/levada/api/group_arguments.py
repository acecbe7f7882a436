"""What callers of an admin's methods about groups pass, checked where they pass it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from levada.admin.group_types import GroupState, GroupType
from levada.admin.groups import GroupFilter
from levada.api import arguments
from levada.types import TopicPartition


def group_filter(types: Any, states: Any, protocol_types: Any) -> GroupFilter:
    """Return which groups are listed."""
    return GroupFilter(
        frozenset(arguments.named(GroupType, types, "type of a group")),
        frozenset(arguments.named(GroupState, states, "state of a group")),
        frozenset(arguments.texts(protocol_types, "protocol types")),
    )


def offsets_wanted(wanted: Mapping[Any, Any]) -> dict[str, list[TopicPartition] | None]:
    """Return for which partitions of each group the offsets are listed, None for all."""
    if not isinstance(wanted, Mapping):
        raise TypeError(f"expected a mapping of a group's id to its partitions, or to None for all; got {wanted!r}")
    return {
        arguments.group_id(group): None if partitions is None else arguments.topic_partitions(partitions)
        for group, partitions in wanted.items()
    }


def reason(given: Any) -> str:
    """Return why members are removed."""
    if not isinstance(given, str):
        raise TypeError(f"a reason is text, got {given!r}")
    return f"removed by an administrator: {given}" if given else "removed by an administrator"
