"""Topics and partitions as they are written on a command line: orders, orders:0, orders:0,2."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import typer

from levada.errors import ConfigError
from levada.types import TopicPartition

if TYPE_CHECKING:
    from levada import TopicDescription


def named_partitions(text: str) -> tuple[str, tuple[int, ...] | None]:
    """Read TOPIC, which has None for its partitions, or TOPIC:0,2. Raises typer.BadParameter."""
    topic, colon, indexes = text.partition(":")
    if not colon:
        return topic, None
    if not topic or not all(index.isdecimal() for index in indexes.split(",")):
        raise typer.BadParameter(f"{text!r} is no topic with partitions; write orders, orders:0 or orders:0,2")
    return topic, tuple(int(index) for index in indexes.split(","))


def one_partition(text: str) -> TopicPartition:
    """Read TOPIC:0. Raises typer.BadParameter."""
    topic, indexes = named_partitions(text)
    if indexes is None or len(indexes) != 1:
        raise typer.BadParameter(f"{text!r} is no partition; write orders:0")
    return TopicPartition(topic, indexes[0])


def partitions_of(described: Iterable[TopicDescription]) -> list[TopicPartition]:
    """Return all partitions of topics."""
    return [TopicPartition(info.topic, info.partition) for found in described for info in found.partitions]


def check_partitions(topic: str, wanted: Collection[int], there: Collection[int]) -> None:
    """Raise ConfigError for a wanted partition that the topic does not have."""
    if missing := sorted(set(wanted) - set(there)):
        has = f"{len(there)}, from 0 to {len(there) - 1}" if len(there) > 1 else "partition 0 only"
        raise ConfigError(f"topic '{topic}' has no partition {missing[0]}; it has {has}")
