"""Spark's batch read of a whole topic, all columns, into nowhere: through levada and through Spark's own connector."""

from __future__ import annotations

from typing import Any

from kafka_jars import spark_connector
from measure import Job, Sample, family_cpu_seconds, measured


def levada_format(job: Job) -> Sample:
    """format("levada"): Python workers, Arrow batches."""
    return _read(job, "levada", {})


def kafka_format(job: Job) -> Sample:
    """format("kafka"): the connector in the JVM."""
    return _read(job, "kafka", {"spark.jars": ",".join(map(str, spark_connector()))})


def _read(job: Job, source: str, settings: dict[str, str]) -> Sample:
    spark = _session(settings)
    try:
        frame = spark.read.format(source).option("kafka.bootstrap.servers", job.bootstrap_servers).option("subscribe", job.topic).load()
        rows = _counted(frame)  # starts workers, too, and compiles what the JVM compiles
        assert rows == job.records, f"{rows} rows instead of {job.records}"
        with measured(job.records, family_cpu_seconds) as sample:
            _drain(frame)
    finally:
        spark.stop()
    return sample


def _session(settings: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("bench").config("spark.ui.enabled", "false")
    builder = builder.config("spark.log.level", "ERROR").config("spark.driver.memory", "2g")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _drain(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _counted(frame: Any) -> int:
    from pyspark.sql import Observation, functions

    counted = Observation("rows")
    _drain(frame.observe(counted, functions.count(functions.lit(1)).alias("rows")))
    rows: int = counted.get["rows"]
    return rows
