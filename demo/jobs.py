"""The two jobs, which read from Kafka and write to Kafka: "arrivals" handles single flights, "delays" computes sums per day.

Each job runs through levada or through Spark's own connector. Only the conversion of records to columns differs.

A day is written once, when the watermark has passed it. The last days would wait for flights of the next year. A closing record with a
date two months later therefore moves the watermark. The day of the closing record itself is never written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from data import LATE_MINUTES
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

LEVADA, CONNECTOR = "levada", "connector"
FORMATS = {LEVADA: "levada", CONNECTOR: "kafka"}
"""Spark's format names of the two systems."""

DELIVERY = {LEVADA: {"delivery": "exactly-once", "inlineMaxBytes": str(64 << 20)}, CONNECTOR: {}}
"""The delivery options of each system's sink. The connector has none: it writes at least once."""

PARTITIONS = 4
RECORDS_PER_BATCH = 1_000_000
TIMESTAMP_FORMAT = "yyyy-MM-dd'T'HH:mm"

# The partitions hold different carriers, whose flights are spread differently over the year. When a micro-batch has read the same share of
# each partition, their dates differ by some days.
LATENESS = "30 days"


@dataclass(frozen=True)
class Job:
    """A job of a stream. schema: the fields of a flight that it reads. records: turns these into rows of key and value."""

    name: str
    schema: str
    records: Callable[[DataFrame], DataFrame]


def jobs(spark: SparkSession, airlines: pa.Table, weather: pa.Table) -> list[Job]:
    """Return both jobs. The job "delays" joins the two tables."""
    names, rain = spark.createDataFrame(airlines), spark.createDataFrame(weather)
    return [
        Job("arrivals", "id long, carrier string, dep_delay long, arr_delay long", arrivals),
        Job(
            "delays",
            "carrier string, origin string, scheduled timestamp, hour_utc string, dep_delay long, arr_delay long",
            lambda flights: delays(flights, names, rain),
        ),
    ]


def arrivals(flights: DataFrame) -> DataFrame:
    """For each flight that arrived, compute whether it was late and how many minutes it made up in the air."""
    arrived = flights.where("arr_delay is not null").select(
        "id",
        "carrier",
        (F.col("arr_delay") > LATE_MINUTES).alias("late"),
        (F.col("dep_delay") - F.col("arr_delay")).alias("made_up"),
    )
    return arrived.select(F.col("carrier").alias("key"), F.to_json(F.struct("*")).alias("value"))


def delays(flights: DataFrame, airlines: DataFrame, weather: DataFrame) -> DataFrame:
    """Add up delays per carrier and day."""
    per_day = (
        flights.withWatermark("scheduled", LATENESS)
        .withColumn("hour", F.substring("hour_utc", len("2013-") + 1, len("01-31T23")))
        .join(F.broadcast(airlines), "carrier", "left")
        .join(F.broadcast(weather), ["origin", "hour"], "left")
        .groupBy("carrier", "name", F.window("scheduled", "1 day").alias("window"))
        .agg(
            F.count("*").alias("flights"),
            F.count_if(F.col("dep_delay").isNull()).alias("cancelled"),
            F.count_if(F.col("dep_delay") > LATE_MINUTES).alias("late"),
            F.count_if("rain").alias("in_rain"),
            F.sum("arr_delay").alias("arr_delay_sum"),
            F.sum("dep_delay").alias("dep_delay_sum"),
            F.avg("dep_delay").alias("dep_delay_mean"),
            F.max("dep_delay").alias("dep_delay_max"),
        )
        .withColumn("day", F.date_format("window.start", "yyyy-MM-dd"))
        .drop("window")
    )
    return per_day.select(F.concat_ws("|", "carrier", "day").alias("key"), F.to_json(F.struct("*")).alias("value"))


def closing(last_year: int) -> bytes:
    """Return the record that closes all days up to the end of a year."""
    return f'{{"carrier": "--", "scheduled": "{last_year + 1}-03-01T00:00"}}'.encode()


def read_flights(spark: SparkSession, system: str, servers: str, topic: str, schema: str) -> DataFrame:
    """Return a stream of a topic's flights in columns. levada decodes JSON while it reads; with the connector, Spark's from_json does."""
    reader = (
        spark.readStream.format(FORMATS[system])
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        # Spark rounds the share of each partition down. Without the extra offsets, the rest would come in another micro-batch, after the
        # closing record.
        .option("maxOffsetsPerTrigger", RECORDS_PER_BATCH + PARTITIONS)
    )
    if system == LEVADA:
        return reader.option("value.format", "json").option("value.schema", schema).option("columns", "value").load().select("value.*")
    decoded = F.from_json(F.col("value").cast("string"), schema, {"timestampFormat": TIMESTAMP_FORMAT})
    return reader.load().select(decoded.alias("value")).select("value.*")
