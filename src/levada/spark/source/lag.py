"""How far a streaming query is behind the ends of the logs that it reads. No Spark, no network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from levada.spark.source.offsets import Offsets, from_json
from levada.types import TopicPartition, is_topic_name

NO_TIMESTAMP = -1


class PartitionLag(NamedTuple):
    """offsets: how many lie between the next one to read and the end of the log, with or without a record, but for those that are gone.

    seconds: now minus the timestamp of the next unread record, 0.0 where there is none; None where that record has no timestamp or did not
    come in time.
    """

    offsets: int
    seconds: float | None


@dataclass(frozen=True)
class Lag:
    """How far a query is behind, per partition and in all. name: as given by queryName, None without one."""

    query_id: str
    run_id: str
    name: str | None
    batch_id: int
    partitions: Mapping[TopicPartition, PartitionLag] = field(default_factory=dict)

    @property
    def offsets(self) -> int:
        """Of all partitions together."""
        return sum(lag.offsets for lag in self.partitions.values())

    @property
    def seconds(self) -> float | None:
        """Of the partition that is most behind; None where it is known of none."""
        return max((lag.seconds for lag in self.partitions.values() if lag.seconds is not None), default=None)

    @property
    def metrics(self) -> dict[str, float | None]:
        """The metrics that Spark's own connector reports, and maxSecondsBehindLatest."""
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
    """Return the next offset to read per partition, from the end offsets of a query's sources as its progress has them.

    Sources that are not of Kafka are left out. Where two sources read the same partition, the one that is further behind counts.
    """
    found: Offsets = {}
    for text in end_offsets:
        for tp, offset in _positions(text).items():
            found[tp] = min(offset, found.get(tp, offset))
    return found


def _positions(text: str) -> Offsets:
    try:
        offset: Any = json.loads(text)
        # One name that Kafka refuses would leave all the others without an answer.
        return {tp: position for tp, position in from_json(offset).items() if is_topic_name(tp.topic)}
    except (ValueError, TypeError, AttributeError):
        return {}


def still_there(begin: Offsets, earliest: Offsets) -> Offsets:
    """Return the next offsets to read that the logs have: retention may have removed some. earliest: of those asked for."""
    return {tp: max(offset, earliest.get(tp, offset)) for tp, offset in begin.items()}


def unread(begin: Offsets, latest: Offsets) -> Offsets:
    """Return where to look for the first unread record, in the partitions that have any."""
    return {tp: offset for tp, offset in begin.items() if offset < latest[tp]}


def behind(
    begin: Offsets, latest: Offsets, next_times: Mapping[TopicPartition, int | None], now_ms: int
) -> dict[TopicPartition, PartitionLag]:
    """Return the lag of each partition that `latest` names.

    next_times: the timestamps of the next unread records in ms, None for one that is not known. A partition without such a record is left
    out of it.
    """
    return {
        tp: PartitionLag(max(latest[tp] - begin[tp], 0), _seconds(next_times[tp], now_ms) if tp in next_times else 0.0)
        for tp in sorted(latest)
    }


def _seconds(time_ms: int | None, now_ms: int) -> float | None:
    if time_ms is None or time_ms == NO_TIMESTAMP:
        return None
    return max(now_ms - time_ms, 0) / 1000
