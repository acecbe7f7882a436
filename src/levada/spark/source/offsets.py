"""Offsets as Spark keeps them.

An offset of a stream is `{"topic": {"0": 123}}`: the next offset to read, per partition. It is what Spark's own connector writes into a
checkpoint, so that a query may change from one to the other.

Batch 0 is special. Spark asks for the initial offset more than once, does not store it, and asks again when it replays an unfinished batch
0 after a crash. With `startingOffsets=latest` the second answer is later than the first, and the records between the two are lost silently.
Therefore the end of batch 0, which Spark does store, carries the start along under the key `$start`, and a replay takes it from there. The
character `$` is not legal in a topic name.

The end of a later batch carries a start where that is not the end of the batch before: after a loss that is skipped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from levada.types import TopicPartition

Offsets: TypeAlias = dict[TopicPartition, int]
StreamOffset: TypeAlias = dict[str, Any]
"""The JSON form, as Spark passes it."""

START = "$start"


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
    """Return the end of a batch, carrying its start."""
    return {**end, START: start}


def start_of(start: StreamOffset, end: StreamOffset) -> StreamOffset:
    """Return where the batch between two offsets begins: what its end carries, else what Spark says."""
    carried: StreamOffset = end.get(START, start)
    return carried
