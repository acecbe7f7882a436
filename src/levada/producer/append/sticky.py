# cython: annotation_typing=False
"""The sticky partition of records without a key (KIP-480, KIP-794).

These records are sent to one partition until it has about `batch.size` bytes of them, so that batches get full. Then another partition is
chosen. With partitioner.adaptive.partitioning.enable, partitions with fewer queued batches are more likely to be chosen.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate


class StickyPartition:
    """The current partition for records without a key, of one topic.

    current: -1 while none is chosen. limit, produced: bytes; the next partition is chosen when `produced` reaches `limit`.
    """

    __slots__ = ("_random", "current", "limit", "produced")

    def __init__(self, rng: random.Random, limit: int) -> None:
        self._random = rng
        self.limit = limit
        self.current = -1
        self.produced = 0

    @property
    def is_due(self) -> bool:
        """Whether to choose the next partition. The caller checks that this partition has no open batch, so that batches get full."""
        return self.current < 0 or self.produced >= self.limit

    def took(self, size: int, full: bool) -> None:
        """Count a closed batch of `size` bytes. A full batch counts as at least `limit`, because it may end one record below the limit."""
        self.produced += max(size, self.limit) if full else size

    def move(self, candidates: Sequence[int], queue_lengths: Sequence[int] | None = None) -> int:
        """Choose the next partition at random and return it.

        queue_lengths: queued batches of each candidate, in the same order; a shorter queue is more likely. None: all are equally likely.
        """
        self.produced = 0
        self.current = candidates[self._draw(len(candidates), queue_lengths)]
        return self.current

    def _draw(self, count: int, queue_lengths: Sequence[int] | None) -> int:
        if queue_lengths is None or max(queue_lengths) == min(queue_lengths):
            return self._random.randrange(count)
        longest = max(queue_lengths)
        table = list(accumulate(longest + 1 - length for length in queue_lengths))
        return bisect_right(table, self._random.randrange(table[-1]))
