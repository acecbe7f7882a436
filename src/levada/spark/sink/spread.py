"""Chooses partitions for rows without a key, or with partitioner.ignore.keys for all rows. Runs of adjacent rows go to the partitions in
turn, so that all get about the same number of rows.

KafkaProducer keeps such records on one partition until `batch.size` bytes went there. In a task `batch.size` is a megabyte. So all rows of
a small task would go to one partition, and that partition would be random for each task.

The rows of a small task stay together: more partitions would only mean smaller record batches and more requests. The task with the same
number in the next micro-batch uses the next partition, so small micro-batches use all partitions equally. The choice depends on values
that are known before the first row, and that stay the same when a task is retried or a micro-batch is repeated.

A block of rows is cut into one run for each partition, or into fewer runs of at least LEAST_RUN bytes. The more rows a task has sent, the
fewer and longer are the runs, so that a large write fills its record batches. A run has at most `batch.size` bytes, and at most about a
quarter of the rows that a partition has on average, unless one run for each partition is shorter still. A run goes to the partition with
the fewest rows, so partitions differ by at most one run.
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
"""The least bytes of a run, if a block has more than one and batch.size is not smaller. This is Java's default batch.size."""


class Turn(NamedTuple):
    """Determines the partition at which a task begins.

    seed: the same for all tasks of a query or batch write. batch: the number of the micro-batch. task: the number of the task.
    """

    seed: int
    batch: int
    task: int

    def first(self, partitions: int) -> int:
        """Return the index of the partition that gets the task's first run. partitions: their number.

        Consecutive tasks and consecutive micro-batches begin at consecutive partitions. After `partitions` micro-batches one partition is
        repeated. Otherwise a query with rows only in every second micro-batch, for example with a watermark, would leave out half of the
        partitions.
        """
        return (self.seed + self.task + self.batch - self.batch // partitions) % partitions


def turn_of_task(write: str, number: int | None = None) -> Turn:
    """Return the turn of the current task.

    write: the id of the write. number: the number of the micro-batch. If number is None, the query id and the micro-batch number that Spark
    gives a streaming query's task replace both; without these the number is 0.
    """
    context = TaskContext.get()
    if context is None:
        return Turn(zlib.crc32(write.encode()), number or 0, 0)
    query, batch = context.getLocalProperty("sql.streaming.queryId"), context.getLocalProperty("streaming.sql.batchId")
    if number is None and query and batch:
        write, number = query, int(batch)
    return Turn(zlib.crc32(write.encode()), number or 0, context.partitionId())


class Spread:
    """Spreads the rows of one task over the partitions of one topic."""

    def __init__(self, batch_size: int, turn: Turn) -> None:
        self._batch_size = batch_size
        self._turn = turn
        self._dealt: dict[int, int] = {}

    def deal(self, rows: int, size: int, partitions: Sequence[int]) -> pa.Array:
        """Return a partition for each row of the next block. rows: their number, at least one. size: their bytes together."""
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
        """Return the number of runs into which a block of rows is cut."""
        dealt = sum(self._dealt.values())
        runs = min(partitions, -(-rows * partitions * RUNS_OF_AVERAGE // dealt)) if dealt else partitions
        worthwhile = max(size // LEAST_RUN, 1)
        return min(max(min(runs, worthwhile), -(-size // self._batch_size)), rows)
