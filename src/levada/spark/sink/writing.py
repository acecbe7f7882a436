"""The sink of batch and streaming queries: it turns rows into records and writes them.

At least once: a task passes whole Arrow batches to a producer, and returns its commit message when every record is acknowledged. Then the
driver has nothing to commit, and an abort cannot undo anything: a task that Spark retries writes its records again.

Exactly once: a task writes no record that a consumer of committed records can read. Its commit message contains the record batches, or
names the open transaction that contains them. The driver writes the batches of all tasks, and commits (`levada.spark.sink.exactly_once`).
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructType, TimestampNTZType, TimestampType

from levada.errors import ConfigError, IllegalStateError, SerializationError, TimeoutError, UnknownTopicOrPartitionError
from levada.exactly_once.batch import BatchId, SlotName
from levada.formats.columns import SIDES
from levada.formats.writing import Encode
from levada.spark.clients import Outstanding, fresh_admin, reused_producer, roles
from levada.spark.options.options import SinkOptions, Spreads
from levada.spark.pyspark_versions import DataSourceStreamArrowWriter
from levada.spark.schema import HEADERS
from levada.spark.sink.exactly_once import committing as exactly_once
from levada.spark.sink.exactly_once.sealing import (
    OpenSlot,
    SealedRows,
    Sealing,
    batch_of_task,
    budget_of_task,
    slot_producer,
    task_under_way,
)
from levada.spark.sink.exactly_once.settings import ExactlyOnce
from levada.spark.sink.spread import Spread, Turn, turn_of_task
from levada.spark.task import begin_task
from levada.spark.types import name_of, plain, written_type
from levada.types import OffsetAndMetadata

if TYPE_CHECKING:
    from levada import KafkaProducer

_TEXT_OR_BYTES: tuple[DataType, ...] = (StringType(), BinaryType())
_ACCEPTED: Mapping[str, tuple[DataType, ...]] = {
    "key": _TEXT_OR_BYTES,
    "value": _TEXT_OR_BYTES,
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "headers": (HEADERS,),
    "timestamp": (TimestampType(), TimestampNTZType()),
}

logger = logging.getLogger(__name__)

NO_ENCODERS: Mapping[str, Encode] = {}


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The commit message of a task. rows: the number of rows that it has written to Kafka."""

    rows: int


def sink_columns(schema: StructType, options: SinkOptions) -> tuple[str, ...]:
    """Return the names of the columns that a sink writes, in the order of the schema. A sink ignores other columns.

    Raises ConfigError if the topic or the value is missing, or if a column has the wrong type. A timestamp column of the wrong type is only
    ignored, with a warning.
    """
    types = {field.name: field.dataType for field in schema.fields if field.name in _ACCEPTED}
    if options.topic is not None:
        types.pop("topic", None)
    elif "topic" not in types:
        raise ConfigError("no topic to write to: give the option 'topic', or a column 'topic'")
    if "value" not in types:
        raise ConfigError(f"a levada sink needs a column 'value'; the rows have {', '.join(schema.fieldNames()) or 'none'}")
    if "timestamp" in types and not _is_accepted("timestamp", types["timestamp"]):
        # Spark's own connector ignores this column, so in a job written for that connector it may have any type.
        unused = types.pop("timestamp").simpleString()
        logger.warning("column 'timestamp' is not used, because it is %s; with type timestamp it would set the records' timestamps", unused)
    for name, found in types.items():
        if name in options.formats:
            options.formats[name].check(name, written_type(name, found), name_of)
        else:
            _check_type(name, found)
    return tuple(types)


def _check_type(name: str, found: DataType) -> None:
    if not _is_accepted(name, found):
        accepted = " or ".join(kind.simpleString() for kind in _ACCEPTED[name])
        advice = f"cast it, or set the option {name}.format" if isinstance(found, StructType) and name in SIDES else "cast it"
        raise ConfigError(f"column '{name}' must be {accepted}, but is {found.simpleString()}; {advice}")


def _is_accepted(name: str, found: DataType) -> bool:
    """Whether a column's type can be written without a format. Text with a collation counts as text."""
    return plain(found).simpleString() in [kind.simpleString() for kind in _ACCEPTED[name]]


def write(batches: Iterator[pa.RecordBatch], columns: Sequence[str], options: SinkOptions, turn: Turn) -> Written:
    """Send every row and wait for every acknowledgement. Raises the first error; it says whether its record may be persisted."""
    begin_task()
    rows = 0
    with reused_producer(options.client, options.partitioner) as producer:
        outstanding = Outstanding()
        for topic, records, _ in _placed(batches, columns, options, producer, turn):
            rows += records.num_rows
            outstanding.add(producer.send_arrow(topic, records, **roles(records.schema)))
        producer.flush()
        outstanding.wait()
    return Written(rows)


