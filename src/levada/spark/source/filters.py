"""Filters of a batch query that reduce the offset ranges to read: on topic, partition, offset, and lower bound of the timestamp.

Spark applies every filter to the rows again. So the source may return rows that a filter rejects, but must return all that it accepts.

A lower bound of the timestamp becomes a start offset: the first offset whose timestamp is at or after this time. Every record before this
offset is older. An upper bound does not become an end offset, because producers set timestamps in any order. Even with
message.timestamp.type=LogAppendTime, records that were appended before it was set may have any timestamp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from levada.spark.pyspark_versions import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)
from levada.spark.source.cluster import Cluster
from levada.spark.source.offsets import Offsets
from levada.types import TopicPartition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
MOST_OFFSET = 2**63 - 1


@dataclass(frozen=True)
class Bounds:
    """The records that a query needs. topics, partitions: None for all.

    first, after_last: the lowest offset, and the offset after the highest one.
    since_ms: the lowest timestamp, in milliseconds since the epoch; None for any timestamp. said: the filters as text for the log.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first: int = 0
    after_last: int = MOST_OFFSET
    since_ms: int | None = None
    said: tuple[str, ...] = ()

    def narrow(self, start: Offsets, end: Offsets, cluster: Cluster) -> tuple[Offsets, Offsets]:
        """Narrow the start and end offsets of a query to the records that its filters may accept.

        Partitions that the filters exclude are left out. With since_ms this sends ListOffsets requests.
        """
        left = [tp for tp in start if self._may_have_rows(tp)]
        starts = {tp: max(start[tp], self.first) for tp in left}
        ends = {tp: min(end[tp], self.after_last) for tp in left}
        if self.since_ms is not None and left:
            since = cluster.at_times(dict.fromkeys(left, self.since_ms))
            starts = {tp: ends[tp] if (found := since[tp]) is None else max(starts[tp], found) for tp in left}
        return starts, ends

    def _may_have_rows(self, tp: TopicPartition) -> bool:
        has_topic = self.topics is None or tp.topic in self.topics
        return has_topic and (self.partitions is None or tp.partition in self.partitions)


def push(filters: Iterable[Filter]) -> Bounds:
    """Return the bounds that all supported filters together set. Other filters are ignored."""
    bounds = Bounds()
    for found in filters:
        path: tuple[str, ...] = getattr(found, "attribute", ())
        value = getattr(found, "value", None)
        column = path[0] if len(path) == 1 else ""
        take = _TAKES.get((column, type(found)))
        taken = None if take is None else take(bounds, value)
        if taken is not None:
            bounds = replace(taken, said=(*bounds.said, f"{column} {_SIGNS[type(found)]} {value}"))
    return bounds


_SIGNS: Mapping[type, str] = {
    EqualTo: "=",
    EqualNullSafe: "=",
    In: "in",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


def _topics(bounds: Bounds, values: Iterable[Any]) -> Bounds:
    wanted = frozenset(values)
    return replace(bounds, topics=wanted if bounds.topics is None else bounds.topics & wanted)


def _partitions(bounds: Bounds, values: Iterable[Any]) -> Bounds:
    wanted = frozenset(values)
    return replace(bounds, partitions=wanted if bounds.partitions is None else bounds.partitions & wanted)


def _offsets(bounds: Bounds, first: int, after_last: int = MOST_OFFSET) -> Bounds:
    return replace(bounds, first=max(bounds.first, first), after_last=min(bounds.after_last, after_last))


def _since(bounds: Bounds, value: Any, *, after: bool) -> Bounds | None:
    """Return the bounds with a lower bound of the timestamp, rounded up to milliseconds. after: whether the bound itself is excluded.

    None if the value is not supported: no datetime, a datetime without a zone, or one that is not after 1970-01-01.
    """
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    microseconds = (value - _EPOCH) // _MICROSECOND
    since_ms = microseconds // 1000 + 1 if after else -(-microseconds // 1000)
    if since_ms <= 0:
        # Brokers do not look for such times, and records may have them.
        return None
    return replace(bounds, since_ms=max(bounds.since_ms or 0, since_ms))


_TAKES: Mapping[tuple[str, type], Callable[[Bounds, Any], Bounds | None]] = {
    ("topic", EqualTo): lambda bounds, value: _topics(bounds, [value]),
    ("topic", EqualNullSafe): lambda bounds, value: _topics(bounds, [value]),
    ("topic", In): _topics,
    ("partition", EqualTo): lambda bounds, value: _partitions(bounds, [value]),
    ("partition", EqualNullSafe): lambda bounds, value: _partitions(bounds, [value]),
    ("partition", In): _partitions,
    ("offset", EqualTo): lambda bounds, value: _offsets(bounds, value, value + 1),
    ("offset", EqualNullSafe): lambda bounds, value: None if value is None else _offsets(bounds, value, value + 1),
    ("offset", In): lambda bounds, values: _offsets(bounds, min(values), max(values) + 1) if values and None not in values else None,
    ("offset", GreaterThan): lambda bounds, value: _offsets(bounds, value + 1),
    ("offset", GreaterThanOrEqual): lambda bounds, value: _offsets(bounds, value),
    ("offset", LessThan): lambda bounds, value: _offsets(bounds, 0, value),
    ("offset", LessThanOrEqual): lambda bounds, value: _offsets(bounds, 0, value + 1),
    ("timestamp", EqualTo): lambda bounds, value: _since(bounds, value, after=False),
    ("timestamp", GreaterThan): lambda bounds, value: _since(bounds, value, after=True),
    ("timestamp", GreaterThanOrEqual): lambda bounds, value: _since(bounds, value, after=False),
}
