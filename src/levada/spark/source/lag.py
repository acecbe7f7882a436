"""The lag of a streaming query: how far its position is behind the ends of the logs. These functions need neither Spark nor a network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from levada.spark.source.offsets import Offsets, from_json
from levada.types import TopicPartition, is_topic_name

NO_TIMESTAMP = -1


class PartitionLag(NamedTuple):
    """The lag of a query in one partition.

    offsets: the number of offsets from the next one to read to the end of the log. Offsets without a record count; offsets before the log's
    beginning do not. seconds: now minus the timestamp of the next unread record, but not below 0.0; 0.0 if there is no such
    record; None if it has no timestamp, or did not arrive in time.
    """

    offsets: int
    seconds: float | None


@dataclass(frozen=True)
class Lag:
    """The lag of a query, by partition and in total. name: the queryName, None without one."""

    query_id: str
    run_id: str
    name: str | None
    batch_id: int
    partitions: Mapping[TopicPartition, PartitionLag] = field(default_factory=dict)

    @property
    def offsets(self) -> int:
        """The lag of all partitions together, in offsets."""
        return sum(lag.offsets for lag in self.partitions.values())

    @property
    def seconds(self) -> float | None:
        """The largest lag of a partition, in seconds. None if no partition's lag in seconds is known."""
        return max((lag.seconds for lag in self.partitions.values() if lag.seconds is not None), default=None)

    @property
    def metrics(self) -> dict[str, float | None]:
        """The metrics that Spark's own connector reports, and maxSecondsBehindLatest, by name. None means an unknown lag in seconds."""
        offsets = [lag.offsets for lag in self.partitions.values()] or [0]
        return {
            "minOffsetsBehindLatest": min(offsets),
            "maxOffsetsBehindLatest": max(offsets),
            "avgOffsetsBehindLatest": sum(offsets) / len(offsets),
            "maxSecondsBehindLatest": self.seconds,
        }

    def __str__(self) -> str:
        if not self.offsets:
            return "at the end"
        worst = max(self.partitions, key=lambda tp: self.partitions[tp].offsets)
        total = f"{self.offsets:,} offsets{_and_seconds(self.seconds)} behind"
        return total if len(self.partitions) == 1 else f"{total}, most in {worst}: {self.partitions[worst].offsets:,}"


def _and_seconds(seconds: float | None) -> str:
    return "" if seconds is None else f" and {seconds:,.1f} s"


def positions(end_offsets: Iterable[str]) -> Offsets:
    """Return the next offset to read, by partition. end_offsets: the end offsets of the sources in a query's progress, as JSON.

    Sources of other formats are left out. If two sources read the same partition, the lower offset counts.
    """
    found: Offsets = {}
    for text in end_offsets:
        for tp, offset in _positions(text).items():
            found[tp] = min(offset, found.get(tp, offset))
    return found


def _positions(text: str) -> Offsets:
    try:
        offset: Any = json.loads(text)
        # One invalid topic name would make the whole request for offsets fail.
        return {tp: position for tp, position in from_json(offset).items() if is_topic_name(tp.topic)}
    except (ValueError, TypeError, AttributeError):
        return {}


def still_there(begin: Offsets, earliest: Offsets) -> Offsets:
    """Return the next offsets to read, raised to the first offsets of the logs: retention may have deleted records.

    earliest: the first offsets of the logs. A partition that is not in `earliest` keeps its offset.
    """
    return {tp: max(offset, earliest.get(tp, offset)) for tp, offset in begin.items()}


def unread(begin: Offsets, latest: Offsets) -> Offsets:
    """Return the next offsets to read, of the partitions that have unread offsets."""
    return {tp: offset for tp, offset in begin.items() if offset < latest[tp]}


def behind(
    begin: Offsets, latest: Offsets, next_times: Mapping[TopicPartition, int | None], now_ms: int
) -> dict[TopicPartition, PartitionLag]:
    """Return the lag of each partition in `latest`.

    next_times: the timestamps of the next unread records in ms; None if unknown. Partitions without an unread record are not in it.
    """
    return {
        tp: PartitionLag(max(latest[tp] - begin[tp], 0), _seconds(next_times[tp], now_ms) if tp in next_times else 0.0)
        for tp in sorted(latest)
    }


def _seconds(time_ms: int | None, now_ms: int) -> float | None:
    if time_ms is None or time_ms == NO_TIMESTAMP:
        return None
    return max(now_ms - time_ms, 0) / 1000
