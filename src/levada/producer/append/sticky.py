# cython: annotation_typing=False
"""The sticky partition of records without a key (KIP-480, KIP-794).

Such records go to one partition until it has about `batch.size` bytes of them, so that batches get full, and then to the next one. With
adaptive partitioning, partitions with shorter queues are more likely to be chosen.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate


class StickyPartition:
    """The current partition of records without a key, for one topic."""

    __slots__ = ("_random", "current", "limit", "produced")

    def __init__(self, rng: random.Random, limit: int) -> None:
        self._random = rng
        self.limit = limit
        self.current = -1
        self.produced = 0

    @property
    def is_due(self) -> bool:
        """Whether to choose the next partition. Called only without an open batch, so that batches are not closed early."""
        return self.current < 0 or self.produced >= self.limit

    def took(self, size: int, full: bool) -> None:
        """Count a closed batch. A full one counts as the whole limit: it ends one record before it."""
        self.produced += max(size, self.limit) if full else size

    def move(self, candidates: Sequence[int], queue_lengths: Sequence[int] | None = None) -> int:
        """Choose the next partition: at random, or weighted by the queue lengths of the candidates, if given."""
        self.produced = 0
        self.current = candidates[self._draw(len(candidates), queue_lengths)]
        return self.current

    def _draw(self, count: int, queue_lengths: Sequence[int] | None) -> int:
        if queue_lengths is None or max(queue_lengths) == min(queue_lengths):
            return self._random.randrange(count)
        longest = max(queue_lengths)
        table = list(accumulate(longest + 1 - length for length in queue_lengths))
        return bisect_right(table, self._random.randrange(table[-1]))
