"""format("levada") in a real Spark: batch and streaming, both ways (issue 3, section 4)."""

from __future__ import annotations

import datetime as dt
import gc
import json
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

import levada as lv
from levada.spark.pyspark_versions import HAS_ADMISSION_CONTROL
from levada.spark.task import begin_task
from levada.testing import EmbeddedKafka

pytestmark = pytest.mark.spark

tells_the_trigger = pytest.mark.skipif(not HAS_ADMISSION_CONTROL, reason="PySpark before 4.2 runs one micro-batch under availableNow")

NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123_000, tzinfo=dt.UTC)


@pytest.fixture
def kafka(embedded: Any) -> Any:
    return embedded


def source(reader: Any, kafka: Any, topic: Any, **options: Any) -> Any:
    return reader.format("levada").options(**{"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, **options}).load()


def sink(writer: Any, kafka: Any, **options: Any) -> Any:
    return writer.format("levada").options(**{"kafka.bootstrap.servers": kafka.bootstrap_servers, **options})


def produce(kafka: Any, topic: Any, values: Any, **record: Any) -> Any:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        sent = [producer.send(topic, value=value, **record) for value in values]
        producer.flush()
        return [delivery.result(timeout=10) for delivery in sent]


def values_in(kafka: Any, topic: Any) -> Any:
    return sorted((record.value or b"").decode() for record in lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers))


def run_to_the_end(writer: Any, checkpoint: Any) -> Any:
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination(90)
    assert not query.isActive
    return query


def test_rows_and_schema_are_those_of_sparks_own_connector(spark: Any, kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka, partitions=2)
    produce(kafka, topic, [b"v0", b""], key=b"k", partition=1, timestamp=NOON, headers=[("trace", b"\x00\xff"), ("none", None)])
    produce(kafka, topic, [None], key=None, partition=0, timestamp=0)

    frame = source(spark.read, kafka, topic, includeHeaders="true")

    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
        "headers:array<struct<key:string,value:binary>>>"
    )
    rows = frame.withColumn("ms", F.unix_millis("timestamp")).drop("timestamp").orderBy("partition", "offset").collect()
    noon_ms = int(NOON.timestamp() * 1000)
    headers = [("trace", bytearray(b"\x00\xff")), ("none", None)]
    assert [tuple(row) for row in rows] == [
        (None, None, topic, 0, 0, 0, None, 0),
        (bytearray(b"k"), bytearray(b"v0"), topic, 1, 0, 0, headers, noon_ms),
        (bytearray(b"k"), bytearray(b""), topic, 1, 1, 0, headers, noon_ms),
    ]


def test_a_batch_is_read_between_offsets_and_in_chosen_columns(spark: Any, kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka, partitions=2)
    produce(kafka, topic, [str(number).encode() for number in range(10)], partition=0)
    options = {"startingOffsets": f'{{"{topic}":{{"0":3,"1":-2}}}}', "endingOffsets": f'{{"{topic}":{{"0":6,"1":-1}}}}'}
    frame = source(spark.read.schema("offset long, value binary"), kafka, topic, **options)
    assert [(row.offset, bytes(row.value)) for row in frame.orderBy("offset").collect()] == [(3, b"3"), (4, b"4"), (5, b"5")]


def test_batch_and_stream_ship_the_columns_that_the_option_names(spark: Any, kafka: Any, new_topic: Any, tmp_path: Any) -> None:
    topic, target = new_topic(kafka), new_topic(kafka)
    produce(kafka, topic, [b"1", b"2"], key=b"k")
    assert source(spark.read, kafka, topic, columns="value,key").schema.simpleString() == "struct<value:binary,key:binary>"
    rows = source(spark.read, kafka, topic, columns="value,key").orderBy("value").collect()
    assert [tuple(row) for row in rows] == [(bytearray(b"1"), bytearray(b"k")), (bytearray(b"2"), bytearray(b"k"))]

    frame = source(spark.readStream, kafka, topic, columns="key,value", startingOffsets="earliest")
    assert frame.columns == ["key", "value"]
    run_to_the_end(sink(frame.writeStream, kafka, topic=target), tmp_path)
    assert values_in(kafka, target) == ["1", "2"]


