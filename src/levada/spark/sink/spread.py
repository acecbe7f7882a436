"""Which partitions rows without a key go to: runs of neighbouring rows, dealt out so that each partition gets as many rows.

KafkaProducer keeps such records on one partition until `batch.size` bytes went there. In a task `batch.size` is a megabyte, so all rows of
a small micro-batch would be in one partition per task, and each task would begin at one drawn anew.

The rows of a small task stay together: more than one partition would only mean smaller record batches and more requests. The task of the
same number in the next micro-batch takes the next partition, so small micro-batches use all partitions alike. What decides it is known
before the first row, and the same when a task is tried again or a micro-batch is repeated.

A block of rows is cut into one run for each partition, or into fewer that have LEAST_RUN bytes each. As a task goes on there are fewer runs
in a block, and longer ones, so that batches of a large write fill. A run has at most `batch.size` bytes, and less than a quarter of the
rows that each partition has on average, unless one for each partition is shorter still. It goes where the fewest rows are, so partitions
differ by no more than one run.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence
from itertools import cycle, islice
from typing import NamedTuple

import pyarrow as pa
from pyspark import TaskContext

RUNS_OF_AVERAGE = 4
LEAST_RUN = 16 << 10
"""Bytes that are worth a record batch: what Kafka's own producer collects for a partition by default."""


class Turn(NamedTuple):
    """Which task deals: its number in a micro-batch, and that one's number. seed: of all tasks of a query or of a batch write."""

    seed: int
    batch: int
    task: int

    def first(self, partitions: int) -> int:
        """Return which of so many partitions is the first.

        Tasks of a micro-batch have neighbours, and so have micro-batches. Every so many of these one is repeated: a query whose rows come
        in each second micro-batch only, as with a watermark, would otherwise leave out half of the partitions.
        """
        return (self.seed + self.task + self.batch - self.batch // partitions) % partitions


def turn_of_task(write: str, number: int | None = None) -> Turn:
    """Return the turn of the task under way. write, number: what stands for query and micro-batch where Spark tells neither."""
    context = TaskContext.get()
    if context is None:
        return Turn(zlib.crc32(write.encode()), number or 0, 0)
    query, batch = context.getLocalProperty("sql.streaming.queryId"), context.getLocalProperty("streaming.sql.batchId")
    if number is None and query and batch:
        write, number = query, int(batch)
    return Turn(zlib.crc32(write.encode()), number or 0, context.partitionId())


class Spread:
    """Deals the rows of one task out to the partitions of one topic."""

    def __init__(self, batch_size: int, turn: Turn) -> None:
        self._batch_size = batch_size
        self._turn = turn
        self._dealt: dict[int, int] = {}

    def deal(self, rows: int, size: int, partitions: Sequence[int]) -> pa.Array:
        """Return the partition of each of `rows` rows, at least one, which have `size` bytes together."""
        runs = self._runs(rows, size, len(partitions))
        first = sorted(partitions)[self._turn.first(len(partitions))]
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
        worthwhile = max(size // LEAST_RUN, 1)
        return min(max(min(runs, worthwhile), -(-size // self._batch_size)), rows)
