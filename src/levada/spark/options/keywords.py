"""The options of source and sink: the names that there are, and as keywords the types that `read_kafka` and `write_kafka` take.

A keyword is the option's name with an underscore for each dot. docs/SPARK.md says what each of them does.
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

ReadFormat: TypeAlias = Literal["binary", "json", "string", "csv", "avro", "confluent-avro", "protobuf", "confluent-protobuf"]
WriteFormat: TypeAlias = Literal["binary", "json", "avro", "confluent-avro", "protobuf", "confluent-protobuf"]
Partition: TypeAlias = int | str
"""A partition's number; JSON has only text for it."""
Offsets: TypeAlias = Mapping[str, Mapping[Partition, int]]
"""By topic and partition; -2 is earliest, -1 latest."""
Time: TypeAlias = datetime | int
"""An aware datetime, or milliseconds since the epoch."""
Times: TypeAlias = Mapping[str, Mapping[Partition, Time]]
Duration: TypeAlias = timedelta | int | str
"""A timedelta, milliseconds, or text such as 15m."""


class EitherOptions(TypedDict, total=False):
    """What a source and a sink both take."""

    unknownOptions: Literal["fail", "warn"]
    """Whether an option that levada does not know is an error. Default: fail."""
    key_avro_schema: str
    """The Avro schema of keys, as JSON."""
    value_avro_schema: str
    """The Avro schema of values, as JSON."""
    key_subject: str
    """The registry's subject of the schemas of keys. Default: <topic>-key."""
    value_subject: str
    """The registry's subject of the schemas of values. Default: <topic>-value."""
    key_protobuf_descriptor: str
    """A file with the descriptors of the messages of keys, or their base64."""
    key_protobuf_message: str
    """The full name of the message of keys."""
    value_protobuf_descriptor: str
    """A file with the descriptors of the messages of values, or their base64."""
    value_protobuf_message: str
    """The full name of the message of values."""


class ReadOptions(EitherOptions, total=False):
    """The options of a source."""

    subscribe: str | Sequence[str]
    """Topics; give this, subscribePattern or assign."""
    subscribePattern: str
    """A regular expression in Java's dialect, found anywhere in the name of a topic."""
    assign: Mapping[str, Sequence[int]] | str
    """Partitions by topic."""
    startingOffsets: Literal["earliest", "latest", "group"] | Offsets | str
    """Where to begin; group: where kafka.group.id stands. Default: latest for a stream, earliest for a batch query."""
    commitOffsets: bool
    """Whether the offsets of kafka.group.id follow the stream. Default: False."""
    startingTimestamp: Time
    """Begin at the first record at or after this time."""
    startingOffsetsByTimestamp: Times | str
    """The same for each partition."""
    startingOffsetsByTimestampStrategy: Literal["error", "latest"]
    """What to do where no record is so young. Default: error."""
    endingOffsets: Literal["latest"] | Offsets | str
    """Where a batch query ends. Default: latest."""
    endingTimestamp: Time
    """End before the first record at or after this time; batch only."""
    endingOffsetsByTimestamp: Times | str
    """The same for each partition."""
    failOnDataLoss: bool
    """Whether the query stops when records are gone before they were read. Default: True."""
    onDataLoss: Literal["fail", "earliest", "skip"]
    """The same, and where to go on in a topic that was created again. Default: fail."""
    pushFilters: bool
    """Let filters of a batch query save reading; only for a DataFrame that is used once. Default: False."""
    includeHeaders: bool
    """Add the column headers. Default: False."""
    columns: str | Sequence[str]
    """The columns to ship, in this order. Default: all."""
    maxOffsetsPerTrigger: int
    """Records per micro-batch."""
    minOffsetsPerTrigger: int
    """Wait until so many records are there, or maxTriggerDelay is over."""
    maxTriggerDelay: Duration
    """How long minOffsetsPerTrigger waits. Default: 15m."""
    availableNow: bool
    """Whether the trigger is availableNow or once; for PySpark 4.0 and 4.1, which do not tell. Default: not known."""
    minPartitions: int
    """At least about so many tasks."""
    maxRecordsPerPartition: int
    """Offsets that a task reads at most."""
    recordsPerTask: int
    """Offsets up to which small partitions share a task. Default: 100000."""
    kafkaConsumer_pollTimeoutMs: Duration
    """A task fails when it has read nothing for so long. Default: 120000."""
    fetchOffset_numRetries: int
    """How often the driver looks again before it believes that records are gone. Default: 3."""
    fetchOffset_retryIntervalMs: int
    """How long after. Default: 1000."""
    groupIdPrefix: str
    """No effect: levada reads without being a member of a group."""
    key_format: ReadFormat
    """How keys are decoded in the task. Default: binary, not at all."""
    value_format: ReadFormat
    """How values are decoded in the task. Default: binary, not at all."""
    key_schema: StructType | str
    """The fields of a key in JSON or CSV."""
    value_schema: StructType | str
    """The fields of a value in JSON or CSV."""
    key_csv_sep: str
    """What stands between the fields of a key. Default: a comma."""
    value_csv_sep: str
    """What stands between the fields of a value. Default: a comma."""
    key_raw: str
    """Adds a column of this name with the key's bytes."""
    value_raw: str
    """Adds a column of this name with the value's bytes."""
    mode: Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]
    """What becomes of a key or value that its format cannot read. Default: PERMISSIVE."""
    columnNameOfCorruptRecord: str
    """Adds a column with the text of what could not be read."""


