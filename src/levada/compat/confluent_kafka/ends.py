"""Ends of partitions, for enable.partition.eof."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from levada import KafkaConsumer, TopicPartition


class EndsOfPartitions:
    """Finds partitions that are read to their end: each once, and again when it has grown and is read to its new end."""

    def __init__(self, client: KafkaConsumer[bytes, bytes]) -> None:
        self._client = client
        self._told: dict[TopicPartition, int] = {}

    def reached(self, partitions: Iterable[TopicPartition]) -> Iterator[tuple[TopicPartition, int]]:
        """Yield the partitions whose end is reached, as of their last fetch, with the offset of the end. An end is yielded only once."""
        for tp in partitions:
            if self._client.current_lag(tp) == 0:
                offset = self._client.position(tp)
                if self._told.get(tp) != offset:
                    self._told[tp] = offset
                    yield tp, offset

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the ends of partitions that are now read from another offset, or not at all."""
        for tp in partitions:
            self._told.pop(tp, None)
