"""Triggers that Spark has for sources and sinks of the JVM: what it refuses by itself. What it lets through, the sink refuses."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from levada.spark import read_kafka, write_kafka

pytestmark = pytest.mark.spark


@pytest.fixture
def rows(spark: Any, embedded: Any, new_topic: Any) -> Any:
    return read_kafka(spark, embedded.bootstrap_servers, stream=True, subscribe=new_topic(embedded)).select("value")


def run(writer: Any, checkpoint: Any, **trigger: Any) -> None:
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()
    try:
        query.awaitTermination(60)
    finally:
        query.stop()


def test_a_source_does_not_run_continuously(rows: Any, tmp_path: Any) -> None:
    with pytest.raises(Exception, match="Data source levada does not support continuous processing"):
        run(rows.writeStream.format("console"), tmp_path, continuous="1 second")


def test_a_source_does_not_run_in_real_time(rows: Any, tmp_path: Any) -> None:
    with pytest.raises(StreamingQueryException, match="INPUT_STREAM_NOT_SUPPORTED"):
        run(rows.writeStream.format("console").outputMode("update"), tmp_path, realTime="5 seconds")


def test_a_sink_does_not_run_in_real_time(spark: Any, embedded: Any, tmp_path: Any) -> None:
    rows = spark.readStream.format("rate").load().selectExpr("cast(value as string) value")
    writer = write_kafka(rows, embedded.bootstrap_servers, stream=True, topic="t").outputMode("update")
    with pytest.raises(Exception, match="OPERATOR_OR_SINK_NOT_IN_ALLOWLIST"):
        run(writer, tmp_path / "checked", realTime="5 seconds")
    spark.conf.set("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
    try:
        with pytest.raises(Exception, match="Sink levada does not support"):
            run(writer, tmp_path / "unchecked", realTime="5 seconds")
    finally:
        spark.conf.unset("spark.sql.streaming.realTimeMode.allowlistCheck")
