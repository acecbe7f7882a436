# cython: annotation_typing=False
"""The partition that keyless records stick to (KIP-480, KIP-794).

They stay on one partition until about `batch.size` bytes went there, so that batches fill, and move on to the next. With adaptive
partitioning the next one is drawn with more weight the shorter its queue is.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate


class StickyPartition:
    """The partition that keyless records of one topic go to at the moment."""

    __slots__ = ("_random", "current", "limit", "produced")

    def __init__(self, rng: random.Random, limit: int) -> None:
        self._random = rng
        self.limit = limit
        self.current = -1
        self.produced = 0

    @property
    def is_due(self) -> bool:
        """Whether to move on; asked only when the partition has no open batch, so that batches are not cut short."""
        return self.current < 0 or self.produced >= self.limit

    def took(self, size: int, full: bool) -> None:
        """Count a batch that was closed here. A full one counts as all of the limit: it ends one record short of it."""
        self.produced += max(size, self.limit) if full else size

    def move(self, candidates: Sequence[int], queue_lengths: Sequence[int] | None = None) -> int:
        """Choose the next partition: uniformly, or by queue lengths of the candidates when they are given."""
        self.produced = 0
        self.current = candidates[self._draw(len(candidates), queue_lengths)]
        return self.current

    def _draw(self, count: int, queue_lengths: Sequence[int] | None) -> int:
        if queue_lengths is None or max(queue_lengths) == min(queue_lengths):
            return self._random.randrange(count)
        longest = max(queue_lengths)
        table = list(accumulate(longest + 1 - length for length in queue_lengths))
        return bisect_right(table, self._random.randrange(table[-1]))
