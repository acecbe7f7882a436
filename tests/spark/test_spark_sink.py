"""Rows become records, against a producer without a network (spark.md 1.2, 2.3)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, DoubleType, IntegerType, LongType, StringType, StructField, StructType

from levada import KafkaAdmin, KafkaConsumer, scan
from levada.errors import (
    ConfigError,
    DeliveryTimeout,
    IllegalStateError,
    Persisted,
    SerializationError,
    TimeoutError,
    UnknownTopicOrPartitionError,
)
from levada.spark.options.keywords import texts
from levada.spark.options.options import sink_options, source_options
from levada.spark.schema import HEADERS
from levada.spark.sink import writing as sink
from levada.spark.sink.spread import Turn
from levada.spark.sink.writing import StreamWriter, Written, as_records, by_topic, sink_columns, write
from levada.spark.source.cluster import KafkaCluster
from levada.testing import EmbeddedKafka
from levada.types import PartitionInfo, TopicPartition
from spark_sink import close_idle

KAFKA = {"kafka.bootstrap.servers": "localhost:9092"}
TO_T = sink_options({**KAFKA, "topic": "t"})
BY_COLUMN = sink_options(KAFKA)
FIRST = Turn(0, 0, 0)


def schema_of(**types: Any) -> Any:
    return StructType([StructField(name, kind) for name, kind in types.items()])


class FakeDelivery:
    def __init__(self, fault: Any) -> None:
        self.fault = fault

    def result(self, timeout: Any = None) -> Any:
        if self.fault is not None:
            raise self.fault
        return self


class FakeProducer:
    def __init__(self, fault: Any = None) -> None:
        self.fault = fault
        self.sent: list[Any] = []
        self.flushed = False
        self.partitioner = ""

    def partitions_for(self, topic: Any, timeout: Any = None) -> Any:
        return [PartitionInfo(topic, 0, 1, 0, (1,), (1,))]

    def send_arrow(self, topic: Any, table: Any, **columns: Any) -> Any:
        self.sent.append((topic, table, columns))
        return FakeDelivery(self.fault)

    def flush(self) -> None:
        self.flushed = True


@pytest.fixture
def producer(monkeypatch: Any) -> Any:
    fake = FakeProducer()

    @contextmanager
    def reuse(settings: Any, partitioner: Any) -> Any:
        fake.partitioner = partitioner
        yield fake

    monkeypatch.setattr(sink, "reused_producer", reuse)
    return fake


def test_value_is_all_a_record_needs() -> None:
    assert sink_columns(schema_of(value=StringType()), TO_T) == ("value",)


def test_columns_of_no_meaning_are_left_alone() -> None:
    assert sink_columns(schema_of(extra=DoubleType(), value=BinaryType(), key=StringType()), TO_T) == ("value", "key")


def test_the_topic_option_wins_over_the_column() -> None:
    columns = schema_of(topic=StringType(), value=BinaryType())
    assert sink_columns(columns, TO_T) == ("value",)
    assert sink_columns(columns, BY_COLUMN) == ("topic", "value")


def test_columns_that_are_not_used_may_have_any_type(caplog: pytest.LogCaptureFixture) -> None:
    columns = schema_of(value=StringType("UNICODE"), topic=IntegerType(), timestamp=StringType())
    assert sink_columns(columns, TO_T) == ("value",)
    assert "column 'timestamp' is not used, because it is string" in caplog.text


def test_all_columns_of_the_connector() -> None:
    columns = schema_of(key=BinaryType(), value=StringType(), headers=HEADERS, topic=StringType(), partition=IntegerType())
    assert sink_columns(columns, BY_COLUMN) == ("key", "value", "headers", "topic", "partition")


def test_what_makes_no_record_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs a column 'value'; the rows have a, b"):
        sink_columns(schema_of(a=StringType(), b=StringType()), TO_T)
    with pytest.raises(ConfigError, match="give the option 'topic', or a column 'topic'"):
        sink_columns(schema_of(value=StringType()), BY_COLUMN)
    with pytest.raises(ConfigError, match="column 'value' must be string or binary, but is double; cast it"):
        sink_columns(schema_of(value=DoubleType()), TO_T)
    with pytest.raises(ConfigError, match="column 'partition' must be int, but is bigint"):
        sink_columns(schema_of(value=StringType(), partition=LongType()), TO_T)
    with pytest.raises(ConfigError, match="column 'headers' must be array<struct<key:string,value:binary>>"):
        sink_columns(schema_of(value=StringType(), headers=StringType()), TO_T)


def test_text_becomes_bytes_without_a_copy() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["ä", None], "key": [b"k", b""], "extra": [1, 2]})
    records = as_records(batch, ("key", "value"))
    assert records.to_pydict() == {"key": [b"k", b""], "value": ["ä".encode(), None]}
    assert records.column("value").buffers()[2].address == batch.column("value").buffers()[2].address


def test_rows_are_split_by_topic_in_their_order() -> None:
    topics = ["b", "a", "b", "c", "a", "b"]
    batch = pa.RecordBatch.from_pydict({"topic": topics, "value": [b"%d" % row for row in range(6)]})
    parts = {topic: part.column("value").to_pylist() for topic, part in by_topic(batch, None)}
    assert parts == {"a": [b"1", b"4"], "b": [b"0", b"2", b"5"], "c": [b"3"]}


def test_a_slice_is_split_by_topic_too() -> None:
    batch = pa.RecordBatch.from_pydict({"topic": ["x", "b", "a", "b"], "value": [b"0", b"1", b"2", b"3"]}).slice(1)
    assert {topic: part.column("value").to_pylist() for topic, part in by_topic(batch, None)} == {"a": [b"2"], "b": [b"1", b"3"]}


def test_rows_of_one_topic_are_not_moved() -> None:
    batch = pa.RecordBatch.from_pydict({"topic": ["a", "a"], "value": [b"0", b"1"]})
    ((topic, part),) = by_topic(batch, None)
    assert topic == "a"
    assert part.column("value").buffers()[2].address == batch.column("value").buffers()[2].address


def test_a_row_without_a_topic_is_an_error() -> None:
    batch = pa.RecordBatch.from_pydict({"topic": pa.array(["a", None]), "value": [b"0", b"1"]})
    with pytest.raises(SerializationError, match="1 of 2 rows have no topic"):
        list(by_topic(batch, None))


def test_Y3_a_task_sends_whole_columns_and_reports_when_all_are_acknowledged(producer: Any) -> None:
    batches = [pa.RecordBatch.from_pydict({"key": ["a"] * size, "value": ["v"] * size}) for size in (3, 2, 0)]
    assert write(iter(batches), ("key", "value"), TO_T, FIRST) == Written(rows=5)
    assert [(topic, table.num_rows, columns) for topic, table, columns in producer.sent] == [
        ("t", 3, {"key": "key", "value": "value"}),
        ("t", 2, {"key": "key", "value": "value"}),
    ]
    assert producer.flushed


def test_Y3_a_failed_delivery_fails_the_task(producer: Any) -> None:
    producer.fault = DeliveryTimeout("t-0: not acknowledged", Persisted.UNKNOWN)
    with pytest.raises(DeliveryTimeout, match="t-0: not acknowledged; persisted: unknown"):
        write(iter([pa.RecordBatch.from_pydict({"value": [b"v"]})]), ("value",), TO_T, FIRST)


def test_Y3_a_task_that_runs_again_writes_its_rows_again() -> None:
    rows = pa.RecordBatch.from_pydict({"value": ["a", "b"]})
    with EmbeddedKafka(num_partitions=1) as kafka:
        options = sink_options({"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": "t"})
        for _ in range(2):  # Its report was lost: Spark cannot know that the first one wrote all.
            assert write(iter([rows]), ("value",), options, FIRST) == Written(rows=2)
        assert [record.value for record in scan("t", bootstrap_servers=kafka.bootstrap_servers)] == [b"a", b"b"] * 2
        close_idle()


def test_many_batches_are_not_all_held_until_the_end(producer: Any) -> None:
    producer.fault = DeliveryTimeout("t-0", Persisted.NO)
    endless = iter(lambda: pa.RecordBatch.from_pydict({"value": [b"v"]}), None)
    with pytest.raises(DeliveryTimeout):
        write(endless, ("value",), TO_T, FIRST)


def test_a_task_that_wrote_nothing_is_never_committed() -> None:
    writer = StreamWriter(TO_T, ("value",))
    writer.commit([Written(1), Written(0)], 7)
    writer.abort([Written(1), None], 8)
    with pytest.raises(IllegalStateError, match=r"1 of 2 tasks wrote nothing.* Trigger\.Continuous does not work with Python sinks"):
        writer.commit([Written(1), None], 9)


def rows_by_partition(kafka: EmbeddedKafka, topic: str) -> list[int]:
    with KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
        partitions = [TopicPartition(topic, info.partition) for info in consumer.partitions_for(topic)]
        return [end for _, end in sorted(consumer.end_offsets(partitions).items())]


def test_rows_without_a_key_are_spread_over_all_partitions_where_there_are_enough() -> None:
    with EmbeddedKafka(num_partitions=8) as kafka:
        options = sink_options({"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": "t"})
        for batch in range(2):
            write(iter([pa.RecordBatch.from_pydict({"value": [b"v" * 300] * 500})]), ("value",), options, Turn(0, batch, 0))
        assert sum(rows_by_partition(kafka, "t")) == 1000
        assert all(124 <= rows <= 126 for rows in rows_by_partition(kafka, "t"))
        close_idle()


def test_only_rows_without_key_and_partition_are_spread() -> None:
    values = [b"%04000d" % number for number in range(60)]
    keys = [b"same" if number % 3 == 0 else None for number in range(60)]
    named = [3 if number % 3 == 1 else None for number in range(60)]
    batch = pa.RecordBatch.from_pydict({"value": values, "key": keys, "partition": pa.array(named, pa.int32())})
    with EmbeddedKafka(num_partitions=4) as kafka:
        options = sink_options({"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": "t"})
        write(iter([batch]), ("value", "key", "partition"), options, FIRST)
        records = list(scan("t", bootstrap_servers=kafka.bootstrap_servers))
        close_idle()
    assert len({record.partition for record in records if record.key}) == 1
    found = {int(record.value or b""): record.partition for record in records}
    assert all(found[number] == 3 for number in range(1, 60, 3))
    spread = [found[number] for number in range(2, 60, 3)]
    assert [spread.count(partition) for partition in range(4)] == [5] * 4
    assert all(spread[begin : begin + 5] == [spread[begin]] * 5 for begin in range(0, 20, 5)), "runs of neighbours"


def test_with_partitioner_ignore_keys_all_rows_are_spread() -> None:
    batch = pa.RecordBatch.from_pydict({"value": [b"v" * 2000] * 40, "key": [b"same"] * 40})
    with EmbeddedKafka(num_partitions=4) as kafka:
        servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": "t"}
        write(iter([batch]), ("value", "key"), sink_options({**servers, "kafka.partitioner.ignore.keys": "true"}), FIRST)
        assert rows_by_partition(kafka, "t") == [10] * 4
        close_idle()


def test_partitions_without_a_leader_are_left_out_while_others_have_one(producer: Any) -> None:
    leaders = {0: -1, 1: 7, 2: 7}
    producer.partitions_for = lambda topic, timeout: [PartitionInfo(topic, number, leader, 0, (), ()) for number, leader in leaders.items()]
    assert sink.partitions_of(producer, "t", TO_T) == [1, 2]
    leaders.update({1: -1, 2: -1})
    assert sink.partitions_of(producer, "t", TO_T) == [0, 1, 2]


def test_a_topic_that_does_not_exist_fails_the_task_soon_and_by_name(monkeypatch: Any) -> None:
    monkeypatch.setattr("levada.spark.options.options.UNKNOWN_TOPIC_S", 0.3)
    batch = pa.RecordBatch.from_pydict({"value": [b"v"], "topic": ["ordres"]})
    with EmbeddedKafka(auto_create_topics_enable=False) as kafka:
        servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
        with pytest.raises(
            UnknownTopicOrPartitionError,
            match=r"topic 'ordres' does not exist, and did not appear within 0\.3 s; create it, or check the column 'topic'",
        ):
            write(iter([batch]), ("value", "topic"), sink_options(servers), FIRST)
        with pytest.raises(UnknownTopicOrPartitionError, match=r"within kafka\.max\.block\.ms; create it, or check the option 'topic'"):
            write(iter([batch]), ("value",), sink_options({**servers, "topic": "ordres", "kafka.max.block.ms": "400"}), FIRST)


def test_brokers_that_do_not_answer_have_max_block_ms_as_for_any_record(producer: Any) -> None:
    waited: list[Any] = []

    def partitions_for(topic: Any, timeout: Any = None) -> Any:
        waited.append(timeout)
        if timeout is not None:
            raise TimeoutError("no metadata")
        return [PartitionInfo(topic, 0, 1, 0, (), ())]

    producer.partitions_for = partitions_for
    assert sink.partitions_of(producer, "t", TO_T) == [0]
    assert waited == [5.0, None]


def test_a_task_logs_in_with_a_delegation_token_of_the_options() -> None:
    listeners = ["PLAINTEXT", "SASL_PLAINTEXT"]
    with EmbeddedKafka(num_partitions=1, listeners=listeners, users={"etl": "secret"}, delegation_token_secret_key="k3y") as kafka:
        scram = {**kafka.settings_at("SASL_PLAINTEXT"), "sasl_mechanism": "SCRAM-SHA-256"}
        with KafkaAdmin(**scram, sasl_username="etl", sasl_password="secret") as admin:
            token = admin.create_delegation_token()
        login = {**scram, "sasl_username": token.token_id, "sasl_password": token.password, "sasl_tokenauth": "true"}
        options = texts(login, "kafka.")
        write(iter([pa.RecordBatch.from_pydict({"value": [b"v"]})]), ("value",), sink_options({**options, "topic": "t"}), FIRST)
        assert {str(session.principal) for session in kafka.connections() if session.is_by_token} == {"User:etl"}
        client = source_options({**options, "subscribe": "t"}, streaming=False).client
        cluster = KafkaCluster(client)
        assert cluster.latest([TopicPartition("t", 0)]) == {TopicPartition("t", 0): 1}
        cluster.close()
        close_idle()


def test_a_partitioner_is_chosen_by_name(producer: Any) -> None:
    batch = pa.RecordBatch.from_pylist([{"value": "v"}])
    for name in ("default", "round_robin"):
        write(iter([batch]), ["value"], sink_options({**KAFKA, "topic": "t", "partitioner": name}), FIRST)
        assert producer.partitioner == name
    with pytest.raises(ConfigError, match="option 'partitioner': expected default or round_robin, got 'hash'"):
        sink_options({**KAFKA, "topic": "t", "partitioner": "hash"})
    with pytest.raises(ConfigError, match=r"option 'kafka\.partitioner\.class' cannot be set: class names are never looked up"):
        sink_options({**KAFKA, "topic": "t", "kafka.partitioner.class": "org.example.Mine"})
