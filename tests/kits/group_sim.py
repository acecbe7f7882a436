"""A group in virtual time, for the tests of both group protocols: a World and the group's members."""

from __future__ import annotations

from typing import Any

from consumer_sim import World
from levada.groups import RebalanceListener
from levada.types import TopicPartition

PARTITIONS = 4


class SimulatedGroup:
    """The group g. members: all members, in the order of their creation. seen: partition and offset of each record that poll() returned."""

    def __init__(self, world: World, **settings: Any) -> None:
        """settings: settings of each member."""
        self.world = world
        self.members: list[Any] = []
        self.seen: list[tuple[int, int]] = []
        self._settings = {"group_id": "g", **settings}

    def new(self, **settings: Any) -> Any:
        """Return a new member without a subscription. settings: replace those of the group."""
        member = self.world.consumer(**{**self._settings, **settings})
        self.members.append(member)
        return member

    def join(self, listener: RebalanceListener | None = None, **settings: Any) -> Any:
        member = self.new(**settings)
        member.subscribe(["t"], listener)
        return member

    def poll(self, *members: Any, times: int = 1, timeout: float = 0.05) -> None:
        for _ in range(times):
            for member in members or self.members:
                self.seen += [(record.partition, record.offset) for record in member.poll(timeout)]

    def owned(self, member: Any) -> list[int]:
        return sorted(tp.partition for tp in member.assignment())

    def produce(self) -> None:
        for partition in range(PARTITIONS):
            self.world.append("t", [b"v"] * 3, partition, epoch=0)

    def committed(self, partition: int) -> int | None:
        at = self.world.cluster.group_offsets.committed("g", TopicPartition("t", partition))
        return None if at is None else at.offset
