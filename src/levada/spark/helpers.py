"""Reading and writing with typed options. These functions set the options of Spark's own reader or writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from levada.errors import ConfigError
from levada.spark.options.keywords import as_text, texts
from levada.spark.options.option_text import BOOTSTRAP, KAFKA, REGISTRY
from levada.spark.options.options import sink_options, source_options
from levada.spark.sink.exactly_once.settings import NO_BATCH, QUERY_ID
from levada.spark.sink.writing import sink_columns

if TYPE_CHECKING:
    from typing import Unpack

    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from levada.config.typed import ConsumerSettings, ProducerSettings, RegistrySettings
    from levada.spark.options.keywords import ReadOptions, WriteOptions

FORMAT = "levada"


def read_kafka(
    spark: SparkSession,
    bootstrap_servers: str | Sequence[str],
    *,
    stream: bool = False,
    schema: StructType | str | None = None,
    kafka: ConsumerSettings[Any, Any] | None = None,
    registry: RegistrySettings | None = None,
    **options: Unpack[ReadOptions],
) -> DataFrame:
    """Return the DataFrame of `spark.read.format("levada").options(...).load()`, or with stream=True of `spark.readStream`.

    options: the options of docs/SPARK.md as keywords, with an underscore for each dot. Values may be Python values: True, a mapping, a
    list, an aware datetime, a timedelta. schema: the columns to read, in the form that `.schema()` takes; default: all. kafka: settings of
    KafkaConsumer (the options kafka.*). registry: settings of SchemaRegistryClient (the options schema.registry.*). Raises ConfigError for
    a wrong option, before Spark is called. For an unknown name in `columns`, and with Spark Connect for every option that the source
    refuses, Spark raises its own error.
    """
    given = _options(bootstrap_servers, kafka, registry, options)
    if not _is_connected(spark):
        source_options(given, streaming=stream)
    reader = spark.readStream if stream else spark.read
    if schema is not None:
        reader = reader.schema(schema)
    return reader.format(FORMAT).options(**given).load()


@overload
def write_kafka(
    frame: DataFrame,
    bootstrap_servers: str | Sequence[str],
    *,
    stream: Literal[False] = False,
    kafka: ProducerSettings[Any, Any] | None = None,
    registry: RegistrySettings | None = None,
    **options: Unpack[WriteOptions],
) -> DataFrameWriter: ...
@overload
def write_kafka(
    frame: DataFrame,
    bootstrap_servers: str | Sequence[str],
    *,
    stream: Literal[True],
    kafka: ProducerSettings[Any, Any] | None = None,
    registry: RegistrySettings | None = None,
    **options: Unpack[WriteOptions],
) -> DataStreamWriter: ...
def write_kafka(
    frame: DataFrame,
    bootstrap_servers: str | Sequence[str],
    *,
    stream: bool = False,
    kafka: ProducerSettings[Any, Any] | None = None,
    registry: RegistrySettings | None = None,
    **options: Unpack[WriteOptions],
) -> DataFrameWriter | DataStreamWriter:
    """Return Spark's own writer with these options: `frame.write.format("levada").mode("append")`, or `frame.writeStream` for stream=True.

    Nothing is written yet. Call `save()`, or for a stream `option("checkpointLocation", ...)`, `trigger(...)` and `start()`.
    options, registry: as for read_kafka(). kafka: settings of KafkaProducer. Raises ConfigError for an option that the sink refuses, and if
    the columns do not make a record; Spark would report that only in save(), or at a stream's first micro-batch. Call this function in the
    thread that writes: elsewhere it refuses exactlyOnce_id without exactlyOnce_batchId. Options that are set on the writer later, and
    options of a Spark Connect session, are checked only when Spark writes.
    """
    given = _options(bootstrap_servers, kafka, registry, options)
    if not _is_connected(frame):
        _check_sink(given, frame, stream=stream)
    if stream:
        return frame.writeStream.format(FORMAT).options(**given)
    return frame.write.format(FORMAT).mode("append").options(**given)


def _is_connected(of_spark: object) -> bool:
    """Whether this is a session or DataFrame of Spark Connect. The files and packages that options need are on the server then."""
    return type(of_spark).__module__.startswith("pyspark.sql.connect.")


def _check_sink(given: Mapping[str, str], frame: DataFrame, *, stream: bool) -> None:
    options = sink_options(given)
    once = options.exactly_once
    if once is not None and stream:
        once.check_stream()
    elif once is not None and once.needs_micro_batch and not frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID):
        # Spark sets the property in the thread that calls foreachBatch. Tasks get the properties of the thread that writes.
        raise ConfigError(NO_BATCH)
    if options.topic is not None or "topic" in frame.columns:
        sink_columns(frame.schema, options)


def _options(
    bootstrap_servers: str | Sequence[str], kafka: Mapping[str, Any] | None, registry: Mapping[str, Any] | None, options: Mapping[str, Any]
) -> dict[str, str]:
    for keyword, given, example in (("kafka", kafka, "client.id"), ("registry", registry, "schema.registry.url")):
        if not isinstance(given, Mapping | None):
            raise ConfigError(f"{keyword}: expected a mapping of settings, such as {{'{example}': ...}}, got {type(given).__name__}")
    settings = texts(kafka or {}, KAFKA)
    if BOOTSTRAP in settings:
        raise ConfigError("the brokers are given twice: leave bootstrap_servers out of 'kafka'")
    return {BOOTSTRAP: as_text(BOOTSTRAP, bootstrap_servers), **settings, **texts(registry or {}, REGISTRY), **texts(options)}
