"""One Spark session for all systems, and measurements of its jobs that do not slow them down."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, functions

from engine_process import Figures
from kafka_cluster import KafkaNode
from kafka_jars import spark_connector
from measure import FamilyCpu

RATE, CPU = "k rows/s", "CPU us per row"
JVM, PYTHON = "JVM", "Python"
SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.log.level": "ERROR",
    "spark.pyspark.python": sys.executable,
    "spark.python.unix.domain.socket.enabled": "true",
    # For rows on their way to a Python sink; the connector's is in the JVM. With another limit Spark adds up the batch for each row.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
NOOP = "noop-table"
OUTPUT_ROWS = "number of output rows"


class WrongRows(Exception):
    """A system has a wrong result."""


class Session:
    """Spark on two cores with the connector's jars, and a broker whose processor time counts, too."""

    def __init__(self, spark: SparkSession, broker: KafkaNode) -> None:
        self.spark = spark
        self._broker = broker
        self._jvm: int = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]

    def timed(self, rows: int, work: Callable[[], object]) -> Figures:
        """Run a job; return its rows per second, and the processor time per row in total, of the JVM, of Python and of the broker."""
        seconds, spent = self._run(work)
        return {RATE: rows / seconds / 1e3} | {name: value * 1e6 / rows for name, value in {CPU: sum(spent.values()), **spent}.items()}

    def busy(self, work: Callable[[], object]) -> Figures:
        """Run work of a fixed duration; return how much of a core the JVM and Python use meanwhile, in percent."""
        seconds, spent = self._run(work)
        return {f"{name} % of a core": spent[name] * 100 / seconds for name in (JVM, PYTHON)}

    def _run(self, work: Callable[[], object]) -> tuple[float, Figures]:
        """Run work; return the seconds that it took, and the processor time of each process in seconds."""
        broker = self._broker.cpu_seconds
        with FamilyCpu(self._jvm) as family:
            start = time.perf_counter()
            work()
            seconds = time.perf_counter() - start
        jvm, python = family.seconds
        return seconds, {JVM: jvm, PYTHON: python, "broker": self._broker.cpu_seconds - broker}

    def drained_rows(self) -> int:
        """Return how many rows the last drain() has read, by Spark's own metrics."""
        state = self.spark._jsparkSession.sharedState()  # type: ignore[attr-defined]
        self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[union-attr]
        executions = state.statusStore().executionsList()
        found = (executions.apply(number) for number in reversed(range(executions.size())))
        execution = next(one for one in found if NOOP in one.physicalPlanDescription())
        metrics, values = execution.metrics(), state.statusStore().executionMetrics(execution.executionId())
        counts = [
            values.apply(metric.accumulatorId()) for metric in map(metrics.apply, range(metrics.size())) if metric.name() == OUTPUT_ROWS
        ]
        # The smallest count is that of the last operator: a filter returns fewer rows than it reads.
        return min(int(count.replace(",", "")) for count in counts)


def drain(frame: DataFrame) -> None:
    """Read all rows of a frame and discard them."""
    frame.write.format("noop").mode("overwrite").save()


def fingerprint(frame: DataFrame) -> tuple[int, int]:
    """Return a frame's number of rows, and a sum over all its columns that does not depend on their order."""
    hashed = functions.shiftrightunsigned(functions.xxhash64(*frame.columns), 31)
    found = frame.agg(functions.count("*"), functions.sum(hashed)).first()
    assert found is not None
    return found[0], found[1] or 0


@contextmanager
def session(broker: KafkaNode) -> Iterator[Session]:
    """Start Spark, yield its session, and stop it."""
    # The start-up time counts in some cases, and users do not compile every module each time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="levada-bench-") as folder:
        builder = SparkSession.builder.master("local[2]").appName("bench").config("spark.jars", ",".join(map(str, spark_connector())))
        for key, value in {**SETTINGS, "spark.sql.warehouse.dir": str(Path(folder) / "warehouse")}.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        try:
            yield Session(spark, broker)
        finally:
            spark.stop()