def test_an_empty_topic_has_no_rows(spark: Any, kafka: Any, new_topic: Any) -> None:
    assert source(spark.read, kafka, new_topic(kafka)).count() == 0


def test_a_batch_is_written_with_every_column(spark: Any, kafka: Any, new_topic: Any) -> None:
    one, other = new_topic(kafka, partitions=2), new_topic(kafka, partitions=2)
    rows = [("a", b"1", one, 1, [("h", b"x")]), (None, b"2", other, 0, None), ("c", None, one, None, [])]
    frame = spark.createDataFrame(
        rows, "key string, value binary, topic string, partition int, headers array<struct<key:string,value:binary>>"
    )
    sink(frame.coalesce(1).write, kafka).mode("append").save()

    first = {record.key: record for record in lv.scan(one, bootstrap_servers=kafka.bootstrap_servers)}
    (second,) = lv.scan(other, bootstrap_servers=kafka.bootstrap_servers)
    assert (first[b"a"].value, first[b"a"].partition, list(first[b"a"].headers)) == (b"1", 1, [("h", b"x")])
    assert (first[b"c"].value, list(first[b"c"].headers)) == (None, [])
    assert (second.key, second.value, second.partition) == (None, b"2", 0)


def test_rows_have_the_timestamps_of_their_column_and_go_round(spark: Any, kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka, partitions=4)
    rows = spark.range(40).selectExpr("'one key' key", "cast(id as string) value", "timestamp_millis(1700000000000 + id) timestamp")
    sink(rows.coalesce(1).write, kafka, topic=topic, partitioner="round_robin").mode("append").save()
    found = list(lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers))
    assert {int(record.value or b""): record.timestamp for record in found} == {number: 1_700_000_000_000 + number for number in range(40)}
    assert [sum(record.partition == number for record in found) for number in range(4)] == [10, 10, 10, 10]


def test_what_spark_wrote_it_reads(spark: Any, kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka, partitions=3)
    frame = spark.range(25_000).selectExpr("cast(id as string) key", "repeat(cast(id as string), 20) value")
    sink(frame.write, kafka, topic=topic, **{"kafka.compression.type": "zstd"}).mode("append").save()
    back = source(spark.read, kafka, topic).selectExpr("cast(key as string) key", "cast(value as string) value")
    assert back.exceptAll(frame).count() == 0
    assert back.count() == 25_000


def run_to_what_is_there(writer: Any, checkpoint: Any) -> Any:
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return query


@pytest.mark.parametrize("run_it", [run_to_what_is_there, pytest.param(run_to_the_end, marks=tells_the_trigger)])
def test_a_stream_runs_from_topic_to_topic_in_limited_batches_and_goes_on(
    spark: Any, kafka: Any, new_topic: Any, tmp_path: Any, run_it: Any
) -> None:
    origin, target = new_topic(kafka, partitions=2), new_topic(kafka, partitions=2)

    def run() -> Any:
        frame = source(spark.readStream, kafka, origin, startingOffsets="earliest", maxOffsetsPerTrigger="400")
        return run_it(sink(frame.select("key", "value").writeStream, kafka, topic=target), tmp_path / "checkpoint")

    produce(kafka, origin, [b"%d" % number for number in range(1000)])
    first = [progress.numInputRows for progress in run().recentProgress if progress.numInputRows]
    assert sum(first) == 1000
    assert len(first) >= 3
    assert max(first) <= 402

    produce(kafka, origin, [b"%d" % number for number in range(1000, 1100)])
    second = run()
    assert sum(progress.numInputRows for progress in second.recentProgress) == 100
    assert values_in(kafka, target) == sorted(str(number) for number in range(1100))


