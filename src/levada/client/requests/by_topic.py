"""Partitions as most requests name them: by their topic."""

from __future__ import annotations

from collections.abc import Iterable

from levada.types import TopicPartition


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Group partitions by their topic, both in the order given."""
    topics: dict[str, list[TopicPartition]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp)
    return topics