def seal(
    batches: Iterator[pa.RecordBatch], columns: Sequence[str], options: SinkOptions, once: ExactlyOnce, batch: BatchId
) -> WriterCommitMessage:
    """Return the commit message with the rows as record batches. If the rows are too large for it, write them into a slot instead."""
    begin_task()
    task, attempt = task_under_way()
    sink = once.name_for(once.id_for(batch))
    turn = turn_of_task(sink, batch.number)

    def open_slot() -> OpenSlot:
        name = SlotName.of(batch, task, attempt)
        full_name = name.within(sink)
        producer = slot_producer(options.client, options.partitioner, full_name)
        return OpenSlot(producer, name, full_name, {once.ledger: OffsetAndMetadata(batch.number)}, options.client)

    # This producer sends nothing, so it needs no producer id.
    sealer = reused_producer({**options.client, "enable.idempotence": "false"}, options.partitioner)
    with once.explained(sink), sealer as producer:
        sealing = Sealing(producer, budget_of_task(once, task), open_slot)
        try:
            for topic, records, given in _placed(batches, columns, options, producer, turn):
                sealing.add(topic, records, given)
            return sealing.finish(batch, task)
        except BaseException as error:
            sealing.give_up(error)
            raise


class _Placed(NamedTuple):
    """Rows of one topic. records: with the partitions that the sink has chosen. given: the same rows without the chosen partitions."""

    topic: str
    records: pa.RecordBatch
    given: pa.RecordBatch


def _placed(
    batches: Iterator[pa.RecordBatch], columns: Sequence[str], options: SinkOptions, producer: KafkaProducer, turn: Turn
) -> Iterator[_Placed]:
    """Turn rows into records with partitions, and divide them by topic.

    columns: names from sink_columns(). turn: determines the partition with which the task begins.
    """
    encoders = {name: options.formats[name].encoder(name) for name in columns if name in options.formats}
    spreads: dict[str, Spread] = {}
    for batch in batches:
        for topic, given in by_topic(as_records(batch, columns, encoders), options.topic):
            partitions = partitions_of(producer, topic, options)
            if topic not in spreads:
                spreads[topic] = Spread(options.batch_size, turn)
            yield _Placed(topic, with_partitions(given, options.spreads, spreads[topic], partitions), given)


def partitions_of(producer: KafkaProducer, topic: str, options: SinkOptions) -> list[int]:
    """Return the partitions of a topic that have a leader, or all its partitions if none has a leader.

    Raises UnknownTopicOrPartitionError if the topic does not exist and brokers do not create it automatically.
    """
    try:
        infos = producer.partitions_for(topic, timeout=options.topic_timeout_s)
    except UnknownTopicOrPartitionError as unknown:
        named = "option 'topic'" if options.topic is not None else "column 'topic'"
        limit = "kafka.max.block.ms" if options.topic_timeout_s is None else f"{options.topic_timeout_s:g} s"
        raise UnknownTopicOrPartitionError(
            f"topic '{topic}' does not exist, and did not appear within {limit}; create it, or check the {named} (kafka.max.block.ms sets "
            "how long a task waits for brokers that create topics automatically)"
        ) from unknown
    except TimeoutError:
        # The brokers have not answered, so the topic may exist. Wait for their answer up to max.block.ms, like send() does.
        infos = producer.partitions_for(topic)
    return [info.partition for info in infos if info.leader != -1] or [info.partition for info in infos]


