"""read_kafka and write_kafka: Spark's own reader and writer, with options as keywords."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from pyspark.sql import DataFrameWriter
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

import levada as lv
from levada.errors import ConfigError
from levada.registry import Schema, SchemaRegistryClient
from levada.spark import read_kafka, write_kafka
from levada.spark.options.format_options import READ, SOURCE_FORMAT_OPTIONS
from levada.spark.options.keywords import ReadFormat, ReadOptions, WriteFormat, WriteOptions, as_text, names_of, texts
from levada.spark.options.option_text import REGISTRY
from levada.spark.options.sink_format_options import SINK_FORMAT_OPTIONS, WRITE
from levada.testing import EmbeddedRegistry

NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123_000, tzinfo=dt.UTC)
NOON_MS = 1709208000123


class Recorder:
    """Takes the place of a session or a DataFrame. Its reader and writer record the calls."""

    def __init__(self, **types: DataType) -> None:
        self.told: dict[str, Any] = {}
        self.schema = StructType([StructField(name, kind) for name, kind in (types or {"value": StringType()}).items()])
        self.columns = self.schema.names

    def __getattr__(self, name: str) -> Any:
        if name in ("read", "readStream", "write", "writeStream"):
            self.told["kind"] = name
            return self

        return lambda *arguments, **options: self._note(name, options or arguments)

    def _note(self, name: str, told: Any) -> Recorder:
        self.told[name] = told
        return self


@pytest.fixture
def recorder() -> Any:
    return Recorder()


def test_settings_are_mappings(recorder: Any) -> None:
    with pytest.raises(ConfigError, match=r"registry: expected a mapping of settings, such as {'schema\.registry\.url': \.\.\.}, got str"):
        read_kafka(recorder, "a:1", subscribe="t", registry="http://user:password@host:8081")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="kafka: expected a mapping of settings"):
        write_kafka(recorder, "a:1", topic="t", kafka="acks=all")  # type: ignore[call-overload]


def test_a_keyword_is_the_options_name_with_an_underscore_for_each_dot(recorder: Any) -> None:
    read_kafka(recorder, "a:1", subscribe="t", fetchOffset_numRetries=5, kafka={"isolation_level": "read_committed"})
    assert recorder.told == {
        "kind": "read",
        "format": ("levada",),
        "options": {
            "kafka.bootstrap.servers": "a:1",
            "kafka.isolation.level": "read_committed",
            "subscribe": "t",
            "fetchOffset.numRetries": "5",
        },
        "load": (),
    }


class Context:
    """Takes the place of a SparkContext, with these local properties."""

    def __init__(self, **properties: str) -> None:
        self.getLocalProperty = properties.get


def frame_in(context: Context) -> Any:
    frame = Recorder()
    frame.sparkSession = SimpleNamespace(sparkContext=context)  # type: ignore[attr-defined]
    return frame


ONCE: Any = {"topic": "t", "delivery": "exactly-once", "exactlyOnce_id": "a"}


def test_a_write_that_cannot_be_numbered_is_refused_before_any_task_starts() -> None:
    frame = frame_in(Context())
    with pytest.raises(ConfigError, match=r"'exactlyOnce\.id' needs 'exactlyOnce\.batchId' here"):
        write_kafka(frame, "a:1", **ONCE)
    assert frame.told == {}
    write_kafka(frame, "a:1", **ONCE, exactlyOnce_batchId=1)
    write_kafka(frame_in(Context(**{"sql.streaming.queryId": "q"})), "a:1", **ONCE)
    write_kafka(frame, "a:1", stream=True, **ONCE)


def test_a_stream_that_numbers_its_batches_is_refused_before_it_starts(recorder: Any) -> None:
    with pytest.raises(ConfigError, match=r"option 'exactlyOnce\.batchId' cannot be used by a stream"):
        write_kafka(recorder, "a:1", stream=True, **ONCE, exactlyOnce_batchId=1)
    assert recorder.told == {}


def test_a_stream_and_a_schema(recorder: Any) -> None:
    recorder.schema = lambda *given: recorder._note("schema", given)
    read_kafka(recorder, ["a:1", "b:2"], stream=True, schema="value binary", subscribePattern="t.*")
    assert (recorder.told["kind"], recorder.told["schema"]) == ("readStream", ("value binary",))
    assert recorder.told["options"] == {"kafka.bootstrap.servers": "a:1,b:2", "subscribePattern": "t.*"}


def test_a_batch_is_appended_and_a_stream_is_left_to_spark(recorder: Any) -> None:
    write_kafka(recorder, "a:1", topic="t", kafka={"compression_type": "zstd"})
    options = {"kafka.bootstrap.servers": "a:1", "kafka.compression.type": "zstd", "topic": "t"}
    assert recorder.told == {"kind": "write", "format": ("levada",), "mode": ("append",), "options": options}
    other: Any = Recorder()
    write_kafka(other, "a:1", stream=True, partitioner="round_robin")
    assert other.told["kind"] == "writeStream"
    assert "mode" not in other.told


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (100_000, "100000"),
        ("15m", "15m"),
        (dt.timedelta(minutes=1, milliseconds=5), "60005ms"),
        (NOON, str(NOON_MS)),
        (["a", "b"], "a,b"),
        ({"t": {0: 5, "1": -2}}, '{"t": {"0": 5, "1": -2}}'),
        ({"t": {0: NOON}}, f'{{"t": {{"0": {NOON_MS}}}}}'),
        ({"t": range(3)}, '{"t": [0, 1, 2]}'),
    ],
)
def test_values_of_python_become_the_text_of_options(value: Any, text: str) -> None:
    assert as_text("x", value) == text


def test_what_is_no_option_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"option 'kafka.value.deserializer': cannot send <built-in function len>"):
        texts({"value_deserializer": len}, "kafka.")
    with pytest.raises(ConfigError, match=r"option 'startingTimestamp': .* has no time zone"):
        texts({"startingTimestamp": dt.datetime(2024, 1, 1)})
    for value in (Decimal(5), None, b"5"):
        with pytest.raises(ConfigError, match=rf"option 'startingOffsets': cannot send {re.escape(repr(value))} to Spark's tasks"):
            texts({"startingOffsets": {"t": {0: value}}})
    with pytest.raises(ConfigError, match="option 'assign': cannot send None"):
        texts({"assign": {"t": [0, None]}})
    with pytest.raises(ConfigError, match="the brokers are given twice"):
        read_kafka(Recorder(), "a:1", subscribe="t", kafka={"bootstrap_servers": "b:2"})  # type: ignore[arg-type]


def test_a_wrong_option_of_a_sink_is_told_before_the_query_starts(recorder: Any) -> None:
    numbers: Any = Recorder(value=LongType())
    words: Any = Recorder(topic=StringType(), words=StringType())
    with pytest.raises(ConfigError, match=r"unknown option 'topik'; did you mean 'topic'\?"):
        write_kafka(recorder, "a:1", stream=True, topik="t")  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match=r"option 'kafka\.acks'=0 cannot be used"):
        write_kafka(recorder, "a:1", stream=True, topic="t", kafka={"acks": "0"})
    with pytest.raises(ConfigError, match=r"column 'value' must be string or binary, but is bigint; cast it"):
        write_kafka(numbers, "a:1", stream=True, topic="t")
    with pytest.raises(ConfigError, match=r"needs a column 'value'; the rows have topic, words"):
        write_kafka(words, "a:1", stream=True)
    assert recorder.told == {}


def test_columns_of_a_registrys_schema_are_checked_before_the_query_starts() -> None:
    pytest.importorskip("fastavro", reason="the extra avro is not installed")
    schema = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
    good, bad = (StructType([StructField("id", kind)]) for kind in (LongType(), StringType()))
    with EmbeddedRegistry() as server, SchemaRegistryClient(schema_registry_url=server.url) as registry:
        write: Any = write_kafka
        formats = {"topic": "t", "value_format": "confluent-avro", "registry": {"schema.registry.url": server.url}}
        for given in ({"value_avro_schema": schema}, {}):
            frame = Recorder(value=good)
            write(frame, "a:1", stream=True, **formats, **given)
            assert frame.told["options"]["value.format"] == "confluent-avro"
            with pytest.raises(ConfigError, match=r"column 'value.id' is string, but the Avro schema has long there"):
                write(Recorder(value=bad), "a:1", **formats, **given)
            if given:
                assert server.requests == []
                registry.register_schema("t-value", Schema(schema))


def test_a_topic_may_be_given_to_the_writer_afterwards(recorder: Any) -> None:
    write_kafka(recorder, "a:1", stream=True)
    assert recorder.told["kind"] == "writeStream"


def test_a_wrong_option_of_a_source_is_told_by_read_kafka(recorder: Any) -> None:
    with pytest.raises(ConfigError, match=r"option 'endingOffsets' is for batch queries"):
        read_kafka(recorder, "a:1", stream=True, subscribe="t", endingOffsets="latest")
    with pytest.raises(ConfigError, match=r"a batch query cannot start at latest"):
        read_kafka(recorder, "a:1", subscribe="t", startingOffsets="latest")
    with pytest.raises(ConfigError, match=r"option 'minPartitions': expected a whole number above 0"):
        read_kafka(recorder, "a:1", stream=True, schema="value binary", subscribe="t", minPartitions=0)
    assert recorder.told == {}


def test_over_connect_options_are_checked_by_the_server(recorder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorder, "__module__", "pyspark.sql.connect.session")
    missing: Any = {
        "value_format": "protobuf",
        "value_protobuf_descriptor": "/only/at/the/server.desc",
        "value_protobuf_message": "shop.Order",
    }
    read_kafka(recorder, "a:1", subscribe="t", **missing)
    write_kafka(recorder, "a:1", topic="t", **missing)
    assert recorder.told["kind"] == "write"


def test_every_option_of_a_format_is_a_keyword() -> None:
    for options, of_formats in ((ReadOptions, SOURCE_FORMAT_OPTIONS), (WriteOptions, SINK_FORMAT_OPTIONS)):
        assert set(of_formats) <= set(names_of(options))
        assert {name for name in names_of(options) if name.startswith(("key.", "value."))} <= set(of_formats)
    assert set(get_args(ReadFormat)) == {"binary", *READ}
    assert set(get_args(WriteFormat)) == {"binary", *WRITE}


def test_settings_of_a_registry_are_options() -> None:
    assert texts({"schema_registry_url": "http://h", "basic_auth_user_info": "a:b"}, REGISTRY) == {
        "schema.registry.url": "http://h",
        "schema.registry.basic.auth.user.info": "a:b",
    }


@pytest.mark.spark
def test_both_ways_in_a_real_spark(spark: Any, embedded: Any, new_topic: Any, tmp_path: Any) -> None:
    servers, origin, target = embedded.bootstrap_servers, new_topic(embedded, partitions=2), new_topic(embedded)
    frame = spark.range(50).coalesce(1).selectExpr("cast(id % 2 as int) partition", "concat('{\"id\":', id, '}') value")
    written = write_kafka(frame, servers, topic=origin)
    assert isinstance(written, DataFrameWriter)
    written.save()

    rows = read_kafka(
        spark,
        servers,
        stream=True,
        schema="value struct<id: long>",
        subscribe=[origin],
        startingOffsets={origin: {0: 5, 1: -2}},
        value_format="json",
        value_schema=StructType([StructField("id", LongType())]),
    )
    writer = write_kafka(rows.selectExpr("cast(value.id as string) value"), servers, stream=True, topic=target)
    assert isinstance(writer, DataStreamWriter)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(90)
    found = sorted(int(record.value or b"") for record in lv.scan(target, bootstrap_servers=servers))
    assert found == sorted([*range(10, 50, 2), *range(1, 50, 2)])
