"""Where logs begin and end, as their leaders say."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

from levada import KafkaAdmin, KafkaError, OffsetSpec, PartitionInfo, TopicPartition
from levada.cli.lag import LogEnds
from levada.errors import UnknownTopicOrPartitionError

T = TypeVar("T")


def log_ends(admin: KafkaAdmin, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogEnds]:
    """Return the ends of logs, without those of partitions that do not exist any more or have no leader to ask."""
    described = admin.outcomes(admin.describe_topics, sorted({tp.topic for tp in partitions}))
    infos = [info for found in described.values() if (known := _unless_gone(found)) is not None for info in known.partitions]
    wanted = set(partitions)
    return ends_at_leaders(admin, [info for info in infos if TopicPartition(info.topic, info.partition) in wanted])


def ends_at_leaders(admin: KafkaAdmin, infos: Iterable[PartitionInfo]) -> dict[TopicPartition, LogEnds]:
    """Return the ends of logs, without those of partitions that have no leader to ask."""
    led = [TopicPartition(info.topic, info.partition) for info in infos if info.leader >= 0]
    starts, ends = _listed(admin, led, OffsetSpec.EARLIEST), _listed(admin, led, OffsetSpec.LATEST)
    return {tp: LogEnds(starts[tp], ends[tp]) for tp in led if tp in starts and tp in ends}


def _listed(admin: KafkaAdmin, partitions: Iterable[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
    outcomes = admin.outcomes(admin.list_offsets, dict.fromkeys(partitions, spec))
    return {tp: at.offset for tp, found in outcomes.items() if (at := _unless_gone(found)) is not None}


def _unless_gone(found: T | KafkaError) -> T | None:
    """Return what was found, None for what was deleted. Raises any other error."""
    if isinstance(found, UnknownTopicOrPartitionError):
        return None
    if isinstance(found, KafkaError):
        raise found
    return found
