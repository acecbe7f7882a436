"""What a task of the exactly-once sink does: rows become sealed record batches in its commit message, and nothing is written to Kafka.

So a task may be tried again, killed, or run twice at the same time, and nothing has to be undone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from levada.errors import IllegalStateError
from levada.spark.exactly_once.ledger import NO_ROWS, BatchId, Rows
from levada.spark.exactly_once.settings import ExactlyOnce

if TYPE_CHECKING:
    from levada import KafkaProducer, SealedBatch

SEALED_TOGETHER = 4 << 20
"""Bytes of rows that become record batches at once: fewer would make small batches, more would only hold memory."""


@dataclass(frozen=True)
class SealedRows(WriterCommitMessage):
    """What a task tells the driver. batch: None for a write that no streaming query makes. batches: nothing of them is in Kafka yet."""

    batch: BatchId | None
    rows: Rows
    batches: tuple[SealedBatch, ...]


def batch_of_task(settings: ExactlyOnce, run_id: str, *, streaming: bool) -> BatchId | None:
    """Return the micro-batch that the task under way belongs to, None for a batch write that is part of no streaming query.

    run_id: stands for the run of a write whose number the program gives. Raises IllegalStateError for a stream whose batch is not known.
    """
    if settings.batch_number is not None:
        return BatchId("", run_id, settings.batch_number)
    context = TaskContext.get()
    told = [context and context.getLocalProperty(name) for name in ("sql.streaming.queryId", "spark.jobGroup.id", "streaming.sql.batchId")]
    query_id, run_of_query, number = told
    if query_id and run_of_query and number:
        if not _is_uuid(run_of_query):
            raise IllegalStateError(
                f"delivery=exactly-once needs the id of the query's run, and the job group is {run_of_query!r} instead: setJobGroup() "
                "within foreachBatch has replaced it. Call that after the write, or give exactlyOnce.id and exactlyOnce.batchId. Nothing "
                "was written"
            )
        return BatchId(query_id, run_of_query, int(number))
    if streaming:
        raise IllegalStateError("delivery=exactly-once: Spark has not told this task which micro-batch it writes; nothing was written")
    if settings.sink_id is not None:
        raise IllegalStateError(
            "option 'exactlyOnce.id' needs 'exactlyOnce.batchId' here, where Spark does not tell which micro-batch is written: outside of "
            "a streaming query, and in a thread that foreachBatch has started. Nothing was written"
        )
    return None


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


class Sealing:
    """Collects a task's rows by topic, and seals them in larger pieces than Spark hands them over in. budget: bytes of all batches."""

    def __init__(self, producer: KafkaProducer, budget: int) -> None:
        # Not needed by the processes that only plan, and slow to import.
        from levada.record.columnar import rows_digest

        self._digest = rows_digest
        self._producer = producer
        self._budget = budget
        self._waiting: dict[str, list[pa.RecordBatch]] = {}
        self._waiting_size = 0
        self._size = 0
        self._batches: list[SealedBatch] = []
        self._rows = NO_ROWS

    def add(self, topic: str, records: pa.RecordBatch, digested: pa.RecordBatch) -> None:
        """Take rows. digested: the same ones, as they were before partitions were chosen for them. Raises IllegalStateError above the
        budget.
        """
        self._rows += Rows(records.num_rows, self._digest(digested, topic))
        self._waiting.setdefault(topic, []).append(records)
        self._waiting_size += records.nbytes
        if self._waiting_size >= SEALED_TOGETHER:
            self._seal_all()

    def finish(self, batch: BatchId | None) -> SealedRows:
        """Return the message for the driver."""
        self._seal_all()
        return SealedRows(batch, self._rows, tuple(self._batches))

    def _seal_all(self) -> None:
        waiting, self._waiting, self._waiting_size = self._waiting, {}, 0
        for topic, batches in waiting.items():
            # Only those with rows without a key may have a column of partitions.
            tables = [pa.Table.from_batches([batch]) for batch in batches]
            self._seal(topic, pa.concat_tables(tables, promote_options="default"))

    def _seal(self, topic: str, rows: pa.Table) -> None:
        columns: Mapping[str, Any] = {name: name for name in rows.schema.names}
        sealed = self._producer.seal_arrow(topic, rows, **columns)
        self._size += sum(len(batch.data) for batch in sealed)
        if self._size > self._budget:
            raise IllegalStateError(
                f"delivery=exactly-once: the rows of this task take more than its share of inlineMaxBytes, {self._budget} bytes, which "
                "all go through the driver. Nothing was written. Give a larger inlineMaxBytes where the driver has a few times as much "
                "memory, smaller micro-batches (maxOffsetsPerTrigger), kafka.compression.type=zstd, rows divided evenly among the tasks, "
                "or delivery=at-least-once"
            )
        self._batches += sealed


def budget_of_task(settings: ExactlyOnce) -> int:
    """Return how many bytes the task under way may return.

    No task knows how many there are, so later ones get less: all tasks together then exceed the limit only by a logarithm of their number,
    and tasks of equal size may use all of it.
    """
    context = TaskContext.get()
    return settings.inline_max_bytes // ((context.partitionId() if context else 0) + 1)
