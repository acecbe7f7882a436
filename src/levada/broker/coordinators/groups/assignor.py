"""What assignors of consumer groups are given, and which there are. An assignor is a pure function from subscriptions to assignments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias
from uuid import UUID

from levada.broker.coordinators.groups.consumer_member import Owned, Partitions


class Subscription(NamedTuple):
    """What a member subscribes to, and what it shall have until now. instance_id: of a static member."""

    topics: frozenset[UUID]
    target: Partitions
    instance_id: str | None = None


Subscriptions: TypeAlias = Mapping[str, Subscription]
"""By member id."""

Assignor: TypeAlias = Callable[[Subscriptions, Mapping[UUID, int]], dict[str, Partitions]]
"""Returns what each member shall have. The second argument is the number of partitions of each topic that exists."""


def in_order(members: Subscriptions) -> list[str]:
    """Return member ids in an order that survives restarts: static members first, by instance id."""
    return sorted(members, key=lambda member: (members[member].instance_id is None, members[member].instance_id or member))


def partitions_of(topic: UUID, count: int) -> list[Owned]:
    """Return a topic's partitions."""
    return [Owned(topic, index) for index in range(count)]
