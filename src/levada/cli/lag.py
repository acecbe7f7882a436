"""How far groups are behind, partition by partition. Pure; groups, top and doctor show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from levada import TopicPartition


class LogEnds(NamedTuple):
    """The offsets of a log: of the first record that there is, and the one that the next record will get."""

    start: int
    end: int


class Reader(NamedTuple):
    """Which member of a group has a partition."""

    member_id: str
    client_id: str
    host: str


class PartitionLag(NamedTuple):
    """Where a group is in a partition.

    committed: the offset of the next record to read, None where nothing is committed. lag: how many offsets lie between it and the end,
    None where nothing is committed or the ends are not known. member_id, client_id, host: of the member that has the partition, else "".
    """

    group: str
    topic: str
    partition: int
    committed: int | None
    log_start: int | None
    log_end: int | None
    lag: int | None
    member_id: str = ""
    client_id: str = ""
    host: str = ""

    @property
    def lost(self) -> int:
        """How many offsets that were not read have been deleted from the log."""
        return 0 if self.committed is None or self.log_start is None else max(0, self.log_start - self.committed)


def lag_of(
    group: str,
    committed: Mapping[TopicPartition, int | None],
    ends: Mapping[TopicPartition, LogEnds],
    readers: Mapping[TopicPartition, Reader],
) -> list[PartitionLag]:
    """Return where a group is in each partition that it has committed for or that a member has, in order."""
    return [_lag(group, tp, committed.get(tp), ends.get(tp), readers.get(tp)) for tp in sorted({*committed, *readers})]


def total(lags: Iterable[PartitionLag]) -> int:
    """Return by how many offsets a group is behind in all."""
    return sum(lag.lag or 0 for lag in lags)


def _lag(group: str, tp: TopicPartition, committed: int | None, ends: LogEnds | None, reader: Reader | None) -> PartitionLag:
    # As Java's tool counts. An offset beyond the end stands for a log that was cut or a topic that was created again.
    behind = None if committed is None or ends is None else max(0, ends.end - committed)
    start, end = ends or (None, None)
    return PartitionLag(group, tp.topic, tp.partition, committed, start, end, behind, *(reader or ()))
