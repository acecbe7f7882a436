"""A listener that notes what it hears."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from levada.groups import RebalanceListener
from levada.types import TopicPartition


class Told(RebalanceListener):
    """heard: what, and the numbers of the partitions. does: what a test wants done then, by "assigned", "revoked" and "lost"."""

    def __init__(self, **does: Callable[[list[TopicPartition]], Any]) -> None:
        self.heard: list[tuple[str, list[int]]] = []
        self.does = does

    def note(self, what: str, partitions: list[TopicPartition]) -> None:
        self.heard.append((what, [tp.partition for tp in partitions]))
        if what in self.does:
            self.does[what](partitions)

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.note("assigned", partitions)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.note("revoked", partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.note("lost", partitions)
