"""The source of a streaming query.

Spark keeps one reader for planning, in a process of its own, for as long as a query runs. Every trigger it asks `latestOffset`, then
`partitions(start, end)`; the tasks get pickled copies that never plan. What Spark does not promise, and what is made of it here:

- Batch 0 has no stored start; its end carries it (see `offsets`).
- Spark takes whatever offset it is given; ours never go back, not even when the log does.
- AvailableNow means: up to what was there when the query began. The target is taken once.
- A read limit is handed to `latestOffset`; ReadAllAvailable (Trigger.Once) means to ignore the option.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from levada.spark.cluster import Cluster, KafkaCluster
from levada.spark.offsets import (
    Offsets,
    StreamOffset,
    data_loss,
    from_json,
    limit_rows,
    lost_beginnings,
    lost_partitions,
    never_back,
    resolve,
    start_of,
    to_json,
    with_start,
)
from levada.spark.options import SourceOptions
from levada.spark.range_reader import OffsetRange, plan, read
from levada.types import TopicPartition

logger = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver, reads them in the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType, connect: Callable[[Mapping[str, str]], Cluster] = KafkaCluster) -> None:
        self._options = options
        self._schema = schema
        self._connect = connect
        self._cluster: Cluster | None = None
        self._initial: StreamOffset | None = None
        self._target: Offsets | None = None
        self._newest: StreamOffset | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cluster": None}

    def initialOffset(self) -> StreamOffset:
        """Return where a query without a checkpoint begins. Spark asks more than once; the answer stays the same."""
        if self._initial is None:
            self._initial = to_json(self._resolve_initial())
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that Spark shall hand to latestOffset."""
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Note what is there now; the query ends when it has read that."""
        self._target = self._latest()

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:
        """Return the end of the next micro-batch; `start` itself, to the letter, when there is nothing new."""
        begin = from_json(start)
        newest = self._latest() if self._target is None else dict(self._target)
        self._newest = to_json(newest)
        self._report(lost_partitions(begin, newest))
        end = never_back(begin, self._limited(begin, newest, limit))
        if start == self._initial:
            return with_start(to_json(end), start)
        return start if end == begin else to_json(end)

    def reportLatestOffset(self) -> StreamOffset | None:
        """Return the newest offsets seen, for the query's progress."""
        return self._newest

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        """Return one range for each partition with something new. Partitions first seen now are read from their beginning."""
        begin, until = from_json(start_of(start, end)), from_json(end)
        known = self._with_new(begin, until)
        return list(plan(known, until))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one range; runs in a task."""
        assert isinstance(partition, OffsetRange)
        return read(partition, self._schema, self._options)

    def stop(self) -> None:
        """Close the driver's connections; the query is over."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _kafka(self) -> Cluster:
        if self._cluster is None:
            self._cluster = self._connect(self._options.client)
        return self._cluster

    def _partitions(self) -> set[TopicPartition]:
        return set(self._options.assigned) or self._kafka().partitions(self._options.topics)

    def _latest(self) -> Offsets:
        return self._kafka().latest(self._partitions())

    def _resolve_initial(self) -> Offsets:
        partitions = self._partitions()
        latest = self._kafka().latest(partitions) if self._target is None else self._target
        return resolve(self._options.starting, partitions, self._kafka().earliest(partitions), latest, "startingOffsets")

    def _limited(self, begin: Offsets, newest: Offsets, limit: ReadLimit) -> Offsets:
        if not isinstance(limit, ReadMaxRows):
            return newest
        return limit_rows(self._with_new(begin, newest), newest, limit.max_rows)

    def _with_new(self, begin: Offsets, until: Offsets) -> Offsets:
        """Return the start of every partition of `until`, looking up those that `begin` does not know."""
        new = until.keys() - begin.keys()
        if not new:
            return begin
        earliest = self._kafka().earliest(new)
        self._report(lost_beginnings(earliest))
        return {**begin, **earliest}

    def _report(self, findings: list[str]) -> None:
        if findings and self._options.fail_on_data_loss:
            raise data_loss(findings)
        for finding in findings:
            logger.warning("%s; going on, as failOnDataLoss is false", finding)
