"""Reads the spans of a task as Arrow columns.

A span is finished when the consumer's position reaches its end, not after a number of records: compaction and aborted transactions leave
gaps between offsets, and a gap is not a loss. Records are lost if they are below the log start (retention was faster than the query),
above the log end (the topic was created again under the same name), missing on a new leader, or in a deleted topic.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType

from levada.errors import LogTruncationError, OffsetOutOfRangeError, TimeoutError, TopicRecreatedError, UnknownTopicOrPartitionError
from levada.formats.columns import ValueDecoder
from levada.spark.clients import reused_consumer
from levada.spark.options.options import SourceOptions
from levada.spark.pyspark_versions import arrow_schema
from levada.spark.schema import TARGET_BYTES, TARGET_ROWS, levada_columns, slices, to_spark
from levada.spark.source.cluster import reading_settings
from levada.spark.source.planning import Span, TaskSpans
from levada.spark.task import begin_task
from levada.types import TopicPartition

if TYPE_CHECKING:
    from levada import KafkaConsumer

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
LOOK_SECONDS = 10.0
READ_UNCOMMITTED = "read_uncommitted"


def read(task: TaskSpans, schema: StructType, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Yield the records of a task's spans in Spark's columns.

    Raises DataLossError if records are lost and the options do not allow it, TimeoutError if none arrive for kafkaConsumer.pollTimeoutMs,
    and SerializationError in mode FAILFAST.
    """
    if not task.spans:
        return
    begin_task()
    target = arrow_schema(schema)
    with reused_consumer(reading_settings(options.client)) as consumer:
        reader = SpanReader(consumer, task.spans, levada_columns(schema, options.typed), options)
        values = ValueDecoder(options.typed, target)
        for batch in slices(reader.batches()):
            yield to_spark(values.decode(batch), target, options.on_loss)


