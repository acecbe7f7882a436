"""Rows become records: the sink of batch and streaming queries, at least once.

A task hands whole Arrow batches to a producer and returns its commit message only when every record is acknowledged. There is nothing
left to commit in the driver, and nothing that an abort could take back: a task that is tried again writes its records again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructType, TimestampNTZType, TimestampType

from levada.errors import ConfigError, IllegalStateError, SerializationError
from levada.spark.clients import reused_producer
from levada.spark.options import SinkOptions
from levada.spark.schema import HEADERS

_TEXT_OR_BYTES: tuple[DataType, ...] = (StringType(), BinaryType())
_ACCEPTED: Mapping[str, tuple[DataType, ...]] = {
    "key": _TEXT_OR_BYTES,
    "value": _TEXT_OR_BYTES,
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "headers": (HEADERS,),
    "timestamp": (TimestampType(), TimestampNTZType()),
}

UNDER_WAY = 16
"""Arrow batches sent and not yet known to be acknowledged; more would only hold memory."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells the driver: so many rows are in Kafka."""

    rows: int


def sink_columns(schema: StructType, options: SinkOptions) -> tuple[str, ...]:
    """Return the columns that a sink uses, others are left alone. Raises ConfigError when they do not make a record."""
    names = [field.name for field in schema.fields if field.name in _ACCEPTED]
    if "value" not in names:
        raise ConfigError(f"a levada sink needs a column 'value'; the rows have {', '.join(schema.fieldNames()) or 'none'}")
    if "topic" not in names and options.topic is None:
        raise ConfigError("where to? give the option 'topic', or a column 'topic'")
    for field in schema.fields:
        _check_type(field.name, field.dataType)
    return tuple(name for name in names if name != "topic" or options.topic is None)


def _check_type(name: str, found: DataType) -> None:
    accepted = [kind.simpleString() for kind in _ACCEPTED.get(name, (found,))]
    if found.simpleString() not in accepted:
        raise ConfigError(f"column '{name}' must be {' or '.join(accepted)}, and is {found.simpleString()}; cast it")


def write(batches: Iterator[pa.RecordBatch], columns: Sequence[str], options: SinkOptions) -> Written:
    """Send every row and wait for every acknowledgement. Raises the first failure; it says whether records may be written all the same."""
    rows = 0
    with reused_producer(options.client, options.partitioner) as producer:
        deliveries: deque[Any] = deque()
        for batch in batches:
            rows += batch.num_rows
            for topic, records in by_topic(as_records(batch, columns), options.topic):
                deliveries.append(producer.send_arrow(topic, records, **{name: name for name in records.schema.names}))
            while len(deliveries) > UNDER_WAY:
                deliveries.popleft().result()
        producer.flush()
        for delivery in deliveries:
            delivery.result()
    return Written(rows)


def as_records(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Choose the columns that make records; text becomes bytes without being copied."""
    arrays = [_as_bytes(batch.column(name)) if name in ("key", "value") else batch.column(name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _as_bytes(array: pa.Array) -> pa.Array:
    return array if pa.types.is_binary(array.type) else array.cast(pa.binary())


def by_topic(records: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Split rows by their topic column, keeping their order within a topic. Raises SerializationError for a row without a topic."""
    if records.num_rows == 0:
        return
    if topic is not None:
        yield topic, records
        return
    topics = records.column("topic")
    if topics.null_count:
        raise SerializationError(f"{topics.null_count} of {records.num_rows} rows have no topic; give each row one, or the option 'topic'")
    rest = records.drop_columns(["topic"])
    names = topics.unique().to_pylist()
    if len(names) == 1:
        yield names[0], rest
        return
    yield from _runs(topics.dictionary_encode(), rest)


def _runs(topics: pa.DictionaryArray, rest: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    import pyarrow.compute as pc

    # sort_indices is stable, so each topic's rows stay in order and stand together.
    sorted_rest = rest.take(pc.sort_indices(topics.indices))
    counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(topics.indices).to_pylist()}
    begin = 0
    for code in sorted(counts):
        yield topics.dictionary[code].as_py(), sorted_rest.slice(begin, counts[code])
        begin += counts[code]


def check_all_written(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Refuse to commit when a task did not write.

    Under Trigger.Continuous Spark never calls write(), and commits all the same. It only logs what is raised here, and runs on, but the
    epoch stays uncommitted: the checkpoint does not claim that rows were written which were not.
    """
    silent = sum(message is None for message in messages)
    if silent:
        raise IllegalStateError(
            f"{silent} of {len(messages)} tasks wrote nothing and Spark commits all the same: their rows would be lost. Trigger.Continuous "
            "does not work with Python sinks; use trigger(processingTime=...) or trigger(availableNow=True)"
        )


class BatchWriter(DataSourceArrowWriter):
    """The sink of a batch query."""

    def __init__(self, options: SinkOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        return write(iterator, self._columns, self._options)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing but check: what the tasks wrote is acknowledged."""
        check_all_written(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """The sink of a streaming query."""

    def __init__(self, options: SinkOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's share of a micro-batch."""
        return write(iterator, self._columns, self._options)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing but check: what the tasks wrote is acknowledged."""
        check_all_written(messages)
