"""The source of a batch query: ranges are resolved once, when the query is planned."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from levada.errors import ConfigError
from levada.spark.cluster import Cluster, KafkaCluster
from levada.spark.offsets import Offsets, data_loss, resolve
from levada.spark.options import SourceOptions
from levada.spark.range_reader import OffsetRange, plan, read

logger = logging.getLogger(__name__)


class BatchReader(DataSourceReader):
    """Plans in the driver, reads in the tasks; Spark sends a pickled copy there."""

    def __init__(self, options: SourceOptions, schema: StructType, connect: Callable[[Mapping[str, str]], Cluster] = KafkaCluster) -> None:
        self._options = options
        self._schema = schema
        self._connect = connect
        if options.max_offsets_per_trigger is not None:
            logger.warning("option 'maxOffsetsPerTrigger' is for streams; a batch query reads everything")

    def partitions(self) -> list[InputPartition]:
        """Resolve the offsets and return one range for each partition that has records."""
        cluster = self._connect(self._options.client)
        try:
            start, end = resolve_ends(self._options, cluster)
        finally:
            cluster.close()
        # Without any range Spark would still run one task, with a partition of another kind.
        return list(plan(start, end)) or [OffsetRange("", -1, 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one range."""
        assert isinstance(partition, OffsetRange)
        return read(partition, self._schema, self._options) if partition.end > partition.start else iter(())


def resolve_ends(options: SourceOptions, cluster: Cluster) -> tuple[Offsets, Offsets]:
    """Return where a batch query begins and ends, per partition."""
    partitions = set(options.assigned) or cluster.partitions(options.topics)
    earliest, latest = cluster.earliest(partitions), cluster.latest(partitions)
    start = resolve(options.starting, partitions, earliest, latest, "startingOffsets")
    end = resolve(options.ending, partitions, earliest, latest, "endingOffsets")
    _check(start, end, latest, options)
    return start, end


def _check(start: Offsets, end: Offsets, latest: Offsets, options: SourceOptions) -> None:
    """A query that begins where there is nothing, or after its own end, would silently read nothing."""
    beyond = [f"{tp} is to be read from offset {start[tp]}, but ends at {latest[tp]}" for tp in sorted(start) if start[tp] > latest[tp]]
    if beyond and options.fail_on_data_loss:
        raise data_loss(beyond)
    for finding in beyond:
        logger.warning("%s; going on, as failOnDataLoss is false", finding)
    given = options.starting if isinstance(options.starting, dict) else {}
    backwards = [f"{tp} from {start[tp]} to {end[tp]}" for tp in sorted(given) if end[tp] < given[tp] <= latest[tp]]
    if backwards:
        raise ConfigError(f"option 'endingOffsets' is before 'startingOffsets': {', '.join(backwards)}")