class SpanReader:
    """Reads spans of several partitions at the same time, with one consumer."""

    def __init__(self, consumer: KafkaConsumer, spans: Sequence[Span], columns: Sequence[str], options: SourceOptions) -> None:
        self._consumer = consumer
        self._spans = {span.tp: span for span in spans}
        self._columns = columns
        self._on_loss = options.on_loss
        self._patience_s = options.poll_timeout_s
        self._reads_committed = options.reads_committed
        self._client = options.client
        self._positions: dict[TopicPartition, int] = {}
        self._moved_at = 0.0
        self._looks = self._looks_left = options.fetch_offset_retries
        self._look_interval_s = options.fetch_offset_interval_s

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records of all spans, in order within each partition."""
        self._consumer.assign(self._spans, ends={tp: span.end for tp, span in self._spans.items()})
        try:
            for tp, span in self._spans.items():
                self._consumer.seek(tp, span.start)
            yield from self._until_end()
        finally:
            # The consumer is reused after the task. With an unfinished assignment it would continue to fetch.
            self._consumer.assign([])

    def _until_end(self) -> Iterator[pa.RecordBatch]:
        self._moved()
        while len(self._consumer.finished()) < len(self._spans):
            try:
                batch = self._consumer.poll_arrow(
                    timeout=min(POLL_SECONDS, self._patience_s), max_records=TARGET_ROWS, max_bytes=TARGET_BYTES, columns=self._columns
                )
                if batch.num_rows:
                    self._moved()
                    yield batch
                elif not self._has_moved():
                    self._look_for_the_reason()
            except OffsetOutOfRangeError as gone:
                self._go_on_after(gone)
            except UnknownTopicOrPartitionError as unknown:
                self._look_for_deleted(unknown)

    def _moved(self) -> None:
        self._moved_at = time.monotonic()
        self._looks_left = self._looks

    def _has_moved(self) -> bool:
        """Whether a position has changed since the last call. It changes without records past aborted transactions, for example."""
        before, self._positions = self._positions, {tp: self._consumer.position(tp) for tp in self._spans}
        if self._positions != before:
            self._moved()
        return self._positions != before

    def _look_for_deleted(self, unknown: UnknownTopicOrPartitionError) -> None:
        """Wait for fetchOffset.retryIntervalMs while fetchOffset.numRetries allows it, because the broker may have old metadata.

        After the last wait report the partitions that do not exist as a loss, and stop reading them. Raises `unknown` if all exist.
        """
        if self._looks_left:
            self._looks_left -= 1
            time.sleep(self._look_interval_s)
            return
        deleted = self._spans.keys() - self._existing({tp.topic for tp in self._spans})
        if not deleted:
            raise unknown
        for tp in sorted(deleted):
            self._lost(tp, "it does not exist any more")
        self._spans = {tp: span for tp, span in self._spans.items() if tp not in deleted}
        self._consumer.assign(self._spans, ends={tp: span.end for tp, span in self._spans.items()})
        self._moved()

    def _existing(self, topics: Iterable[str]) -> set[TopicPartition]:
        found: set[TopicPartition] = set()
        for topic in topics:
            try:
                found.update(TopicPartition(topic, info.partition) for info in self._consumer.partitions_for(topic))
            except UnknownTopicOrPartitionError:
                continue
        return found

    def _look_for_the_reason(self) -> None:
        """Find out why no records arrive.

        A log that ends before its span is reported as a loss, unless an open transaction holds the records back. Raises TimeoutError if
        nothing was read for kafkaConsumer.pollTimeoutMs.
        """
        waiting = [tp for tp in self._spans if tp not in self._consumer.finished()]
        try:
            latest = self._consumer.end_offsets(waiting, timeout=LOOK_SECONDS)
            cut_off = [tp for tp in waiting if latest[tp] < self._spans[tp].end]
            held_back = self._held_back(cut_off)
        except TimeoutError:
            # Without an answer from the brokers it is unknown where the logs end.
            latest, cut_off, held_back = {}, [], set()
        gone = [tp for tp in cut_off if tp not in held_back]
        for tp in gone:
            self._lost(tp, f"the log ends at offset {latest[tp]}; the topic was probably deleted and created again")
            self._consumer.seek(tp, self._spans[tp].end)
        if gone:
            self._moved()
        elif waiting and time.monotonic() - self._moved_at > self._patience_s:
            why = "an open transaction holds the other records back" if waiting[0] in held_back else "no record arrived"
            raise TimeoutError(f"{self._where(waiting[0])}: {why} for {self._patience_s:g} s (option kafkaConsumer.pollTimeoutMs)")

    def _held_back(self, cut_off: Sequence[TopicPartition]) -> set[TopicPartition]:
        """Return the partitions whose missing records exist above the last stable offset, where an open transaction holds them back.

        cut_off: partitions whose readable records end before their span. Empty with isolation.level=read_uncommitted.
        """
        if not cut_off or not self._reads_committed:
            return set()
        with reused_consumer({**reading_settings(self._client), "isolation.level": READ_UNCOMMITTED}) as uncommitted:
            ends = uncommitted.end_offsets(cut_off, timeout=LOOK_SECONDS)
        return {tp for tp in cut_off if ends[tp] >= self._spans[tp].end}

    def _go_on_after(self, gone: OffsetOutOfRangeError) -> None:
        """Report the lost records, and seek to the next offset to read. Raises `gone` if it names no partition or no offset."""
        tp = gone.partition
        if tp is None or gone.offset is None:
            raise gone
        span = self._spans[tp]
        if isinstance(gone, LogTruncationError) and gone.divergent_offset is not None:
            onward = max(gone.divergent_offset, span.start)
            self._lost(tp, f"{gone.reason}; the records that replace the lost ones are read from offset {onward}")
        elif isinstance(gone, LogTruncationError | TopicRecreatedError):
            onward = span.end
            self._lost(tp, gone.reason, gone.offset)
        else:
            earliest = self._consumer.beginning_offsets([tp])[tp]
            onward = earliest if earliest > gone.offset else span.end
            if earliest > gone.offset:
                self._lost(tp, f"the log begins at offset {earliest}, retention has deleted the records before", gone.offset)
            else:
                self._lost(tp, "that is after the end of the log; the topic was probably deleted and created again", gone.offset)
        self._consumer.seek(tp, min(onward, span.end))

    def _lost(self, tp: TopicPartition, finding: str, position: int | None = None) -> None:
        self._on_loss.report([f"{self._where(tp, position)}: {finding}"], logger)

    def _where(self, tp: TopicPartition, position: int | None = None) -> str:
        at = self._consumer.position(tp) if position is None else position
        return f"{tp} at offset {at}, reading {self._spans[tp].start} to {self._spans[tp].end}"
