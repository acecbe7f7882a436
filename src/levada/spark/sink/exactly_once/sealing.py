"""What a task of the exactly-once sink does with its rows.

They become sealed record batches in its commit message, and nothing is written to Kafka. So the task may be tried again, killed, or run
twice at the same time, and nothing has to be undone. Rows that do not fit into the message are written into a slot, a transaction that is
left open: of a task that is killed it stays open, and nobody commits it, as it is in no message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from levada.errors import IllegalStateError, KafkaError
from levada.exactly_once.batch import NO_ROWS, BatchId, Rows, Slot, SlotName
from levada.exactly_once.slots import ABORT_S
from levada.spark.clients import Outstanding, new_producer, roles
from levada.spark.sink.exactly_once.settings import NO_BATCH, QUERY_ID, ExactlyOnce
from levada.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from levada import KafkaProducer, SealedBatch

logger = logging.getLogger(__name__)

SEALED_TOGETHER = 4 << 20
"""Bytes of rows that become record batches at once: fewer would make small batches, more would only hold memory."""
SLOT_TIMEOUT_MS = 15 * 60 * 1000
"""transaction.timeout.ms of slots: the brokers' default of transaction.max.timeout.ms. Brokers that allow less are asked for less."""


@dataclass(frozen=True)
class SealedRows(WriterCommitMessage):
    """What a task tells the driver. batches: its rows, nothing of which is in Kafka yet. slot: has them instead."""

    batch: BatchId
    task: int
    rows: Rows
    batches: tuple[SealedBatch, ...] = ()
    slot: Slot | None = None


def batch_of_task(settings: ExactlyOnce, run_id: str, *, streaming: bool) -> BatchId:
    """Return the micro-batch that the task under way belongs to; a batch write that is part of no streaming query is one of its own.

    run_id: stands for the run of a write whose number the program gives. Raises IllegalStateError for a stream whose batch is not known.
    """
    if settings.batch_number is not None:
        return BatchId("", run_id, settings.batch_number)
    context = TaskContext.get()
    told = [context and context.getLocalProperty(name) for name in (QUERY_ID, "spark.jobGroup.id", "streaming.sql.batchId")]
    query_id, run_of_query, number = told
    if query_id and run_of_query and number:
        run = _uuid(run_of_query)
        if run is None:
            raise IllegalStateError(
                f"delivery=exactly-once needs the id of the query's run, and the job group is {run_of_query!r} instead: setJobGroup() "
                "within foreachBatch has replaced it. Call that after the write, or give exactlyOnce.id and exactlyOnce.batchId. Nothing "
                "was written"
            )
        return BatchId(query_id, run, int(number))
    if streaming:
        raise IllegalStateError("delivery=exactly-once: Spark has not told this task which micro-batch it writes; nothing was written")
    if settings.sink_id is not None:
        raise IllegalStateError(NO_BATCH)
    return BatchId("", run_id, 0)


def _uuid(text: str) -> str | None:
    try:
        return str(UUID(text))
    except ValueError:
        return None


