"""The Kafka integration guide of Spark, in Python, section by section: the same code with another format name.

What the guide leaves to its reader is the broker and the names of topics. Batch writes add `.mode("append")`, which Spark asks of every
Python sink.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import levada as lv
from levada.testing import EmbeddedKafka

pytestmark = pytest.mark.spark

FORMAT = "levada"
TOPICS = ("topic1", "topic2")


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """A broker with the guide's topics, ten records in each."""
    with EmbeddedKafka(num_partitions=2) as kafka:
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for topic in TOPICS:
                for number in range(10):
                    producer.send(topic, f"{topic}-{number}", key=str(number), partition=number % 2, headers=[("n", b"%d" % number)])
        yield kafka.bootstrap_servers


WRITTEN = {topic: {(str(number), f"{topic}-{number}") for number in range(10)} for topic in TOPICS}


def pairs(frame: Any) -> set[tuple[str, str]]:
    return {tuple(row) for row in frame.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)").collect()}


def streamed(frame: Any) -> set[tuple[str, str]]:
    """What a stream from the beginning has of a topic."""
    found: set[tuple[str, str]] = set()
    rows = frame.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
    query = rows.writeStream.foreachBatch(lambda batch, _: found.update(map(tuple, batch.collect()))).trigger(availableNow=True).start()
    query.awaitTermination(60)
    return found


# Creating a Kafka source for streaming queries


def test_subscribe_to_one_topic(spark: Any, servers: str) -> None:
    df = spark.readStream.format(FORMAT).option("kafka.bootstrap.servers", servers).option("subscribe", "topic1").load()
    df = df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
    assert df.isStreaming
    assert df.schema.simpleString() == "struct<key:string,value:string>"


def test_subscribe_to_one_topic_with_headers(spark: Any, servers: str) -> None:
    df = (
        spark.read.format(FORMAT)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "topic1")
        .option("includeHeaders", "true")
        .load()
    )
    found = df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "headers").collect()
    assert {(row.key, row.headers[0].key, bytes(row.headers[0].value)) for row in found} == {
        (str(number), "n", b"%d" % number) for number in range(10)
    }


def test_subscribe_to_several_topics(spark: Any, servers: str) -> None:
    df = (
        spark.readStream.format(FORMAT)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "topic1,topic2")
        .option("startingOffsets", "earliest")
        .load()
    )
    assert streamed(df) == WRITTEN["topic1"] | WRITTEN["topic2"]


def test_subscribe_to_a_pattern(spark: Any, servers: str) -> None:
    df = (
        spark.readStream.format(FORMAT)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribePattern", "topic.*")
        .option("startingOffsets", "earliest")
        .load()
    )
    assert streamed(df) == WRITTEN["topic1"] | WRITTEN["topic2"]


# Creating a Kafka source for batch queries


def test_a_batch_of_one_topic_from_earliest_to_latest(spark: Any, servers: str) -> None:
    df = spark.read.format(FORMAT).option("kafka.bootstrap.servers", servers).option("subscribe", "topic1").load()
    assert pairs(df) == WRITTEN["topic1"]


def test_a_batch_of_several_topics_between_offsets(spark: Any, servers: str) -> None:
    df = (
        spark.read.format(FORMAT)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "topic1,topic2")
        .option("startingOffsets", """{"topic1":{"0":2,"1":-2},"topic2":{"0":-2,"1":-2}}""")
        .option("endingOffsets", """{"topic1":{"0":5,"1":-1},"topic2":{"0":-1,"1":-1}}""")
        .load()
    )
    of_topic1 = {pair for pair in WRITTEN["topic1"] if int(pair[0]) % 2 or int(pair[0]) in (4, 6, 8)}
    assert pairs(df) == of_topic1 | WRITTEN["topic2"]


def test_a_batch_of_a_pattern_from_earliest_to_latest(spark: Any, servers: str) -> None:
    df = (
        spark.read.format(FORMAT)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribePattern", "topic.*")
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .load()
    )
    assert pairs(df) == WRITTEN["topic1"] | WRITTEN["topic2"]


def test_a_batch_of_assigned_partitions_and_by_time(spark: Any, servers: str) -> None:
    reader = spark.read.format(FORMAT).option("kafka.bootstrap.servers", servers)
    df = reader.option("assign", """{"topic1":[0]}""").option("startingTimestamp", "1").load()
    assert pairs(df) == {pair for pair in WRITTEN["topic1"] if int(pair[0]) % 2 == 0}


# Writing data to Kafka


def test_write_a_stream_to_the_topic_of_an_option(spark: Any, servers: str, tmp_path: Path) -> None:
    ds = (
        from_earliest(spark, servers)
        .selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
        .writeStream.format(FORMAT)
        .option("kafka.bootstrap.servers", servers)
        .option("checkpointLocation", str(tmp_path))
        .option("topic", "written-by-option")
        .trigger(availableNow=True)
        .start()
    )
    ds.awaitTermination(60)
    assert written(servers, "written-by-option") == Counter(WRITTEN["topic1"])


def test_write_a_stream_to_the_topics_of_a_column(spark: Any, servers: str, tmp_path: Path) -> None:
    ds = (
        from_earliest(spark, servers)
        .selectExpr("concat(topic, '-copy') AS topic", "CAST(key AS STRING)", "CAST(value AS STRING)")
        .writeStream.format(FORMAT)
        .option("kafka.bootstrap.servers", servers)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    ds.awaitTermination(60)
    assert written(servers, "topic1-copy") == Counter(WRITTEN["topic1"])


def test_write_a_batch_to_the_topic_of_an_option(spark: Any, servers: str) -> None:
    df = from_earliest(spark.read, servers)
    writer = df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)").write.format(FORMAT).mode("append")
    writer.option("kafka.bootstrap.servers", servers).option("topic", "batch-by-option").save()
    assert written(servers, "batch-by-option") == Counter(WRITTEN["topic1"])


def test_write_a_batch_to_the_topics_of_a_column(spark: Any, servers: str) -> None:
    df = from_earliest(spark.read, servers)
    writer = df.selectExpr("concat(topic, '-batch') AS topic", "CAST(key AS STRING)", "CAST(value AS STRING)").write.format(FORMAT)
    writer.mode("append").option("kafka.bootstrap.servers", servers).save()
    assert written(servers, "topic1-batch") == Counter(WRITTEN["topic1"])


def from_earliest(spark: Any, servers: str) -> Any:
    reader = getattr(spark, "readStream", spark)
    return (
        reader.format(FORMAT)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "topic1")
        .option("startingOffsets", "earliest")
        .load()
    )


def written(servers: str, topic: str) -> Counter[tuple[str, str]]:
    records = lv.scan(topic, bootstrap_servers=servers)
    return Counter(((record.key or b"").decode(), (record.value or b"").decode()) for record in records)


# Progress


def test_the_progress_of_a_stream_has_the_offsets_of_the_guide(spark: Any, servers: str) -> None:
    query = from_earliest(spark, servers).writeStream.foreachBatch(lambda *_: None).trigger(availableNow=True).start()
    query.awaitTermination(60)
    source = query.lastProgress.sources[0]
    assert json.loads(source.latestOffset) == {"topic1": {"0": 5, "1": 5}}
    assert json.loads(source.endOffset)["topic1"] == {"0": 5, "1": 5}
