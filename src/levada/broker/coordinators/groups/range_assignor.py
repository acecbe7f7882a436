"""The range assignor: each topic's partitions in contiguous blocks, the first ones to the first members (G20).

Topics with the same number of partitions and the same subscribers are split alike, so that partitions of one number meet in one member.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from levada.broker.coordinators.groups.assignor import Subscriptions, in_order, partitions_of
from levada.broker.coordinators.groups.consumer_member import Owned, Partitions


def assign_ranges(members: Subscriptions, topics: Mapping[UUID, int]) -> dict[str, Partitions]:
    """Return what each member shall have (levada.broker.coordinators.groups.assignor)."""
    given: dict[str, set[Owned]] = {member: set() for member in members}
    ordered = in_order(members)
    for topic, count in topics.items():
        subscribers = [member for member in ordered if topic in members[member].topics]
        if not subscribers:
            continue
        partitions = partitions_of(topic, count)
        size, larger = divmod(count, len(subscribers))
        for place, member in enumerate(subscribers):
            start = place * size + min(place, larger)
            given[member].update(partitions[start : start + size + (place < larger)])
    return {member: frozenset(partitions) for member, partitions in given.items()}