def with_partitions(records: pa.RecordBatch, spreads: Spreads, spread: Spread, partitions: Sequence[int]) -> pa.RecordBatch:
    """Return the records with partitions for those rows without a partition that `spreads` selects.

    For other rows without a partition, the producer chooses it.
    """
    names, rows = records.schema.names, records.num_rows
    if spreads is Spreads.NONE or not partitions or not rows:
        return records
    decide = [records.column(name) for name in (("partition", "key") if spreads is Spreads.KEYLESS else ("partition",)) if name in names]
    if any(column.null_count == 0 for column in decide):
        return records
    if all(column.null_count == rows for column in decide):
        # The usual case. Masks would take nearly as long as writing the records of such a batch.
        chosen = spread.deal(rows, records.nbytes, partitions)
    else:
        import pyarrow.compute as pc

        open_rows = reduce(pc.and_, [column.is_null() for column in decide])
        count = open_rows.true_count
        if count == 0:
            return records
        named = records.column("partition") if "partition" in names else pa.nulls(rows, pa.int32())
        chosen = pc.replace_with_mask(named, open_rows, spread.deal(count, records.nbytes * count // rows, partitions))
    if "partition" in names:
        return records.set_column(names.index("partition"), "partition", chosen)
    return records.append_column("partition", chosen)


def as_records(batch: pa.RecordBatch, columns: Sequence[str], encoders: Mapping[str, Encode] = NO_ENCODERS) -> pa.RecordBatch:
    """Return the given columns of a batch, with keys and values as bytes.

    columns: names from sink_columns(). encoders: for each column with a format, the function that encodes it. Other text becomes UTF-8
    without being copied.
    """
    encode = {"key": _as_bytes, "value": _as_bytes, **encoders}
    arrays = [encode[name](batch.column(name)) if name in encode else batch.column(name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _as_bytes(array: pa.Array) -> pa.Array:
    return array if pa.types.is_binary(array.type) else array.cast(pa.binary())


def by_topic(records: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Split rows by topic. Yield (topic, rows without the topic column), with the rows of a topic in their order.

    topic: the option 'topic', for all rows; None to read the topics from the column. Raises SerializationError for a row without a topic.
    """
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

    # sort_indices is stable, so the rows of each topic become adjacent and stay in order.
    sorted_rest = rest.take(pc.sort_indices(topics.indices))
    counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(topics.indices).to_pylist()}
    begin = 0
    for code in sorted(counts):
        yield topics.dictionary[code].as_py(), sorted_rest.slice(begin, counts[code])
        begin += counts[code]


def check_all_written(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Raise IllegalStateError if a task did not write.

    Under Trigger.Continuous Spark calls commit() but never write(). Spark only logs this error and continues. The epoch stays uncommitted,
    so the checkpoint does not record rows as written that no task has written.
    """
    silent = sum(message is None for message in messages)
    if silent:
        raise IllegalStateError(
            f"{silent} of {len(messages)} tasks wrote nothing, but Spark commits: their rows would be lost. Trigger.Continuous "
            "does not work with Python sinks; use trigger(processingTime=...) or trigger(availableNow=True)"
        )


_begun: set[tuple[int, str, str | None, str | None]] = set()


def begin_writing(options: SinkOptions) -> None:
    """Log the sink's guarantee and check that the topics of its options exist, before tasks start.

    Done once in a process for each cluster and topics. Raises UnknownTopicOrPartitionError if the topic does not exist and brokers do not
    create it automatically, or if the ledger's topic does not exist.
    """
    begin_task()
    ledger_topic = None if options.exactly_once is None else options.exactly_once.ledger_topic
    key = (os.getpid(), options.client["bootstrap.servers"], options.topic, ledger_topic)
    if key in _begun:
        return
    promise = "at least once" if options.exactly_once is None else "exactly once, for readers with isolation.level=read_committed"
    logger.info("rows are written to %s %s", options.topic or "the topics that they name", promise)
    if options.topic is not None and not _exists(options.topic, options.client):
        with reused_producer(options.client, options.partitioner) as producer:
            count = len(partitions_of(producer, options.topic, options))
        logger.warning("topic '%s' did not exist; the brokers have created it automatically; partitions: %d", options.topic, count)
    if ledger_topic is not None and ledger_topic != options.topic and not _exists(ledger_topic, options.client):
        raise UnknownTopicOrPartitionError(f"topic '{ledger_topic}' does not exist; create it, or check the option 'ledgerTopic'")
    _begun.add(key)


def _exists(topic: str, client: Mapping[str, str]) -> bool:
    with fresh_admin(client) as admin:
        try:
            admin.describe_topics([topic])
        except UnknownTopicOrPartitionError:
            return False
    return True


def _write(writer: BatchWriter | StreamWriter, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
    options, once = writer.options, writer.options.exactly_once
    if once is None:
        return write(batches, writer.columns, options, turn_of_task(writer.run_id))
    batch = batch_of_task(once, writer.run_id, streaming=isinstance(writer, StreamWriter))
    return seal(batches, writer.columns, options, once, batch)


def _commit(options: SinkOptions, messages: list[WriterCommitMessage | None]) -> None:
    check_all_written(messages)
    if options.exactly_once is None:
        return
    # An older levada in the executors may return messages of another form.
    sealed = [
        message
        for message in messages
        if isinstance(message, SealedRows) and hasattr(message, "task") and (message.slot is None or message.begun_ms is not None)
    ]
    if len(sealed) != len(messages):
        raise IllegalStateError(
            "a task has returned no record batches: driver and executors have different versions of levada; nothing was written"
        )
    exactly_once.commit(sealed, options.exactly_once, options.client)


def _abort(options: SinkOptions, messages: list[WriterCommitMessage | None]) -> None:
    if options.exactly_once is not None:
        exactly_once.abort([message for message in messages if isinstance(message, SealedRows)], options.exactly_once, options.client)


class BatchWriter(DataSourceArrowWriter):
    """The sink of a batch query. run_id: identifies this write if it is not part of a streaming query."""

    def __init__(self, options: SinkOptions, columns: Sequence[str]) -> None:
        self.options = options
        self.columns = columns
        self.run_id = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task; for exactly once, seal them or write them into a slot."""
        return _write(self, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """For exactly once, write and commit the rows of all tasks. For at least once, they are acknowledged already."""
        _commit(self.options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort the slots of a write that was not committed. If the batch was decided already, commit them instead."""
        _abort(self.options, messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """The sink of a streaming query. Spark makes one writer for the tasks of a batch, and another one that commits the batch."""

    def __init__(self, options: SinkOptions, columns: Sequence[str]) -> None:
        self.options = options
        self.columns = columns
        self.run_id = ""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task; for exactly once, seal them or write them into a slot."""
        return _write(self, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """For exactly once, write and commit the rows of all tasks. For at least once, they are acknowledged already."""
        _commit(self.options, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Abort the slots of a write that was not committed. If the batch was decided already, commit them instead."""
        _abort(self.options, messages)
