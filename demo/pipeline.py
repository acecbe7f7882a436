"""The Spark side: a structured stream from Kafka to Kafka, through levada at both ends.

A day is written once, when the watermark says that nothing more will come for it. The last days of the year would wait for the flights of
the next one, so a closing record, a month later, takes their part; its own day stays open and is never written.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pyarrow as pa
from data import LATE_MINUTES
from pyspark import java_gateway
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

import levada as lv

FLIGHT = "carrier string, origin string, scheduled timestamp, hour_utc string, dep_delay long, arr_delay long"
CLOSING = b'{"carrier": "--", "scheduled": "2014-02-01T00:00"}'
FLIGHTS_PER_BATCH = 50_000
TIMESTAMP_FORMAT = "yyyy-MM-dd'T'HH:mm"

# The four partitions hold different carriers, whose share of the year's flights differs: a fifth of one is a few days ahead of a fifth
# of another.
LATENESS = "7 days"


class CtrlC:
    """Holds Ctrl-C back while Spark is called, and raises it between two calls: py4j prints a traceback of a call that it breaks off."""

    def __init__(self) -> None:
        self._pressed = False

    def hold(self) -> None:
        """Only note Ctrl-C from now on."""
        signal.signal(signal.SIGINT, self._note)

    def release(self) -> None:
        """Let Ctrl-C raise KeyboardInterrupt at once again, as in any Python program."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.raise_if_pressed()

    def raise_if_pressed(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was noted."""
        if self._pressed:
            raise KeyboardInterrupt

    def _note(self, *_: object) -> None:
        self._pressed = True


def spark_session(log: Path, ctrl_c: CtrlC) -> SparkSession:
    """Start Spark, whose own messages go to a file; Ctrl-C is held back when it runs.

    No package and no jar: the format registers itself.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # PySpark says this of every pandas 3, which it does not even use here.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    builder = SparkSession.builder.master("local[2]").appName("levada demo")
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.python.unix.domain.socket.enabled": "true",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    # Not on the main thread, where PySpark would install a handler of its own for Ctrl-C.
    with _stderr_to(log), ThreadPoolExecutor(1) as starting, _no_jvm_left_behind():
        spark = starting.submit(builder.getOrCreate).result()
        ctrl_c.hold()
        return spark


@contextmanager
def _no_jvm_left_behind() -> Iterator[None]:
    """End a JVM that is still starting when Ctrl-C comes. PySpark would leave it behind, waiting for nobody."""
    started: list[subprocess.Popen] = []
    is_over = False

    def popen(*args: object, **options: object) -> subprocess.Popen:
        started.append(subprocess.Popen(*args, **options))
        if is_over:
            started[-1].kill()
        return started[-1]

    patch = mock.patch.object(java_gateway, "Popen", popen)
    patch.start()
    try:
        yield
        patch.stop()
    except BaseException:
        # It stays patched: the thread that starts the JVM may be about to.
        is_over = True
        for jvm in started:
            jvm.kill()
            jvm.wait()
        raise


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Let child processes started here, such as the JVM, write their standard error to a file for good."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def delays(flights: DataFrame, airlines: DataFrame, weather: DataFrame) -> DataFrame:
    """From records of flights to records of delays per carrier and day."""
    per_day = (
        flights.select(F.from_json(F.col("value").cast("string"), FLIGHT, {"timestampFormat": TIMESTAMP_FORMAT}).alias("flight"))
        .select("flight.*")
        .withWatermark("scheduled", LATENESS)
        .join(F.broadcast(airlines), "carrier", "left")
        .join(F.broadcast(weather), ["origin", "hour_utc"], "left")
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


class Stream:
    """The running query."""

    def __init__(
        self, spark: SparkSession, ctrl_c: CtrlC, servers: str, source: str, target: str, airlines: pa.Table, weather: pa.Table
    ) -> None:
        self._ctrl_c = ctrl_c
        self._servers = servers
        self._source = source
        self._checkpoint = tempfile.TemporaryDirectory(prefix="levada-demo-", ignore_cleanup_errors=True)
        flights = (
            spark.readStream.format("levada")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", FLIGHTS_PER_BATCH)
            .load()
        )
        self._query: StreamingQuery = (
            delays(flights, spark.createDataFrame(airlines), spark.createDataFrame(weather))
            .writeStream.format("levada")
            .option("kafka.bootstrap.servers", servers)
            .option("topic", target)
            .option("checkpointLocation", self._checkpoint.name)
            .outputMode("append")
            .start()
        )

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        self._query.stop()
        self._checkpoint.cleanup()

    def until_caught_up(self) -> Iterator[int]:
        """Yield how many records have been read, until all that are there have been."""
        with ThreadPoolExecutor(1) as waiting:
            caught_up = waiting.submit(self._query.processAllAvailable)
            try:
                while not caught_up.done():
                    yield self._sum("numInputRows")
                    time.sleep(0.25)
                    self._ctrl_c.raise_if_pressed()
            except BaseException:
                self._query.stop()  # or the thread would wait for the rest of the year
                raise
            caught_up.result()
        yield self._sum("numInputRows")

    def close_last_days(self) -> None:
        """Send the closing record and wait until the days it closes are written."""
        with lv.KafkaProducer(bootstrap_servers=self._servers) as producer:
            producer.send(self._source, value=CLOSING).result(timeout=30)
        for _ in self.until_caught_up():
            pass

    @property
    def warm_rate(self) -> float:
        """Records per second after the first micro-batch, in which Spark starts its Python processes."""
        later = [progress for progress in self._query.recentProgress if progress.numInputRows > 0][1:]
        seconds = sum(progress.batchDuration for progress in later) / 1000
        return sum(progress.numInputRows for progress in later) / seconds if seconds else 0.0

    @property
    def dropped(self) -> int:
        """How many records came after their day was written; any would make the result differ."""
        return sum(state.numRowsDroppedByWatermark for progress in self._query.recentProgress for state in progress.stateOperators)

    def _sum(self, figure: str) -> int:
        return sum(getattr(progress, figure) for progress in self._query.recentProgress)
