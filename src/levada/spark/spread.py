"""Which partitions rows without a key go to: runs of neighbouring rows, dealt out so that each partition gets as many rows.

KafkaProducer keeps such records on one partition until `batch.size` bytes went there. In a task `batch.size` is a megabyte, so all rows of
a small micro-batch would be in one partition per task.

A block of rows is cut into one run for each partition. As a task goes on there are fewer runs in a block, and longer ones, so that batches
of a large write fill. A run has at most `batch.size` bytes, and less than a quarter of the rows that each partition has on average, unless
one for each partition is shorter still. It goes where the fewest rows are, so partitions differ by no more than one run.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from itertools import cycle, islice

import pyarrow as pa

RUNS_OF_AVERAGE = 4


class Spread:
    """Deals the rows of one task out to the partitions of one topic. The first one is drawn, as many small tasks begin at once."""

    def __init__(self, batch_size: int, rng: random.Random) -> None:
        self._batch_size = batch_size
        self._first = rng.randrange(2**31)
        self._dealt: dict[int, int] = {}

    def deal(self, rows: int, size: int, partitions: Sequence[int]) -> pa.Array:
        """Return the partition of each of `rows` rows, at least one, which have `size` bytes together."""
        runs = self._runs(rows, size, len(partitions))
        first = self._first % (max(partitions) + 1)
        order = sorted(partitions, key=lambda partition: (self._dealt.get(partition, 0), partition < first, partition))
        chosen = array("i")
        for number, partition in enumerate(islice(cycle(order), runs)):
            count = rows * (number + 1) // runs - rows * number // runs
            chosen.extend(array("i", [partition]) * count)
            self._dealt[partition] = self._dealt.get(partition, 0) + count
        return pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(chosen)])

    def _runs(self, rows: int, size: int, partitions: int) -> int:
        """Return into how many runs to cut a block."""
        dealt = sum(self._dealt.values())
        runs = min(partitions, -(-rows * partitions * RUNS_OF_AVERAGE // dealt)) if dealt else partitions
        return min(max(runs, -(-size // self._batch_size)), rows)
