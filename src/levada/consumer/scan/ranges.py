"""The ranges of a scan, and how they become offsets (for scan(), and for batches of a Spark source).

`Ranges` has the checked arguments. `resolve` looks up their offsets, once, before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from levada.base.flow import CallerFlow
from levada.client.driver_interface import DeferredLog
from levada.consumer.consumer_flows import ConsumerFlows
from levada.consumer.scan.bounds import Bound, Moment, Parsed, is_reversed, moment, parsed_bound
from levada.errors import ConfigError, DataLossError
from levada.types import OffsetAndTimestamp, OffsetSpec, TopicPartition

SPECS = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}
LEAST_WEIGHT = 1e-9


class Range(NamedTuple):
    """The offsets of one partition from `start` to before `end`."""

    start: int
    end: int


class Ranges(NamedTuple):
    """The ranges of a scan: either topics with bounds that apply to all their partitions, or single partitions with their own bounds.

    start, end: one bound for all partitions, or a mapping from the partition to its bound. only: which partitions of the topics to read;
    None for all.
    """

    topics: tuple[str, ...]
    start: Parsed | Mapping[Any, Parsed]
    end: Parsed | Mapping[Any, Parsed]
    partitions: Mapping[TopicPartition, tuple[Parsed, Parsed]]
    only: frozenset[int | TopicPartition] | None = None

    @classmethod
    def of_topics(
        cls,
        topics: Iterable[str],
        start: Bound | Mapping[Any, Bound],
        end: Bound | Mapping[Any, Bound],
        only: Iterable[int | TopicPartition] | None = None,
    ) -> Ranges:
        """Return the ranges of topics. start, end: one bound for all partitions, or a mapping from the partition to its bound.

        A partition is given as a TopicPartition or, with a single topic, as its number. only: the partitions to read; None for all. Raises
        ConfigError for invalid arguments and for a range that ends before it begins, and the errors of parsed_bound().
        """
        names = tuple(topics)
        if not names or not all(names):
            raise ConfigError("name at least one topic to scan")
        one_topic = len(names) == 1
        chosen = None if only is None else frozenset(_partition_key("partitions", key, one_topic=one_topic) for key in only)
        starts, ends = _parsed("start", start, one_topic=one_topic), _parsed("end", end, one_topic=one_topic)
        # Bounds for all partitions are compared once.
        keys = [key for bounds in (starts, ends) if isinstance(bounds, Mapping) for key in bounds] or [None]
        for key in keys:
            of = "" if key is None else f" of {key}"
            _check_order(f"start{of}", f"end{of}", _at(starts, key, "earliest"), _at(ends, key, "latest"))
        return cls(names, starts, ends, {}, chosen)

    @classmethod
    def of_assignments(cls, partitions: Mapping[TopicPartition, tuple[Bound, Bound]]) -> Ranges:
        """Return the ranges for a start and an end bound of each partition. Raises as of_topics() does."""
        read = {
            TopicPartition(*tp): (parsed_bound(f"start of {tp}", start), parsed_bound(f"end of {tp}", end))
            for tp, (start, end) in partitions.items()
        }
        for tp, both in read.items():
            _check_order(f"start of {tp}", f"end of {tp}", *both)
        return cls((), "earliest", "latest", read)

    def of(self, tp: TopicPartition) -> tuple[Parsed, Parsed]:
        """Return the start and end bounds of one partition."""
        return self.partitions.get(tp) or (_pick(self.start, tp, "earliest"), _pick(self.end, tp, "latest"))

    def reads(self, tp: TopicPartition) -> bool:
        """Whether a partition of the topics is to be read."""
        return self.only is None or tp in self.only or tp.partition in self.only


def resolve(
    wanted: Ranges, reading: ConsumerFlows, log: DeferredLog, *, skips: bool, wall_ms: int, not_before_ms: int | None = None
) -> CallerFlow[Mapping[TopicPartition, Range]]:
    """Return the range of each partition, after looking up the bounds that are not offsets.

    A range whose start turns out to be after its end is empty, and a warning is logged. If its start is an offset after the end of the log,
    raises DataLossError instead, unless `skips`. Raises ConfigError if a bound or `only` names a partition that does not exist.

    wall_ms: the time that counts as now. not_before_ms: a partition's range begins at its first record that is not older than this time, or
    later; None for no limit.
    """
    bounds = dict(wanted.partitions)
    for topic in wanted.topics:
        for tp in (yield from _partitions(topic, reading)):
            bounds[tp] = wanted.of(tp)
    _check_named(wanted, bounds)
    bounds = {tp: both for tp, both in bounds.items() if wanted.reads(tp)}
    starts = yield from _offsets({tp: start for tp, (start, _) in bounds.items()}, reading, wall_ms)
    ends = yield from _offsets({tp: end for tp, (_, end) in bounds.items()}, reading, wall_ms)
    for tp in [tp for tp in bounds if starts[tp] > ends[tp]]:
        if isinstance(bounds[tp][0], int) and not skips:
            yield from _check_not_behind(tp, starts[tp], reading)
        log.warning("%s: nothing is read, as the range begins at offset %d and ends at %d", tp, starts[tp], ends[tp], tp=tp)
    if not_before_ms is not None:
        young = yield from _offsets(dict.fromkeys(bounds, Moment(not_before_ms)), reading, wall_ms)
        starts = {tp: max(start, young[tp]) for tp, start in starts.items()}
    return {tp: Range(starts[tp], ends[tp]) for tp in bounds}


def _check_not_behind(tp: TopicPartition, start: int, reading: ConsumerFlows) -> CallerFlow[None]:
    """Raise DataLossError if the log of a partition ends before the start offset."""
    end = (yield from _offsets({tp: "latest"}, reading, 0))[tp]
    if start > end:
        raise DataLossError(f"{tp}: asked for records from offset {start}, but the log ends at {end}; was the topic created anew?")


def _partitions(topic: str, reading: ConsumerFlows) -> CallerFlow[list[TopicPartition]]:
    found = yield from reading.run(lambda core, _: core.partitions_for(topic), None, f"partitions of '{topic}'")
    return [TopicPartition(topic, info.partition) for info in found]


def _check_named(wanted: Ranges, bounds: Mapping[TopicPartition, Any]) -> None:
    """Raise ConfigError if a bound or `only` names a partition that does not exist."""
    for named in (wanted.start, wanted.end, wanted.only):
        for key in named if isinstance(named, Mapping | frozenset) else ():
            tp = TopicPartition(*key) if isinstance(key, tuple) else TopicPartition(wanted.topics[0], key)
            if tp not in bounds:
                raise ConfigError(f"{tp} is not among the partitions of the scan")


def _offsets(bounds: Mapping[TopicPartition, Parsed], reading: ConsumerFlows, wall_ms: int) -> CallerFlow[dict[TopicPartition, int]]:
    """Return the offset of each bound. A time after the last record becomes the end offset of the log.

    wall_ms: the present time in ms since the epoch.
    """
    asked = {
        tp: int(SPECS[bound]) if isinstance(bound, str) else moment(bound, wall_ms).ms
        for tp, bound in bounds.items()
        if not isinstance(bound, int)
    }
    found = yield from _find(asked, reading)
    missing = [tp for tp, at in found.items() if at is None]
    found.update((yield from _find(dict.fromkeys(missing, int(OffsetSpec.LATEST)), reading)))
    offsets = {tp: bound for tp, bound in bounds.items() if isinstance(bound, int)}
    offsets.update({tp: 0 if at is None else at.offset for tp, at in found.items()})
    return offsets


def _find(wanted: Mapping[TopicPartition, int], reading: ConsumerFlows) -> CallerFlow[dict[TopicPartition, OffsetAndTimestamp | None]]:
    if not wanted:
        return {}
    return (yield from reading.run(lambda core, now_ms: core.find_offsets(wanted, now_ms), None, "bounds of the scan"))


def _pick(bound: Parsed | Mapping[Any, Parsed], tp: TopicPartition, default: Parsed) -> Parsed:
    if isinstance(bound, Mapping):
        return bound.get(tp, bound.get(tp.partition, default))
    return bound


def _at(bounds: Parsed | Mapping[Any, Parsed], key: Any, default: Parsed) -> Parsed:
    """Return the bound of a key; `default` if the mapping does not have it. If there is no mapping, one bound applies to all keys."""
    return bounds.get(key, default) if isinstance(bounds, Mapping) else bounds


def _check_order(start_name: str, end_name: str, start: Parsed, end: Parsed) -> None:
    if is_reversed(start, end):
        raise ConfigError(f"{end_name} is before {start_name}, so there is nothing to read")


def _parsed(name: str, bound: Bound | Mapping[Any, Bound], *, one_topic: bool) -> Parsed | Mapping[Any, Parsed]:
    if isinstance(bound, Mapping):
        return {_partition_key(name, key, one_topic=one_topic): parsed_bound(f"{name} of {key}", value) for key, value in bound.items()}
    if isinstance(bound, int):
        raise ConfigError(f"{name}={bound!r} is ambiguous; give {{partition: offset}}, or an aware datetime for a time")
    return parsed_bound(name, bound)


def _partition_key(name: str, key: Any, *, one_topic: bool) -> int | TopicPartition:
    if isinstance(key, int) and not one_topic:
        raise ConfigError(f"{name}: partition {key} of which topic? Use TopicPartition(topic, {key})")
    if isinstance(key, int):
        return key
    if isinstance(key, tuple) and len(key) == 2:
        return TopicPartition(*key)
    raise ConfigError(f"{name}: a partition is a number or a TopicPartition, got {key!r}")


def split_ranges(
    ranges: Mapping[TopicPartition, Range], weights: Mapping[TopicPartition, float], limit: float
) -> list[dict[TopicPartition, Range]]:
    """Split ranges into parts with a weight of at most `limit`, in order. A part has one partition, or several small ones.

    weights: the weight of one offset, for each partition. A single offset is never split, however heavy it is.
    """
    parts: list[dict[TopicPartition, Range]] = []
    room = 0.0
    for tp, (start, end) in ranges.items():
        weight = max(weights[tp], LEAST_WEIGHT)
        while start < end:
            fits = int(room / weight)
            if not parts or fits < min(end - start, max(int(limit / weight), 1)):
                parts.append({})
                room = limit
                fits = max(int(limit / weight), 1)
            stop = min(start + fits, end)
            parts[-1][tp] = Range(start, stop)
            room -= (stop - start) * weight
            start = stop
    return parts
