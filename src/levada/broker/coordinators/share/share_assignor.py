"""The simple share assignor: every partition gets members, and every member gets partitions, as evenly as subscriptions allow (KIP-932).

Members share partitions, and where there are more members than partitions, every partition gets equally many of them, so that some
members may read more than one. First everybody keeps what it has, as long as that is not more than its part. Then each partition gets
the members it lacks, those that have least first.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from levada.broker.coordinators.groups.assignor import Subscriptions, partitions_of
from levada.broker.coordinators.groups.consumer_member import Owned, Partitions


def assign_shared(members: Subscriptions, topics: Mapping[UUID, int]) -> dict[str, Partitions]:
    """Return what each member shall have (levada.broker.coordinators.groups.assignor)."""
    every = [partition for topic in sorted(topics) for partition in partitions_of(topic, topics[topic])]
    readers = {partition: [name for name in members if partition.topic_id in members[name].topics] for partition in every}
    choices = {name: [partition for partition in every if partition.topic_id in members[name].topics] for name in members}
    given: dict[str, dict[Owned, None]] = {name: {} for name in members}
    crowd = dict.fromkeys(every, 0)
    wanted = {partition: _ceil(len(names), len(choices[names[0]])) for partition, names in readers.items() if names}

    def give(name: str, partition: Owned) -> None:
        given[name][partition] = None
        crowd[partition] += 1

    for partition in wanted:
        for name in readers[partition]:
            fair = _ceil(len(choices[name]) * wanted[partition], len(readers[partition]))
            if partition in members[name].target and crowd[partition] < wanted[partition] and len(given[name]) < fair:
                give(name, partition)
    for partition in wanted:
        while crowd[partition] < wanted[partition]:
            others = [name for name in readers[partition] if partition not in given[name]]
            give(min(others, key=lambda name: len(given[name])), partition)
    return {name: frozenset(partitions) for name, partitions in given.items()}


def _ceil(count: int, by: int) -> int:
    return -(-count // by)
