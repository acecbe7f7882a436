"""The two jobs, from Kafka to Kafka: one flight at a time (arrivals), and sums of a day (delays).

Each runs through levada or through Spark's own connector; only how records become columns differs.

A day is written once, when the watermark says that nothing more will come for it. The last days would wait for the flights of the next
year, so a closing record, two months later, takes their part; its own day stays open and is never written.
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
"""What Spark calls the two systems that the jobs can run through."""

DELIVERY = {LEVADA: {"delivery": "exactly-once", "inlineMaxBytes": str(64 << 20)}, CONNECTOR: {}}
"""What each of them is asked to promise of the rows that it writes; the connector writes at least once."""

PARTITIONS = 4
RECORDS_PER_BATCH = 1_000_000
TIMESTAMP_FORMAT = "yyyy-MM-dd'T'HH:mm"

# The partitions hold different carriers, whose share of the flights differs over the year: a third of one ends some days before a third of
# another.
LATENESS = "30 days"


@dataclass(frozen=True)
class Job:
    """What a stream does. schema: the fields of a flight that it reads; records: from these to rows of key and value."""

    name: str
    schema: str
    records: Callable[[DataFrame], DataFrame]


def jobs(spark: SparkSession, airlines: pa.Table, weather: pa.Table) -> list[Job]:
    """Return both jobs; the tables are what the second one joins."""
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
    """Say of each flight that arrived whether it was late, and how many minutes it made up in the air."""
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
    """Return a stream of a topic's flights in columns: levada decodes JSON where it reads, the connector leaves that to Spark."""
    reader = (
        spark.readStream.format(FORMATS[system])
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        # Each partition's share is rounded down; without this the rest would be a micro-batch of its own, behind the closing record.
        .option("maxOffsetsPerTrigger", RECORDS_PER_BATCH + PARTITIONS)
    )
    if system == LEVADA:
        return reader.option("value.format", "json").option("value.schema", schema).option("columns", "value").load().select("value.*")
    decoded = F.from_json(F.col("value").cast("string"), schema, {"timestampFormat": TIMESTAMP_FORMAT})
    return reader.load().select(decoded.alias("value")).select("value.*")
