"""The names of the options of source and sink, and the types that `read_kafka` and `write_kafka` take for them as keywords.

A keyword is the option's name with an underscore for each dot. docs/SPARK.md says what each option does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from levada.base.clock import epoch_ms
from levada.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

ReadFormat: TypeAlias = Literal[
    "binary", "json", "json-schema", "string", "csv", "avro", "confluent-avro", "protobuf", "confluent-protobuf"
]
WriteFormat: TypeAlias = Literal["binary", "json", "json-schema", "avro", "confluent-avro", "protobuf", "confluent-protobuf"]
Partition: TypeAlias = int | str
"""A partition's number, as an int or as text. JSON has only text for keys."""
Offsets: TypeAlias = Mapping[str, Mapping[Partition, int]]
"""By topic and partition; -2 is earliest, -1 latest."""
Time: TypeAlias = datetime | int
"""An aware datetime, or milliseconds since the epoch."""
Times: TypeAlias = Mapping[str, Mapping[Partition, Time]]
Duration: TypeAlias = timedelta | int | str
"""A timedelta, milliseconds, or text such as 15m."""


class EitherOptions(TypedDict, total=False):
    """The options that source and sink share."""

    unknownOptions: Literal["fail", "warn"]
    """Whether an option that levada does not know is an error. Default: fail."""
    key_avro_schema: str
    """The Avro schema of keys, as JSON text."""
    value_avro_schema: str
    """The Avro schema of values, as JSON text."""
    key_subject: str
    """The registry's subject of the schemas of keys. Default: <topic>-key, if the options name exactly one topic."""
    value_subject: str
    """The registry's subject of the schemas of values. Default: <topic>-value, if the options name exactly one topic."""
    key_protobuf_descriptor: str
    """A file with the Protobuf descriptors for keys, as protoc writes it, or its content in base64."""
    key_protobuf_message: str
    """The full name of the Protobuf message for keys."""
    value_protobuf_descriptor: str
    """A file with the Protobuf descriptors for values, as protoc writes it, or its content in base64."""
    value_protobuf_message: str
    """The full name of the Protobuf message for values."""


class ReadOptions(EitherOptions, total=False):
    """The options of a source."""

    subscribe: str | Sequence[str]
    """Topics; give this, subscribePattern or assign."""
    subscribePattern: str
    """A regular expression in Java's syntax. It selects the topics in whose name it matches anywhere."""
    assign: Mapping[str, Sequence[int]] | str
    """Partitions by topic."""
    startingOffsets: Literal["earliest", "latest", "group"] | Offsets | str
    """Where to begin; group: at the committed offsets of kafka.group.id. Default: latest for a stream, earliest for a batch query."""
    commitOffsets: bool
    """Whether the stream commits its progress as offsets of the group kafka.group.id. Default: False."""
    startingTimestamp: Time
    """Begin at the first record at or after this time."""
    startingOffsetsByTimestamp: Times | str
    """Like startingTimestamp, with a time for each partition."""
    startingOffsetsByTimestampStrategy: Literal["error", "latest"]
    """What to do if a partition has no record at or after the starting time. Default: error."""
    endingOffsets: Literal["latest"] | Offsets | str
    """Where a batch query ends. Default: latest."""
    endingTimestamp: Time
    """End before the first record at or after this time; batch only."""
    endingOffsetsByTimestamp: Times | str
    """Like endingTimestamp, with a time for each partition."""
    failOnDataLoss: bool
    """Whether the query fails when records were deleted before it has read them. Default: True."""
    onDataLoss: Literal["fail", "earliest", "skip"]
    """Whether the query fails when records are lost, or where it continues in a topic that was created again. Default: fail, or earliest if
    failOnDataLoss is false.
    """
    pushFilters: bool
    """Use the filters of a batch query to read less; only for a DataFrame that is used once. Default: False."""
    includeHeaders: bool
    """Add the column headers. Default: False."""
    columns: str | Sequence[str]
    """The columns to return, in this order. Default: all, with headers only if includeHeaders is true."""
    maxOffsetsPerTrigger: int
    """The most offsets to read in a micro-batch."""
    minOffsetsPerTrigger: int
    """Begin a micro-batch when this many offsets are available, or after maxTriggerDelay."""
    maxTriggerDelay: Duration
    """How long minOffsetsPerTrigger waits. Default: 15m."""
    availableNow: bool
    """Whether the trigger is availableNow or once; needed for PySpark 4.0 and 4.1, which do not tell the source. Default: unknown."""
    minPartitions: int
    """The least number of tasks, approximately."""
    maxRecordsPerPartition: int
    """The most offsets that a task reads."""
    recordsPerTask: int
    """Small partitions share a task up to this number of offsets. No effect with minPartitions. Default: 100000."""
    kafkaConsumer_pollTimeoutMs: Duration
    """A task fails when it has read nothing for this time. Default: 120000 ms."""
    fetchOffset_numRetries: int
    """How often the driver or a task asks again before it reports that records are lost. Default: 3."""
    fetchOffset_retryIntervalMs: int
    """Milliseconds between these attempts. Default: 1000."""
    groupIdPrefix: str
    """No effect: levada reads without being a member of a group."""
    key_format: ReadFormat
    """The format in which a task decodes keys. Default: binary, keys are not decoded."""
    value_format: ReadFormat
    """The format in which a task decodes values. Default: binary, values are not decoded."""
    key_schema: StructType | str
    """The fields of a key in JSON or CSV."""
    value_schema: StructType | str
    """The fields of a value in JSON or CSV."""
    key_csv_sep: str
    """The separator between the fields of a key. Default: a comma."""
    value_csv_sep: str
    """The separator between the fields of a value. Default: a comma."""
    key_raw: str
    """Add a column of this name with the key's bytes."""
    value_raw: str
    """Add a column of this name with the value's bytes."""
    mode: Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]
    """What to do with a key or value that its format cannot decode. Default: PERMISSIVE."""
    columnNameOfCorruptRecord: str
    """Add a column of this name with the text of a key or value that could not be decoded."""


