"""Offsets in the form in which Spark stores them.

An offset of a stream is `{"topic": {"0": 123}}`: the next offset to read, by partition. Spark's own connector writes the same form into a
checkpoint, so a query may change from one connector to the other.

Batch 0 is special. Spark asks for the initial offset more than once, does not store it, and asks again when it replays an unfinished batch
0 after a crash. With `startingOffsets=latest` the second answer is later than the first, and the records between would be lost silently.
Therefore the end of batch 0, which Spark does store, also contains the start under the key `$start`, and a replay uses it. The character
`$` is not legal in a topic name.

The end of a later batch contains a start if the batch does not begin at the end of the previous batch: after a loss that is skipped, or
with new partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from levada.types import TopicPartition

Offsets: TypeAlias = dict[TopicPartition, int]
StreamOffset: TypeAlias = dict[str, Any]
"""The JSON form, as Spark passes it."""

START = "$start"


def from_json(offset: Mapping[str, Any]) -> Offsets:
    """Read the JSON form, without `$start`. Raises ValueError, TypeError or AttributeError if the JSON has another form."""
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
    """Return the end of a batch with the batch's start under the key `$start`."""
    return {**end, START: start}


def start_of(start: StreamOffset, end: StreamOffset) -> StreamOffset:
    """Return the start of a batch: the start stored in `end` by with_start(), or `start` if `end` has none.

    start, end: the offsets that Spark passed for the batch.
    """
    carried: StreamOffset = end.get(START, start)
    return carried
