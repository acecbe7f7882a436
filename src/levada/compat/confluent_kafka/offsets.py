"""The offsets up to which a consumer has returned messages, stored and committed. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from levada import OffsetAndMetadata, TopicPartition

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