class WriteOptions(EitherOptions, total=False):
    """The options of a sink."""

    key_format: WriteFormat
    """The format in which the column key is written. Default: binary, keys are written unchanged."""
    value_format: WriteFormat
    """The format in which the column value is written. Default: binary, values are written unchanged."""
    key_json_schema: str
    """The JSON Schema of keys, as text. Default: the latest one of the subject."""
    value_json_schema: str
    """The JSON Schema of values, as text. Default: the latest one of the subject."""
    topic: str
    """The topic to write to; takes precedence over a column topic."""
    delivery: Literal["at-least-once", "exactly-once"]
    """The guarantee for consumers that read committed records. Default: at-least-once."""
    exactlyOnce_id: str
    """The sink's unique id; needed for two writes in one foreachBatch. Default: the id of the streaming query."""
    exactlyOnce_batchId: int
    """The batch's number, which must rise. Needed where Spark gives none: in threads of foreachBatch, and in jobs that are repeated."""
    transactionalIdPrefix: str
    """The prefix of the transactional id and of the ledger's group. Default: levada-."""
    ledgerTopic: str
    """The id of the last batch is kept as a committed offset of partition 0 of this topic. Default: the option topic."""
    onMissingLedger: Literal["warn", "fail", "write"]
    """What to do if the ledger has no entry and this is not the query's first batch. Default: warn."""
    onLedgerAhead: Literal["fail", "skip"]
    """What to do if a later batch was written already. Default: fail."""
    onOtherRows: Literal["fail", "skip"]
    """What to do if this batch was written already, with different rows. Default: fail."""
    onLostSlot: Literal["fail", "rewrite", "skip"]
    """What to do if rows of a decided batch are lost and the same rows cannot be written again. Default: fail."""
    inlineMaxBytes: int
    """About how many bytes of record batches the driver writes per micro-batch. A task with more than its share writes all its rows itself.
    Default: 16777216.
    """
    partitioner: Literal["default", "round_robin"]
    """How to choose the partition of a row that names none. Default: by key like Java's client; rows without a key are spread evenly."""


def spelled(keyword: str) -> str:
    """Return the name of the option that a keyword stands for."""
    return keyword.replace("_", ".")


def names_of(options: type) -> tuple[str, ...]:
    """Return the names of the options of ReadOptions or WriteOptions."""
    return tuple(spelled(keyword) for keyword in options.__annotations__)


def texts(options: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return keywords as options for Spark: names with dots, values as text.

    prefix: added to each name that does not begin with this prefix. Raises ConfigError for a value that cannot be text.
    """
    named = {prefix + spelled(keyword).removeprefix(prefix): value for keyword, value in options.items()}
    return {name: as_text(name, value) for name, value in named.items()}


def as_text(name: str, value: object) -> str:
    """Return the value of an option as text. Raises ConfigError for a value that cannot be text, such as a function.

    A timedelta becomes milliseconds ("500ms"), an aware datetime milliseconds since the epoch, a mapping JSON, a sequence its values
    separated by commas, and a StructType its DDL.
    """
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case timedelta():
            return f"{value // timedelta(milliseconds=1)}ms"
        case datetime():
            return str(_epoch_ms(name, value))
        case Mapping():
            return json.dumps(_plain(name, value))
        case Sequence() if not isinstance(value, bytes | bytearray | memoryview):
            return ",".join(as_text(name, item) for item in value)
    if callable(to_ddl := getattr(value, "toDDL", None)):
        return str(to_ddl())
    raise _no_text(name, value)


def _plain(name: str, value: object) -> object:
    """Return a value for json.dumps(): keys as text, datetimes as milliseconds since the epoch. Raises ConfigError for other types."""
    match value:
        case str() | int() | float():
            return value
        case Mapping():
            return {str(key): _plain(name, inner) for key, inner in value.items()}
        case Sequence() if not isinstance(value, bytes | bytearray | memoryview):
            return [_plain(name, item) for item in value]
        case datetime():
            return _epoch_ms(name, value)
    raise _no_text(name, value)


def _no_text(name: str, value: object) -> ConfigError:
    return ConfigError(f"option '{name}': cannot send {value!r} to Spark's tasks; an option is text, a number, true or false, or a list")


def _epoch_ms(name: str, time: datetime) -> int:
    try:
        return epoch_ms(time)
    except ValueError as fault:
        raise ConfigError(f"option '{name}': {fault}") from None
