"""From what a scan was asked for to offsets (scan, and the batches of a Spark source).

`Ranges` is what was asked for, checked; `resolve` finds out the offsets it means, once, before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from levada.clock import epoch_ms
from levada.consumer.reading import Reading
from levada.consumer.subscription_state import OffsetSpec
from levada.errors import ConfigError, DataLossError
from levada.flow import CallerFlow
from levada.types import OffsetAndTimestamp, TopicPartition

Bound: TypeAlias = str | int | datetime
"""An end of a range: "earliest", "latest", an offset, or an aware datetime."""

SPECS = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}


class Range(NamedTuple):
    """Offsets of one partition: from start up to, not including, end."""

    start: int
    end: int


class Ranges(NamedTuple):
    """What a scan was asked for. Either topics with bounds for all their partitions, or partitions with their own."""

    topics: tuple[str, ...]
    start: Bound | Mapping[Any, Bound]
    end: Bound | Mapping[Any, Bound]
    partitions: Mapping[TopicPartition, tuple[Bound, Bound]]

    @classmethod
    def of_topics(cls, topics: Iterable[str], start: Bound | Mapping[Any, Bound], end: Bound | Mapping[Any, Bound]) -> Ranges:
        """Check bounds for all partitions of topics."""
        names = tuple(topics)
        if not names or not all(names):
            raise ConfigError("name at least one topic to scan")
        for name, bound in (("start", start), ("end", end)):
            _check(name, bound, one_topic=len(names) == 1)
        return cls(names, start, end, {})

    @classmethod
    def of_assignments(cls, partitions: Mapping[TopicPartition, tuple[Bound, Bound]]) -> Ranges:
        """Check bounds of named partitions."""
        for tp, (start, end) in partitions.items():
            _check_bound(f"start of {tp}", start)
            _check_bound(f"end of {tp}", end)
        return cls((), "earliest", "latest", {TopicPartition(*tp): bounds for tp, bounds in partitions.items()})

    def of(self, tp: TopicPartition) -> tuple[Bound, Bound]:
        """Return the bounds of one partition."""
        return self.partitions.get(tp) or (_pick(self.start, tp, "earliest"), _pick(self.end, tp, "latest"))


def resolve(wanted: Ranges, reading: Reading, *, skips: bool) -> CallerFlow[Mapping[TopicPartition, Range]]:
    """Ask the brokers for every bound that is not an offset; DataLossError for a start after the end of the log, unless `skips`."""
    bounds = dict(wanted.partitions)
    for topic in wanted.topics:
        for tp in (yield from _partitions(topic, reading)):
            bounds[tp] = wanted.of(tp)
    _check_named(wanted, bounds)
    starts = yield from _offsets({tp: start for tp, (start, _) in bounds.items()}, reading)
    ends = yield from _offsets({tp: end for tp, (_, end) in bounds.items()}, reading)
    for tp, (start, end) in bounds.items():
        if isinstance(start, int) and end == "latest" and starts[tp] > ends[tp] and not skips:
            raise DataLossError(f"{tp}: asked for records from offset {start}, but the log ends at {ends[tp]}; was the topic created anew?")
    return {tp: Range(starts[tp], ends[tp]) for tp in bounds}


def _partitions(topic: str, reading: Reading) -> CallerFlow[list[TopicPartition]]:
    found = yield from reading.run(lambda core, _: core.partitions_for(topic), None, f"partitions of '{topic}'")
    return [TopicPartition(topic, info.partition) for info in found]


def _check_named(wanted: Ranges, bounds: Mapping[TopicPartition, Any]) -> None:
    """A mapping that names a partition which does not exist is a mistake, not a wish for nothing."""
    for mapping in (wanted.start, wanted.end):
        for key in mapping if isinstance(mapping, Mapping) else ():
            tp = TopicPartition(*key) if isinstance(key, tuple) else TopicPartition(wanted.topics[0], key)
            if tp not in bounds:
                raise ConfigError(f"{tp} is not among the partitions of the scan")


def _offsets(bounds: Mapping[TopicPartition, Bound], reading: Reading) -> CallerFlow[dict[TopicPartition, int]]:
    """Turn bounds into offsets; a time after the last record is the end of the log."""
    asked = {tp: SPECS[bound] if isinstance(bound, str) else epoch_ms(bound) for tp, bound in bounds.items() if not isinstance(bound, int)}
    found = yield from _find(asked, reading)
    missing = [tp for tp, at in found.items() if at is None]
    found.update((yield from _find(dict.fromkeys(missing, OffsetSpec.LATEST), reading)))
    offsets = {tp: bound for tp, bound in bounds.items() if isinstance(bound, int)}
    offsets.update({tp: 0 if at is None else at.offset for tp, at in found.items()})
    return offsets


def _find(asked: Mapping[TopicPartition, int], reading: Reading) -> CallerFlow[dict[TopicPartition, OffsetAndTimestamp | None]]:
    wanted = {tp: int(time) for tp, time in asked.items()}
    if not wanted:
        return {}
    return (yield from reading.run(lambda core, now_ms: core.find_offsets(wanted, now_ms), None, "bounds of the scan"))


def _pick(bound: Bound | Mapping[Any, Bound], tp: TopicPartition, default: Bound) -> Bound:
    if isinstance(bound, Mapping):
        return bound.get(tp, bound.get(tp.partition, default))
    return bound


def _check(name: str, bound: Bound | Mapping[Any, Bound], *, one_topic: bool) -> None:
    if not isinstance(bound, Mapping):
        if isinstance(bound, int):
            raise ConfigError(f"{name}={bound!r} is ambiguous; give {{partition: offset}}, or an aware datetime for a time")
        _check_bound(name, bound)
        return
    for key, value in bound.items():
        if isinstance(key, int) and not one_topic:
            raise ConfigError(f"{name}: partition {key} of which topic? Use TopicPartition(topic, {key}) as key")
        _check_bound(f"{name} of {key}", value)


def _check_bound(name: str, bound: Bound) -> None:
    if isinstance(bound, str) and bound in SPECS:
        return
    if isinstance(bound, int) and not isinstance(bound, bool) and bound >= 0:
        return
    if isinstance(bound, datetime):
        epoch_ms(bound)
        return
    raise ConfigError(f"{name} must be 'earliest', 'latest', an offset or an aware datetime; got {bound!r}")