def test_the_option_available_now_has_everything_read(spark: Any, kafka: Any, new_topic: Any, tmp_path: Any) -> None:
    """PySpark before 4.2 runs one micro-batch. So without the option a limit leaves the rest to the next run, which goes on there."""
    origin, target = new_topic(kafka, partitions=2), new_topic(kafka, partitions=2)
    produce(kafka, origin, [b"%d" % number for number in range(1000)])

    def run(**options: Any) -> int:
        frame = source(spark.readStream, kafka, origin, startingOffsets="earliest", maxOffsetsPerTrigger="300", **options)
        query = run_to_the_end(sink(frame.select("value").writeStream, kafka, topic=target), tmp_path / "checkpoint")
        return sum(progress.numInputRows for progress in query.recentProgress)

    assert HAS_ADMISSION_CONTROL or 299 <= run() <= 301
    run(availableNow="true")
    assert values_in(kafka, target) == sorted(str(number) for number in range(1000))
    assert run(availableNow="true") == 0


@contextmanager
def steady_records(kafka: Any, topic: Any) -> Any:
    """Numbered records, one a millisecond, as long as the block lasts."""
    over = threading.Event()

    def send() -> None:
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=0) as producer:
            for number in count():
                producer.send(topic, value=b"%d" % number)
                if over.wait(0.001):
                    return

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_small_micro_batches_without_keys_use_all_partitions_in_turn(
    spark: Any, kafka: Any, new_topic: Any, tmp_path: Any, delivery: str
) -> None:
    topic, target = new_topic(kafka, partitions=1), new_topic(kafka, partitions=8)
    produce(kafka, topic, [b"%02d" % number for number in range(24)])
    frame = source(spark.readStream, kafka, topic, columns="value", startingOffsets="earliest", maxOffsetsPerTrigger="2")
    run_to_what_is_there(sink(frame.writeStream, kafka, topic=target, delivery=delivery), tmp_path)
    found = {int(record.value or b""): record.partition for record in lv.scan(target, bootstrap_servers=kafka.bootstrap_servers)}
    assert len(found) == 24
    assert all(found[first] == found[first + 1] for first in range(0, 24, 2)), "two rows are not worth two requests"
    assert set(found.values()) == set(range(8))


def test_batch_0_of_a_stream_from_the_end_is_replayed_whole(spark: Any, kafka: Any, new_topic: Any, tmp_path: Any) -> None:
    origin, target, broken = new_topic(kafka), new_topic(kafka), tmp_path / "broken"
    guard = F.udf(lambda: 1 / 0 if broken.exists() else 0)

    def begin(**trigger: Any) -> Any:
        frame = source(spark.readStream, kafka, origin, startingOffsets="latest").select("value").withColumn("key", guard().cast("string"))
        writer = sink(frame.writeStream, kafka, topic=target).option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(**trigger).start()

    with steady_records(kafka, origin):
        broken.touch()
        with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
            begin(processingTime="0 seconds").awaitTermination(60)
        broken.unlink()
        begin(availableNow=True).awaitTermination(60)
        if not HAS_ADMISSION_CONTROL:
            # The first run was that of the replayed micro-batch.
            begin(availableNow=True).awaitTermination(60)

    planned = json.loads((tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1])
    start, end = planned["$start"][origin]["0"], planned[origin]["0"]
    assert start < end, "batch 0 was empty: nothing could be lost"
    written = sorted(int(value) for value in values_in(kafka, target))
    assert written == list(range(start, written[-1] + 1))
    assert written[-1] >= end - 1


def test_wrong_options_show_up_at_load(spark: Any, kafka: Any) -> None:
    with pytest.raises(Exception, match="unknown option 'startingoffset'; did you mean 'startingOffsets'"):
        source(spark.read, kafka, "t", startingOffset="earliest")
    with pytest.raises(Exception, match="option 'minPartitions': expected a whole number above 0, got 'many'"):
        source(spark.readStream, kafka, "t", minPartitions="many")


def test_a_missing_topic_is_named_and_not_created(spark: Any, kafka: Any) -> None:
    with pytest.raises(Exception, match="topic 'no-such-topic' does not exist"):
        source(spark.read, kafka, "no-such-topic").count()
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        assert "no-such-topic" not in admin.list_topics()


def test_lost_records_stop_a_query_unless_told_otherwise(spark: Any, kafka: Any, new_topic: Any, tmp_path: Any) -> None:
    topic = new_topic(kafka)
    produce(kafka, topic, [b"a", b"b", b"c"])
    offsets = f'{{"{topic}":{{"0":50}}}}'
    with pytest.raises(Exception, match="is to be read from offset 50, but ends at 3"):
        run_to_the_end(
            sink(source(spark.readStream, kafka, topic, startingOffsets=offsets).writeStream, kafka, topic=topic), tmp_path / "a"
        )


