"""A task reads its range: one partition, from an offset to an offset, as Arrow columns.

The range ends when the position reaches its end, not when a number of records has come: offsets have gaps where records were compacted
away or transactions were aborted, and a gap is no loss. Lost are records below the log start (retention was faster than the query) and
records above the log end (the topic was created again under the same name).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from levada.config import ConsumerConfig
from levada.errors import OffsetOutOfRangeError, TimeoutError
from levada.spark.clients import reused_consumer
from levada.spark.cluster import reading_settings
from levada.spark.offsets import Offsets, data_loss
from levada.spark.options import SourceOptions
from levada.spark.schema import TARGET_BYTES, TARGET_ROWS, arrow_schema, levada_columns, slices, to_spark
from levada.types import TopicPartition

if TYPE_CHECKING:
    from levada import KafkaConsumer

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """What one task reads: the offsets from `start` up to, but not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


def plan(start: Offsets, end: Offsets) -> list[OffsetRange]:
    """Return one range for each partition that has something to read; a pure function, since a replay plans again."""
    return [OffsetRange(*tp, start[tp], end[tp]) for tp in sorted(end) if end[tp] > start[tp]]


def read(wanted: OffsetRange, schema: StructType, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Yield the range in Spark's columns. Raises DataLossError by the rules of failOnDataLoss, TimeoutError when nothing comes."""
    target = arrow_schema(schema)
    with reused_consumer(reading_settings(options.client)) as consumer:
        reader = _RangeReader(consumer, wanted, levada_columns(schema), options)
        for batch in slices(reader.batches()):
            yield to_spark(batch, target)


class _RangeReader:
    def __init__(self, consumer: KafkaConsumer, wanted: OffsetRange, columns: Sequence[str], options: SourceOptions) -> None:
        self._consumer = consumer
        self._wanted = wanted
        self._columns = list(dict.fromkeys([*columns, "offset"]))
        self._fail_on_data_loss = options.fail_on_data_loss
        self._patience_s = _patience_s(options.client)

    def batches(self) -> Iterator[pa.RecordBatch]:
        self._consumer.assign([self._wanted.tp], ends={self._wanted.tp: self._wanted.end})
        try:
            self._consumer.seek(self._wanted.tp, self._wanted.start)
            yield from self._until_end()
        finally:
            # The consumer outlives the task; one that was not read to its end would go on fetching.
            self._consumer.assign([])

    def _until_end(self) -> Iterator[pa.RecordBatch]:
        position, moved_at = self._wanted.start, time.monotonic()
        while position < self._wanted.end:
            batch = self._poll(position)
            reached = self._consumer.position(self._wanted.tp)
            if reached > position:
                position, moved_at = reached, time.monotonic()
            elif self._is_cut_off(position):
                return
            elif time.monotonic() - moved_at > self._patience_s:
                raise TimeoutError(f"{self._where(position)}: nothing came for {self._patience_s:g} s (kafka.default.api.timeout.ms)")
            yield batch

    def _poll(self, position: int) -> pa.RecordBatch:
        rows = min(TARGET_ROWS, self._wanted.end - position)
        try:
            return self._consumer.poll_arrow(timeout=POLL_SECONDS, max_records=rows, max_bytes=TARGET_BYTES, columns=self._columns)
        except OffsetOutOfRangeError:
            return self._skip_lost(position)

    def _skip_lost(self, position: int) -> pa.RecordBatch:
        tp = self._wanted.tp
        earliest = self._consumer.beginning_offsets([tp])[tp]
        if earliest <= position:
            self._report(f"{self._where(position)}: that is after the end of the log; the topic was probably deleted and created again")
            earliest = self._wanted.end
        else:
            self._report(f"{self._where(position)}: the log begins at offset {earliest}, retention has removed what was before")
        self._consumer.seek(tp, min(earliest, self._wanted.end))
        return self._nothing()

    def _is_cut_off(self, position: int) -> bool:
        tp = self._wanted.tp
        latest = self._consumer.end_offsets([tp])[tp]
        if latest >= self._wanted.end:
            return False
        self._report(f"{self._where(position)}: the log ends at offset {latest}; the topic was probably deleted and created again")
        return True

    def _report(self, finding: str) -> None:
        if self._fail_on_data_loss:
            raise data_loss([finding])
        logger.warning("%s; going on, as failOnDataLoss is false", finding)

    def _where(self, position: int) -> str:
        return f"{self._wanted.tp} at offset {position}, reading {self._wanted.start} to {self._wanted.end}"

    def _nothing(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"offset": pa.array([], pa.int64())})


def _patience_s(client: Mapping[str, str]) -> float:
    return ConsumerConfig.parse(client).default_api_timeout_ms / 1000
