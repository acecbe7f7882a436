"""What moving a group to another position comes to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from levada import TopicPartition
from levada.cli.lag import LogEnds


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
