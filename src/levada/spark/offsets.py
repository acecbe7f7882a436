"""Offsets as Spark keeps them, and the arithmetic of a micro-batch; no Spark and no network in here.

An offset of a stream is `{"topic": {"0": 123}}`: the next offset to read, per partition. It is what Spark's own connector writes into a
checkpoint, so that a query may change from one to the other.

Batch 0 is special. Spark asks for the initial offset more than once, does not store it, and asks again when it replays an unfinished batch
0 after a crash. With `startingOffsets=latest` the second answer is later than the first, and the records between the two are lost silently.
Therefore the end of batch 0, which Spark does store, carries the start along under the key `$start`, and a replay takes it from there. The
character `$` is not legal in a topic name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from levada.errors import ConfigError, DataLossError
from levada.types import TopicPartition

LATEST = -1
EARLIEST = -2

Offsets: TypeAlias = dict[TopicPartition, int]
Starts: TypeAlias = int | Offsets
"""LATEST, EARLIEST, or an offset (or one of the two) for each partition."""
StreamOffset: TypeAlias = dict[str, Any]
"""The JSON form, as Spark passes it."""

START = "$start"
_FORM = 'give "earliest", "latest" or JSON such as {"topic": {"0": 23, "1": -2}} (-2 earliest, -1 latest)'


def parse_offsets(text: str, option: str) -> Starts:
    """Read earliest, latest or JSON, as in startingOffsets. Raises ConfigError that names the option."""
    word = text.strip().lower()
    if word in ("latest", "earliest"):
        return LATEST if word == "latest" else EARLIEST
    try:
        data = json.loads(text)
        offsets = from_json(data)
    except (ValueError, TypeError, AttributeError):
        raise ConfigError(f"option '{option}': cannot use {text!r}; {_FORM}") from None
    if not offsets or min(offsets.values()) < EARLIEST:
        raise ConfigError(f"option '{option}': cannot use {text!r}; {_FORM}")
    return offsets


def from_json(offset: Mapping[str, Any]) -> Offsets:
    """Read the JSON form; a `$start` in it is left out. Raises ValueError, TypeError or AttributeError when it is something else."""
    found: Offsets = {}
    for topic, partitions in offset.items():
        if topic == START:
            continue
        for number, position in partitions.items():
            if type(position) is not int:
                raise ValueError(f"{position!r} is not an offset")
            found[TopicPartition(topic, int(number))] = position
    return found


def to_json(offsets: Mapping[TopicPartition, int]) -> StreamOffset:
    """Write the JSON form, sorted, so that equal offsets are equal text."""
    found: StreamOffset = {}
    for tp in sorted(offsets):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return found


def with_start(end: StreamOffset, start: StreamOffset) -> StreamOffset:
    """Return the end of batch 0, carrying its start."""
    return {**end, START: start}


def start_of(start: StreamOffset, end: StreamOffset) -> StreamOffset:
    """Return where the batch between two offsets begins: what its end carries, else what Spark says."""
    carried: StreamOffset = end.get(START, start)
    return carried


def resolve(wanted: Starts, partitions: Iterable[TopicPartition], earliest: Offsets, latest: Offsets, option: str) -> Offsets:
    """Turn earliest, latest, -2 and -1 into offsets. JSON must name exactly the partitions read; ConfigError otherwise."""
    asked = set(partitions)
    if isinstance(wanted, int):
        return {tp: _resolve_one(wanted, tp, earliest, latest) for tp in sorted(asked)}
    if missing := asked - wanted.keys():
        raise ConfigError(f"option '{option}' must name every partition that is read; missing: {_names(missing)}")
    if surplus := wanted.keys() - asked:
        raise ConfigError(f"option '{option}' names partitions that are not read: {_names(surplus)}")
    return {tp: _resolve_one(wanted[tp], tp, earliest, latest) for tp in sorted(asked)}


def _resolve_one(wanted: int, tp: TopicPartition, earliest: Offsets, latest: Offsets) -> int:
    if wanted == EARLIEST:
        return earliest[tp]
    return latest[tp] if wanted == LATEST else wanted


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(tp) for tp in sorted(partitions))


def limit_rows(start: Offsets, end: Offsets, most: int) -> Offsets:
    """Shorten the way from start to end to about `most` offsets, in proportion to each partition's backlog.

    A share below one is rounded up, so that a small partition is not starved beside a large one; other shares are rounded down. The total
    can therefore miss `most` by less than the number of partitions, as in Spark's own connector.
    """
    backlog = {tp: end[tp] - start[tp] for tp in end if end[tp] > start[tp]}
    total = sum(backlog.values())
    if total <= most:
        return dict(end)
    return {tp: start[tp] + max(1, most * backlog[tp] // total) if tp in backlog else end[tp] for tp in end}


def never_back(start: Offsets, end: Offsets) -> Offsets:
    """Return `end`, but nowhere before `start`. Spark would write a smaller offset into its checkpoint and read records twice."""
    return {tp: max(position, start.get(tp, position)) for tp, position in end.items()}


def lost_partitions(start: Offsets, end: Offsets) -> list[str]:
    """Return the signs of lost data in a step from one stream offset to the next, in whole sentences."""
    gone = [f"{tp} was read up to offset {start[tp]} and does not exist any more" for tp in sorted(start.keys() - end.keys())]
    back = [
        f"{tp} ends at offset {end[tp]}, but was read up to {start[tp]}: the topic was probably deleted and created again"
        for tp in sorted(start.keys() & end.keys())
        if end[tp] < start[tp]
    ]
    return gone + back


def lost_beginnings(earliest_of_new: Offsets) -> list[str]:
    """Return which partitions, first seen now, have already lost records that the query never saw."""
    return [
        f"{tp} is new to this query, but begins at offset {offset}: the records before are gone already"
        for tp, offset in sorted(earliest_of_new.items())
        if offset != 0
    ]


def data_loss(findings: Iterable[str]) -> DataLossError:
    """Return the error for records that the query will never see."""
    what = "; ".join(findings)
    return DataLossError(
        f"{what}. Records may have been lost. Set the option failOnDataLoss to false to go on without them, or start with a new checkpoint"
    )
