"""The work of a task of the exactly-once sink.

The task turns its rows into sealed record batches in its commit message, and writes nothing to Kafka. So Spark may retry it, kill it, or
run it twice at the same time, and nothing has to be undone. Rows that do not fit into the message are written into a slot, a transaction
that the task leaves open. The slot of a killed task also stays open. It is never committed, because it is in no message.
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

from levada.error_codes import ErrorCode
from levada.errors import BrokerError, IllegalStateError, KafkaError
from levada.exactly_once.batch import NO_ROWS, BatchId, Rows, Slot, SlotName
from levada.exactly_once.slots import ABORT_S, TOOK_LONGER
from levada.spark.clients import Outstanding, new_producer, reused_admin, roles
from levada.spark.sink.exactly_once.settings import NO_BATCH, QUERY_ID, ExactlyOnce
from levada.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from levada import KafkaProducer, SealedBatch

logger = logging.getLogger(__name__)

SEALED_TOGETHER = 4 << 20
"""Bytes of rows that are sealed together. Less would make small record batches, more would only use memory."""
SLOT_TIMEOUT_MS = 15 * 60 * 1000
"""transaction.timeout.ms of slots: the default transaction.max.timeout.ms of brokers. It is lowered for brokers that allow less."""


@dataclass(frozen=True)
class SealedRows(WriterCommitMessage):
    """The commit message of a task. rows: number and digest of the task's rows.

    batches: the rows as record batches, which are not in Kafka yet. slot: the transaction that contains the rows instead; None if there is
    no such transaction. begun_ms: when it began, by its coordinator's clock.
    """

    batch: BatchId
    task: int
    rows: Rows
    batches: tuple[SealedBatch, ...] = ()
    slot: Slot | None = None
    begun_ms: int | None = None


def batch_of_task(settings: ExactlyOnce, run_id: str, *, streaming: bool) -> BatchId:
    """Return the micro-batch of the current task.

    A write with exactlyOnce.batchId, and a batch write outside of a streaming query, count as micro-batches of their own. run_id: the id of
    such a write. Raises IllegalStateError if the micro-batch of a stream, or of a write with an exactlyOnce.id, is not known.
    """
    if settings.batch_number is not None:
        return BatchId("", run_id, settings.batch_number)
    context = TaskContext.get()
    told = [context and context.getLocalProperty(name) for name in (QUERY_ID, "spark.jobGroup.id", "streaming.sql.batchId")]
    query_id, run_of_query, number = told
    if query_id:
        run = _uuid(run_of_query or "")
        if run is None or not number:
            raise IllegalStateError(
                f"delivery=exactly-once needs the id of the query's run, but the job group is {run_of_query!r} instead: setJobGroup() "
                "or clearJobGroup() within foreachBatch has replaced it. Call them after the write, or give exactlyOnce.id and "
                "exactlyOnce.batchId. Nothing was written"
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


def has_lost_identity(error: BaseException | None) -> bool:
    """Whether brokers refused a producer id and epoch."""
    while error is not None:
        if isinstance(error, BrokerError) and error.code in _LOST_IDENTITY:
            return True
        error = error.__cause__
    return False


_LOST_IDENTITY = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
_ABORTED = frozenset({ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE})
"""Answers to a task whose transaction was aborted without a new epoch."""


class Sealing:
    """Collects the rows of a task and seals them, in larger pieces than Spark's Arrow batches.

    budget: how many bytes of sealed batches the task may return to the driver. open_slot: called once if they are more; then all rows of
    the task go into the slot that it returns.
    """

    def __init__(self, producer: KafkaProducer, budget: int, open_slot: Callable[[], OpenSlot]) -> None:
        # Slow to import, and not needed in processes that only plan.
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
        """Add rows. digested: the same rows as they were given, before the sink chose partitions for them; the digest is made of these."""
        self._rows += Rows(records.num_rows, self._digest(digested, topic))
        if self._slot is not None:
            self._slot.send(topic, records)
            return
        self._waiting.setdefault(topic, []).append(records)
        self._waiting_size += records.nbytes
        if self._waiting_size >= SEALED_TOGETHER:
            self._seal_all()

    def finish(self, batch: BatchId, task: int) -> SealedRows:
        """Seal the remaining rows and return the commit message. With a slot, wait until all its rows are acknowledged."""
        self._seal_all()
        if self._slot is None:
            return SealedRows(batch, task, self._rows, tuple(self._batches))
        return SealedRows(batch, task, self._rows, slot=self._slot.hand_over(self._rows), begun_ms=self._slot.begun_ms)

    def give_up(self, error: BaseException) -> None:
        """Abort the slot, if one is open, so that consumers of committed records need not wait for it. error: why; it may get a note."""
        if self._slot is not None:
            if has_lost_identity(error) or (isinstance(error, BrokerError) and error.code in _ABORTED):
                error.add_note(f"the transaction of this task is open no more. {TOOK_LONGER}, or write with delivery=at-least-once")
            self._slot.abort()

    def _seal_all(self) -> None:
        waiting, self._waiting, self._waiting_size = self._waiting, {}, 0
        for topic, batches in waiting.items():
            # Batches may differ in columns: partitions are added only to batches with rows without a key.
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
    """A transaction in which a task writes its rows.

    producer: made for this transaction only. full_name: the transactional id. outcome: the offset that the transaction commits for the
    group full_name, before all rows. It shows later whether the transaction was committed. client: the settings of the query's clients.
    begun_ms: when the transaction began, by its coordinator's clock.
    """

    def __init__(
        self,
        producer: KafkaProducer,
        name: SlotName,
        full_name: str,
        outcome: Mapping[TopicPartition, OffsetAndMetadata],
        client: Mapping[str, str],
    ) -> None:
        self._producer, self._name, self._full_name = producer, name, full_name
        self._outstanding = Outstanding()
        try:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send_offsets_to_transaction(outcome, full_name)
            self.begun_ms = _begun_ms(full_name, client)
        except BaseException:
            producer.close(timeout=0)
            raise
        logger.info("rows beyond inlineMaxBytes are written into transaction '%s'", full_name)

    def send_sealed(self, batches: list[SealedBatch]) -> None:
        """Write the batches that were sealed for the commit message."""
        self._outstanding.add(self._producer.send_sealed(batches))

    def send(self, topic: str, records: pa.RecordBatch) -> None:
        """Write rows. Raises the error of earlier rows, if there is one."""
        self._outstanding.add(self._producer.send_arrow(topic, records, **roles(records.schema)))

    def hand_over(self, rows: Rows) -> Slot:
        """Wait until all rows are acknowledged, leave the transaction open, and return its handle. Raises the first error."""
        self._producer.flush()
        self._outstanding.wait()
        handle = self._producer.detach_transaction()
        with suppress(KafkaError):
            self._producer.close()
        # The handle has the same fields as one that is read from the ledger, so that the two compare equal.
        return Slot(self._name, handle._replace(partitions=(), groups=(self._full_name,)), rows)

    def abort(self) -> None:
        """Abort the transaction, so that consumers of committed records need not wait. If this fails, it ends at transaction.timeout.ms."""
        with suppress(KafkaError):
            self._producer.abort_transaction(ABORT_S)
        self._producer.close(timeout=0)


def _begun_ms(transactional_id: str, client: Mapping[str, str]) -> int:
    with reused_admin(client) as admin:
        described = admin.describe_transactions([transactional_id])[transactional_id]
    if described.state != "Ongoing" or described.start_time_ms is None:
        raise IllegalStateError(
            f"transaction '{transactional_id}' was aborted as soon as it had begun, perhaps by another run of this sink"
        )
    return described.start_time_ms


def slot_producer(client: Mapping[str, str], partitioner: str, full_name: str) -> KafkaProducer:
    """Make the producer of a slot. The default transaction.timeout.ms is SLOT_TIMEOUT_MS."""
    own = {"transactional.id": full_name, "transaction.timeout.clamp": "true"}
    return new_producer({"transaction.timeout.ms": str(SLOT_TIMEOUT_MS), **client, **own}, partitioner)


def task_under_way() -> tuple[int, int]:
    """Return the number of the current task, which Spark calls its partition, and the number of its attempt; (0, 0) outside of a task."""
    context = TaskContext.get()
    return (context.partitionId(), context.attemptNumber()) if context else (0, 0)


def budget_of_task(settings: ExactlyOnce, task: int) -> int:
    """Return how many bytes of record batches a task may return to the driver.

    A task does not know the number of tasks, so a task with a higher number gets less: inline_max_bytes / (number + 1). Then n tasks exceed
    the limit at most by a factor of about ln(n), and tasks of equal size can use all of it.
    """
    return settings.inline_max_bytes // (task + 1)
