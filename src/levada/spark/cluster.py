"""What Spark's driver asks Kafka: which partitions there are, and where they begin and end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from levada.errors import UnknownTopicOrPartitionError
from levada.spark.offsets import Offsets
from levada.types import TopicPartition


class Cluster(Protocol):
    """The driver's view of Kafka; tests have one without a network."""

    def partitions(self, topics: Iterable[str]) -> set[TopicPartition]:
        """Return all partitions of the topics. Raises UnknownTopicOrPartitionError when a topic has none."""
        ...

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the offset of the first record that is still there."""
        ...

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the offset after the last record that can be read."""
        ...

    def close(self) -> None:
        """Let go of the connections."""
        ...


def reading_settings(client: Mapping[str, str]) -> dict[str, str]:
    """Return a consumer's settings: the user's kafka.* options over what suits Spark.

    A query must not create the topic it misspells, and where to go on is decided here, never by the consumer.
    """
    defaults = {"allow.auto.create.topics": "false", "max.partition.fetch.bytes": str(8 << 20)}
    return {**defaults, **client, "auto.offset.reset": "none"}


class KafkaCluster:
    """The cluster, asked through a consumer that is never assigned anything."""

    def __init__(self, client: Mapping[str, str]) -> None:
        from levada import KafkaConsumer  # tasks and writers, which ask nothing, need not load it

        self._consumer = KafkaConsumer(reading_settings(client))

    def partitions(self, topics: Iterable[str]) -> set[TopicPartition]:
        """Return all partitions of the topics."""
        return {tp for topic in topics for tp in self._partitions(topic)}

    def _partitions(self, topic: str) -> set[TopicPartition]:
        try:
            return {TopicPartition(topic, info.partition) for info in self._consumer.partitions_for(topic)}
        except UnknownTopicOrPartitionError as unknown:
            advice = "create it before the query starts, or check the option 'subscribe'"
            raise UnknownTopicOrPartitionError(f"topic '{topic}' does not exist, or may not be seen by this user; {advice}") from unknown

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the offset of the first record that is still there."""
        return dict(self._consumer.beginning_offsets(list(partitions)))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the offset after the last record that can be read."""
        return dict(self._consumer.end_offsets(list(partitions)))

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()