def test_under_a_continuous_trigger_nothing_counts_as_written(spark: Any, kafka: Any, new_topic: Any, tmp_path: Any) -> None:
    """Spark then calls no write() and commits every epoch all the same. It ignores the error, but it does not commit."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 5).load().selectExpr("cast(value as string) value")
    writer = sink(rows.writeStream, kafka, topic=new_topic(kafka)).option("checkpointLocation", str(tmp_path))
    query = writer.trigger(continuous="1 second").start()
    deadline = time.monotonic() + 60
    while not (tmp_path / "offsets" / "2").exists():
        assert time.monotonic() < deadline, "no epoch came to its end"
        time.sleep(0.2)
    query.stop()
    assert not [path for path in (tmp_path / "commits").iterdir() if not path.name.startswith(".")]


def test_overwriting_a_topic_is_refused(spark: Any, kafka: Any) -> None:
    with pytest.raises(Exception, match="a topic cannot be overwritten"):
        sink(spark.range(1).selectExpr("cast(id as string) value").write, kafka, topic="t").mode("overwrite").save()


def frozen_objects(batches: Any) -> Any:
    """In a task: how many objects of its process a garbage collection leaves out after begin_task()."""
    import gc

    import pyarrow as pa

    from levada.spark.task import begin_task

    for _ in batches:
        begin_task()
        yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()]})


def test_begin_task_shortens_garbage_collections_in_workers_and_leaves_the_program_alone(spark: Any) -> None:
    rows = spark.range(1).mapInArrow(frozen_objects, "frozen long").collect()
    assert [row.frozen > 10_000 for row in rows] == [True]
    before = gc.get_freeze_count()
    begin_task()
    assert gc.get_freeze_count() == before


def idle_workers() -> Any:
    """The Python workers of this process's Spark: forked by its daemons, which stay."""
    parents, daemons = {}, set()
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(FileNotFoundError, ProcessLookupError):
            pid = int(status.parent.name)
            parents[pid] = int(next(line for line in status.read_text().splitlines() if line.startswith("PPid:")).split()[1])
            if b"pyspark.daemon" in (status.parent / "cmdline").read_bytes():
                daemons.add(pid)
    return [pid for pid in daemons if parents[pid] in daemons and os.getpid() in ancestors(pid, parents)]


def ancestors(pid: Any, parents: Any) -> Any:
    while pid := parents.get(pid, 0):
        yield pid


@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers through /proc")
def test_workers_that_died_while_idle_are_not_missed(spark: Any, kafka: Any, new_topic: Any) -> None:
    topic = new_topic(kafka)
    rows = spark.range(100).selectExpr("cast(id as string) value")
    sink(rows.write, kafka, topic=topic).mode("append").save()
    assert source(spark.read, kafka, topic).count() == 100

    doomed = idle_workers()
    assert doomed
    for pid in doomed:
        os.kill(pid, signal.SIGKILL)
    # Until its daemon has buried it, Spark may take a dead worker for a live one.
    while any(Path(f"/proc/{pid}").exists() for pid in doomed):
        time.sleep(0.05)

    sink(rows.write, kafka, topic=topic).mode("append").save()
    assert source(spark.read, kafka, topic).count() == 200


def test_a_secured_cluster_is_read_and_written(spark: Any) -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    with EmbeddedKafka(security="SSL", users={"etl": "open sesame"}) as kafka:
        options = {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.certificates": kafka.client_settings["ssl_truststore_certificates"],
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.jaas.config": f'{module} required username="etl" password="open sesame";',
        }
        rows = spark.createDataFrame([("one",), ("two",)], "value string")
        rows.write.format("levada").options(**options, topic="secured").mode("append").save()
        read = spark.read.format("levada").options(**options, subscribe="secured").load()
        assert "open sesame" not in read._jdf.queryExecution().toString()
        assert sorted(bytes(row.value) for row in read.collect()) == [b"one", b"two"]
