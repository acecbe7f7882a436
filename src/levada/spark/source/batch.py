"""The source of a batch query. The offset ranges are resolved once, when Spark plans the query."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from levada.errors import ConfigError
from levada.spark.options.options import SourceOptions
from levada.spark.pyspark_versions import PUSH_FILTERS, Filter
from levada.spark.source.bounds import resolve
from levada.spark.source.cluster import Cluster, KafkaCluster
from levada.spark.source.filters import Bounds, push
from levada.spark.source.offsets import Offsets
from levada.spark.source.planning import TaskSpans, plan
from levada.spark.source.range_reader import read
from levada.types import TopicPartition

logger = logging.getLogger(__name__)


class BatchReader(DataSourceReader):
    """Plans the query in the driver and reads in the tasks. Spark sends the tasks a pickled copy."""

    def __init__(self, options: SourceOptions, schema: StructType, connect: Callable[[Mapping[str, str]], Cluster] = KafkaCluster) -> None:
        self._options = options
        self._schema = schema
        self._connect = connect
        self._bounds = Bounds()
        if PUSH_FILTERS is not None:
            self.pushFilters = PushFilters(self)  # type: ignore[method-assign]
        elif options.pushes_filters:
            logger.warning("option 'pushFilters' has no effect: this PySpark does not pass filters to a source; 4.1 and newer do")
        for name in options.only_for_streams:
            logger.warning("option '%s' is for streams; a batch query reads everything", name)

    def partitions(self) -> list[InputPartition]:
        """Resolve the start and end offsets and return the tasks that read the ranges. Raises what resolve_ends() raises."""
        cluster = self._connect(self._options.client)
        try:
            start, end = self._bounds.narrow(*resolve_ends(self._options, cluster), cluster)
        finally:
            cluster.close()
        # Without tasks Spark would run one with a default InputPartition, which read() does not accept.
        return list(plan(start, end, self._options.splitting)) or [TaskSpans(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task. Runs in the task."""
        assert isinstance(partition, TaskSpans)
        return read(partition, self._schema, self._options)

    def push(self, filters: Iterable[Filter]) -> None:
        """Narrow the offset ranges that are read according to the filters, if the option pushFilters is true.

        If it is false, only log which filters would reduce reading.
        """
        bounds = push(filters)
        if not bounds.said:
            return
        said = "; ".join(bounds.said)
        if self._options.pushes_filters:
            self._bounds = bounds
            logger.info("filters that reduce reading: %s", said)
        else:
            logger.info("filters that would reduce reading with the option pushFilters, for a DataFrame that is used once: %s", said)


class PushFilters:
    """BatchReader.pushFilters, which Spark calls if spark.sql.python.filterPushdown.enabled is true.

    If that is false, the default, Spark refuses every reader that overrides pushFilters. So this object pretends to be the method of the
    base class. (The check is in plan_data_source_read.py of PySpark 4.3.)

    Spark 4.3 stores the plan that a reader made after a push with the DataFrame. Later uses of the DataFrame get this plan even if they
    have no filters, and would miss rows. Therefore filters are used only with the option pushFilters.
    """

    __func__ = staticmethod(PUSH_FILTERS)

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Use the supported filters. All filters are returned, so that Spark applies them again to the rows."""
        self._reader.push(filters)
        return filters


def resolve_ends(options: SourceOptions, cluster: Cluster) -> tuple[Offsets, Offsets]:
    """Return the start and end offsets of a batch query, by partition.

    Raises ConfigError if the start of a partition is after its end, and for bounds that resolve() refuses; UnknownTopicOrPartitionError for
    a topic or partition that the options name and that does not exist.
    """
    partitions = cluster.view(options.selection).checked(options.selection).partitions
    start = resolve(options.starting, partitions, cluster, options.starting_option)
    end = resolve(options.ending, partitions, cluster, options.ending_option)
    backwards = [tp for tp in sorted(start) if start[tp] > end[tp]]
    if backwards:
        raise ConfigError(_why_backwards(backwards[0], start, end, cluster, options))
    return start, end


def _why_backwards(tp: TopicPartition, start: Offsets, end: Offsets, cluster: Cluster, options: SourceOptions) -> str:
    """Return the error text for a query whose start is after its end. tp: such a partition.

    Without the error the query would silently read nothing, even with failOnDataLoss=true.
    """
    latest = cluster.latest([tp])[tp]
    if start[tp] > latest:
        return (
            f"option '{options.starting_option}': {tp} is to be read from offset {start[tp]}, but its log ends at {latest}; if the topic "
            "was deleted and created again, begin at earliest"
        )
    return f"option '{options.ending_option}' is before '{options.starting_option}': {tp} from offset {start[tp]} to {end[tp]}"
