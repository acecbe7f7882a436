"""The start and the end of a query, as its options give them: earliest or latest, offsets, times, or a group's committed offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from levada.errors import ConfigError
from levada.spark.options.option_text import MOST_LONG, MOST_PARTITION, decimal, parse_json, shown
from levada.spark.source.cluster import Cluster
from levada.spark.source.offsets import Offsets, from_json
from levada.types import TopicPartition

LATEST = -1
EARLIEST = -2


class AtTime(NamedTuple):
    """The first record at or after a time. times: milliseconds since the epoch, for all partitions or for each.

    or_latest: use the end of the log if a partition has no such record. Without or_latest this is an error.
    """

    times: int | Offsets
    or_latest: bool


class OfGroup(NamedTuple):
    """The committed offsets of a consumer group. A partition without a committed offset is read from its beginning."""

    group_id: str


Bound: TypeAlias = int | Offsets | AtTime | OfGroup
"""LATEST or EARLIEST for all partitions; an offset, LATEST or EARLIEST for each partition; times; or a group's offsets."""

_FORM = 'give "earliest", "latest" or JSON such as {"topic": {"0": 23, "1": -2}} (-2 earliest, -1 latest)'
_TIMES_FORM = 'give JSON such as {"topic": {"0": 1700000000000}}, in milliseconds since the epoch'


def parse_offsets(text: str, option: str) -> int | Offsets:
    """Read earliest, latest or JSON, for options such as startingOffsets. Raises a ConfigError that names the option."""
    word = text.strip().lower()
    if word in ("latest", "earliest"):
        return LATEST if word == "latest" else EARLIEST
    return _parse(text, option, EARLIEST, _FORM)


def parse_times(text: str, option: str) -> Offsets:
    """Read a time for each partition, for options such as startingOffsetsByTimestamp. Raises a ConfigError that names the option."""
    return _parse(text, option, 0, _TIMES_FORM)


def parse_time(text: str, option: str) -> int:
    """Read one time, for options such as startingTimestamp, in ms since the epoch. Raises a ConfigError that names the option."""
    time = decimal(text.strip())
    if time is None:
        raise ConfigError(f"option '{option}': expected milliseconds since the epoch, got {shown(text)}")
    return time


def _parse(text: str, option: str, least: int, form: str) -> Offsets:
    data = parse_json(text, option, form)
    try:
        found = from_json(data)
    except (ValueError, TypeError, AttributeError):
        found = {}
    are_in_range = all(0 <= tp.partition <= MOST_PARTITION and least <= number <= MOST_LONG for tp, number in found.items())
    # The keys "1" and "01" name the same partition; one of their offsets would be lost.
    if not found or not are_in_range or len(found) < sum(map(len, data.values())):
        raise ConfigError(f"option '{option}': cannot use {shown(text)}; {form}")
    return found


def moves_with_time(bound: Bound) -> bool:
    """Whether the bound may resolve to other offsets at a later time, even if no record was deleted. True for "latest", for example."""
    if isinstance(bound, AtTime):
        return bound.or_latest
    if isinstance(bound, OfGroup):
        return True
    return bound == LATEST or (isinstance(bound, dict) and LATEST in bound.values())


def resolve(bound: Bound, partitions: Iterable[TopicPartition], cluster: Cluster, option: str) -> Offsets:
    """Return the offset that a bound means, by partition. Sends only the requests that the bound needs.

    Raises ConfigError if the JSON does not name exactly these partitions, or if a partition has no record at or after the time and the
    bound has no or_latest.
    """
    asked = sorted(set(partitions))
    if isinstance(bound, AtTime):
        return _resolve_times(bound, asked, cluster, option)
    if isinstance(bound, OfGroup):
        return _resolve_committed(bound, asked, cluster)
    if isinstance(bound, int):
        return cluster.earliest(asked) if bound == EARLIEST else cluster.latest(asked)
    _check_named(bound, asked, option)
    found = {tp: bound[tp] for tp in asked}
    for spec, look_up in ((EARLIEST, cluster.earliest), (LATEST, cluster.latest)):
        found.update(_looked_up(look_up, [tp for tp in asked if bound[tp] == spec]))
    return found


def _looked_up(look_up: Callable[[Iterable[TopicPartition]], Offsets], partitions: list[TopicPartition]) -> Offsets:
    return look_up(partitions) if partitions else {}


def _resolve_times(bound: AtTime, asked: list[TopicPartition], cluster: Cluster, option: str) -> Offsets:
    if isinstance(bound.times, int):
        times = dict.fromkeys(asked, bound.times)
    else:
        _check_named(bound.times, asked, option)
        times = bound.times
    found = cluster.at_times(times)
    missing = [tp for tp in asked if found[tp] is None]
    if missing and not bound.or_latest:
        raise ConfigError(
            f"option '{option}': {missing[0]} has no record from {times[missing[0]]} ms on; choose an earlier time, or set "
            "startingOffsetsByTimestampStrategy to latest"
        )
    ends = _looked_up(cluster.latest, missing)
    return {tp: ends[tp] if (offset := found[tp]) is None else offset for tp in asked}


def _resolve_committed(bound: OfGroup, asked: list[TopicPartition], cluster: Cluster) -> Offsets:
    committed = cluster.committed(bound.group_id, asked)
    return {**_looked_up(cluster.earliest, [tp for tp in asked if tp not in committed]), **committed}


def _check_named(given: Mapping[TopicPartition, int], asked: list[TopicPartition], option: str) -> None:
    if missing := set(asked) - given.keys():
        raise ConfigError(f"option '{option}' must name every partition that is read; missing: {_names(missing)}")
    if surplus := given.keys() - set(asked):
        raise ConfigError(f"option '{option}' names partitions that are not read: {_names(surplus)}")


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(tp) for tp in sorted(partitions))
