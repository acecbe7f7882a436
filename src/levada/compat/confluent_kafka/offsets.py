"""Offsets of a consumer: those up to which it has returned messages, stored and committed; and the ends of partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from levada import KafkaConsumer, OffsetAndMetadata, TopicPartition

Offsets = dict[TopicPartition, OffsetAndMetadata]


class OffsetStore:
    """Positions, stored offsets and committed offsets by partition. A commit without arguments commits the stored offsets.

    position: after the last message that the program got.
    """

    def __init__(self) -> None:
        self.position: Offsets = {}
        self._stored: Offsets = {}
        self._committed: Offsets = {}

    def store(self, offsets: Offsets) -> None:
        """Store offsets for the next commit."""
        self._stored |= offsets

    def due(self, partitions: Collection[TopicPartition] | None = None) -> Offsets:
        """Return the stored offsets that are higher than the last committed ones. partitions: None for all."""
        return {
            tp: at
            for tp, at in self._stored.items()
            if (partitions is None or tp in partitions) and (tp not in self._committed or at.offset > self._committed[tp].offset)
        }

    def committed(self, offsets: Offsets) -> None:
        """Note that offsets were committed."""
        self._committed |= offsets

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that are not assigned any more, or are assigned again."""
        for tp in partitions:
            for offsets in (self.position, self._stored, self._committed):
                offsets.pop(tp, None)

    def forget_position(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the positions of partitions that are now read from another offset.

        As in librdkafka, offsets that were stored before are committed all the same, and offsets before the last commit are not.
        """
        for tp in partitions:
            self.position.pop(tp, None)


class EndsOfPartitions:
    """Finds partitions that are read to their end: each once, and again when it has grown and is read to its new end.

    For enable.partition.eof.
    """

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