class WriteOptions(EitherOptions, total=False):
    """The options of a sink."""

    key_format: WriteFormat
    """How the column key is written. Default: binary, as it is."""
    value_format: WriteFormat
    """How the column value is written. Default: binary, as it is."""
    topic: str
    """Where to write; wins over a column topic."""
    delivery: Literal["at-least-once", "exactly-once"]
    """What is promised to readers of committed records. Default: at-least-once."""
    exactlyOnce_id: str
    """What tells a sink from others; needed for two writes in one foreachBatch. Default: the id of the streaming query."""
    exactlyOnce_batchId: int
    """The number of the batch, rising, where Spark does not tell it: in threads of foreachBatch, or for jobs that a scheduler repeats."""
    transactionalIdPrefix: str
    """What the transactional id and the ledger's group begin with. Default: levada-."""
    ledgerTopic: str
    """The topic of whose partition 0 the last batch's id is kept as an offset. Default: the option topic."""
    onMissingLedger: Literal["warn", "fail", "write"]
    """What to do where the ledger has no entry for a query that is not at its first batch. Default: warn."""
    onLedgerAhead: Literal["fail", "skip"]
    """What to do where a later batch than this one was written. Default: fail."""
    onOtherRows: Literal["fail", "skip"]
    """What to do where this batch was written with other rows. Default: fail."""
    onLostSlot: Literal["fail", "rewrite", "skip"]
    """What to do where rows of a batch that was decided are lost and cannot be written again exactly. Default: fail."""
    inlineMaxBytes: int
    """Bytes of record batches that go through the driver, per micro-batch; tasks write what is more themselves. Default: 16777216."""
    partitioner: Literal["default", "round_robin"]
    """Who chooses the partition of a row without one. Default: by key as Java does it, spread evenly without a key."""


def spelled(keyword: str) -> str:
    """Return the name of the option that a keyword stands for."""
    return keyword.replace("_", ".")


def names_of(options: type) -> tuple[str, ...]:
    """Return the names of the options of ReadOptions or WriteOptions."""
    return tuple(spelled(keyword) for keyword in options.__annotations__)


def texts(options: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return keywords as Spark takes options: names with dots, values as text. prefix: what names begin with, unless they do already.

    Raises ConfigError.
    """
    named = {prefix + spelled(keyword).removeprefix(prefix): value for keyword, value in options.items()}
    return {name: as_text(name, value) for name, value in named.items()}


def as_text(name: str, value: object) -> str:
    """Write the value of an option as the option's text. Raises ConfigError for one that has none, such as a function."""
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
    """Return what JSON can hold: keys as text, times in milliseconds. Raises ConfigError for what no option says in JSON."""
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
