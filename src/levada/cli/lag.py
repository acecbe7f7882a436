"""The lag of groups in each partition, for the commands groups, top and doctor. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from levada import TopicPartition


class LogEnds(NamedTuple):
    """The offsets of a log. start: of its first record. end: of the next record to be appended."""

    start: int
    end: int


class Reader(NamedTuple):
    """The member of a group that owns a partition."""

    member_id: str
    client_id: str
    host: str


class PartitionLag(NamedTuple):
    """A group's position in a partition.

    committed: the committed offset, at which the group reads next; None if there is none. lag: number of offsets from the committed offset
    to the end of the log; None if nothing is committed or the end is unknown. member_id, client_id, host: the member that owns the
    partition, "" if there is none.
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
    def tp(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def lost(self) -> int:
        """Number of offsets that the group has not read and that are deleted from the log; 0 if that is unknown."""
        return 0 if self.committed is None or self.log_start is None else max(0, self.log_start - self.committed)


def lag_of(
    group: str,
    committed: Mapping[TopicPartition, int | None],
    ends: Mapping[TopicPartition, LogEnds],
    readers: Mapping[TopicPartition, Reader],
) -> list[PartitionLag]:
    """Return a group's lag in each partition that it has committed or that a member owns, sorted by partition."""
    return [_lag(group, tp, committed.get(tp), ends.get(tp), readers.get(tp)) for tp in sorted({*committed, *readers})]


def total(lags: Iterable[PartitionLag]) -> int:
    """Return the sum of the lags, in offsets. Unknown lags count as 0."""
    return sum(lag.lag or 0 for lag in lags)


def _lag(group: str, tp: TopicPartition, committed: int | None, ends: LogEnds | None, reader: Reader | None) -> PartitionLag:
    # Counted like in Java's tool. A committed offset is beyond the end if the log was truncated or the topic was created again.
    behind = None if committed is None or ends is None else max(0, ends.end - committed)
    start, end = ends or (None, None)
    return PartitionLag(group, tp.topic, tp.partition, committed, start, end, behind, *(reader or ()))
