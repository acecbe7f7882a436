"""Reading and writing with typed options: they fill in Spark's own reader and writer, and hand those out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from levada.errors import ConfigError
from levada.spark.keywords import as_text, texts
from levada.spark.option_text import BOOTSTRAP, KAFKA, REGISTRY

if TYPE_CHECKING:
    from typing import Unpack

    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from levada.config.typed import ConsumerSettings, ProducerSettings, RegistrySettings
    from levada.spark.keywords import ReadOptions, WriteOptions

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

    options: those of docs/SPARK.md, as keywords, with an underscore for each dot; values may be Python's own (True, a mapping, a list, an
    aware datetime, a timedelta). schema: the columns wanted, as `.schema()` takes them; default: all. kafka: settings of KafkaConsumer,
    which are the options kafka.*. registry: settings of SchemaRegistryClient, which are the options schema.registry.*. Raises ConfigError
    for a value that is no option; Spark raises its own error for what the source refuses.
    """
    reader = spark.readStream if stream else spark.read
    if schema is not None:
        reader = reader.schema(schema)
    return reader.format(FORMAT).options(**_options(bootstrap_servers, kafka, registry, options)).load()


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
    """Return Spark's own writer, `frame.write.format("levada").mode("append")`, or with stream=True `frame.writeStream`, with its options.

    Nothing is written yet: call `save()` of the one, and of the other `option("checkpointLocation", ...)`, `trigger(...)` and `start()`.
    options, kafka, registry: as for read_kafka(), kafka with the settings of KafkaProducer. Raises ConfigError for a value that is no
    option.
    """
    given = _options(bootstrap_servers, kafka, registry, options)
    if stream:
        return frame.writeStream.format(FORMAT).options(**given)
    return frame.write.format(FORMAT).mode("append").options(**given)


def _options(
    bootstrap_servers: str | Sequence[str], kafka: Mapping[str, Any] | None, registry: Mapping[str, Any] | None, options: Mapping[str, Any]
) -> dict[str, str]:
    settings = texts(kafka or {}, KAFKA)
    if BOOTSTRAP in settings:
        raise ConfigError("the brokers are given twice: leave bootstrap_servers out of 'kafka'")
    return {BOOTSTRAP: as_text(BOOTSTRAP, bootstrap_servers), **settings, **texts(registry or {}, REGISTRY), **texts(options)}