class Sealing:
    """Takes the rows of a task.

    It seals rows in larger pieces than Spark hands them over in. budget: bytes of all batches. open_slot: called for rows beyond it.
    """

    def __init__(self, producer: KafkaProducer, budget: int, open_slot: Callable[[], OpenSlot]) -> None:
        # Not needed by the processes that only plan, and slow to import.
        from levada.record.columnar import rows_digest

        self._digest = rows_digest
        self._producer = producer
        self._budget = budget
        self._open_slot = open_slot
        self._waiting: dict[str, list[pa.RecordBatch]] = {}
        self._waiting_size = 0
        self._size = 0
        self._batches: list[SealedBatch] = []
        self._slot: OpenSlot | None = None
        self._rows = NO_ROWS

    def add(self, topic: str, records: pa.RecordBatch, digested: pa.RecordBatch) -> None:
        """Take rows. digested: the same ones, as they were before partitions were chosen for them."""
        self._rows += Rows(records.num_rows, self._digest(digested, topic))
        if self._slot is not None:
            self._slot.send(topic, records)
            return
        self._waiting.setdefault(topic, []).append(records)
        self._waiting_size += records.nbytes
        if self._waiting_size >= SEALED_TOGETHER:
            self._seal_all()

    def finish(self, batch: BatchId, task: int) -> SealedRows:
        """Return the message for the driver."""
        self._seal_all()
        if self._slot is None:
            return SealedRows(batch, task, self._rows, tuple(self._batches))
        return SealedRows(batch, task, self._rows, slot=self._slot.hand_over(self._rows))

    def give_up(self) -> None:
        """Let readers go on at once, if rows were written already."""
        if self._slot is not None:
            self._slot.abort()

    def _seal_all(self) -> None:
        waiting, self._waiting, self._waiting_size = self._waiting, {}, 0
        for topic, batches in waiting.items():
            # Only those with rows without a key may have a column of partitions.
            tables = [pa.Table.from_batches([batch]) for batch in batches]
            self._seal(topic, pa.concat_tables(tables, promote_options="default"))
        if self._slot is None and self._size > self._budget:
            self._slot = self._open_slot()
            self._slot.send_sealed(self._batches)
            self._batches = []

    def _seal(self, topic: str, rows: pa.Table) -> None:
        sealed = self._producer.seal_arrow(topic, rows, **roles(rows.schema))
        self._size += sum(len(batch.data) for batch in sealed)
        self._batches += sealed


class OpenSlot:
    """A transaction that a task writes. producer: was made for it. full_name: its transactional id. outcome: tells that it is committed."""

    def __init__(
        self, producer: KafkaProducer, name: SlotName, full_name: str, outcome: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        self._producer, self._name, self._full_name, self._outcome = producer, name, full_name, outcome
        self._outstanding = Outstanding()
        try:
            producer.init_transactions()
            producer.begin_transaction()
        except BaseException:
            producer.close(timeout=0)
            raise
        logger.info("rows beyond inlineMaxBytes are written into transaction '%s'", full_name)

    def send_sealed(self, batches: list[SealedBatch]) -> None:
        """Write what was meant for the message."""
        self._outstanding.add(self._producer.send_sealed(batches))

    def send(self, topic: str, records: pa.RecordBatch) -> None:
        """Write rows. Raises what earlier ones have come to."""
        self._outstanding.add(self._producer.send_arrow(topic, records, **roles(records.schema)))

    def hand_over(self, rows: Rows) -> Slot:
        """Wait until all is in Kafka, and leave the transaction open. Raises the first failure."""
        self._producer.flush()
        self._outstanding.wait()
        self._producer.send_offsets_to_transaction(self._outcome, self._full_name)
        handle = self._producer.detach_transaction()
        with suppress(KafkaError):
            self._producer.close()
        # As the ledger will name it, so that both are equal.
        return Slot(self._name, handle._replace(partitions=(), groups=(self._full_name,)), rows)

    def abort(self) -> None:
        """Let readers go on at once. Where that fails the brokers do it, after transaction.timeout.ms."""
        with suppress(KafkaError):
            self._producer.abort_transaction(ABORT_S)
        self._producer.close(timeout=0)


def slot_producer(client: Mapping[str, str], partitioner: str, full_name: str) -> KafkaProducer:
    """Make the producer of a slot. Its transaction may take as long as brokers allow by default, unless the settings say otherwise."""
    own = {"transactional.id": full_name, "transaction.timeout.clamp": "true"}
    return new_producer({"transaction.timeout.ms": str(SLOT_TIMEOUT_MS), **client, **own}, partitioner)


def task_under_way() -> tuple[int, int]:
    """Return the number of the task, which Spark calls its partition, and of its attempt."""
    context = TaskContext.get()
    return (context.partitionId(), context.attemptNumber()) if context else (0, 0)


def budget_of_task(settings: ExactlyOnce, task: int) -> int:
    """Return how many bytes a task may return.

    No task knows how many there are, so later ones get less: all tasks together then exceed the limit only by a logarithm of their number,
    and tasks of equal size may use all of it.
    """
    return settings.inline_max_bytes // (task + 1)
