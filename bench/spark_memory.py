"""The memory of a driver for a stream that writes exactly once: a worker with its own Spark, whose executor is another process.

In the driver, rows go through the JVM, and through the Python process that Spark keeps for commits, but through no other process.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
from pyspark.sql import SparkSession

from engine_process import Figures

COMMITS = b"python_streaming_sink_runner"
LOOK_S = 0.02
MIB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
WARM_PER_TRIGGER = 10_000
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    "spark.log.level": "ERROR",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class Memory(NamedTuple):
    """Bytes of a driver. held: used bytes of the JVM's heap after a garbage collection. jvm, python: resident memory."""

    held: int
    jvm: int
    python: int


class DriverMemory:
    """Measures the most memory of the driver's JVM, and of its processes for commits, by reading it often.

    The JVM fills its heap before it collects garbage, so its resident memory shows the heap's limit, not the need. So each reading collects
    first.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._java: Any = spark.sparkContext._jvm.java.lang  # type: ignore[union-attr]
        self._jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_looking, daemon=True)
        self.most = Memory(0, 0, 0)

    def now(self) -> Memory:
        """Collect the heap's garbage, and read the memory."""
        self._java.System.gc()
        runtime = self._java.Runtime.getRuntime()
        held = runtime.totalMemory() - runtime.freeMemory()
        return Memory(held, _resident(self._jvm), sum(_resident(process) for process in _committing(self._jvm)))

    def __enter__(self) -> DriverMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _keep_looking(self) -> None:
        while not self._ended.wait(LOOK_S):
            self.most = Memory(*map(max, self.most, self.now()))


def measure(bootstrap_servers: str, topic: str, warm: str, target: str, inline_max_bytes: int, offsets_per_trigger: int) -> Figures:
    """Copy a topic in micro-batches that use all of inlineMaxBytes. warm: a topic that is copied in small micro-batches before."""
    with tempfile.TemporaryDirectory(prefix="levada-bench-") as folder, _session(Path(folder)) as spark:

        def copy(name: str, per_trigger: int) -> None:
            servers = {"kafka.bootstrap.servers": bootstrap_servers}
            source = {"subscribe": name, "startingOffsets": "earliest", "columns": "key,value", "maxOffsetsPerTrigger": str(per_trigger)}
            frame = spark.readStream.format("levada").options(**servers, **source).load()
            sink = {"topic": target, "delivery": "exactly-once", "inlineMaxBytes": str(inline_max_bytes)}
            writer = frame.writeStream.format("levada").options(**servers, **sink, checkpointLocation=f"{folder}/{name}")
            writer.trigger(availableNow=True).start().awaitTermination()

        copy(warm, WARM_PER_TRIGGER)
        memory = DriverMemory(spark)
        idle = memory.now()
        with memory:
            copy(topic, offsets_per_trigger)
    most = memory.most
    held, jvm, python = (much - little for much, little in zip(most, idle, strict=True))
    return {
        "idle JVM MiB": idle.jvm / MIB,
        "idle Python MiB": idle.python / MIB,
        "JVM MiB held more": held / MIB,
        "JVM MiB resident more": jvm / MIB,
        "Python MiB more": python / MIB,
        "times inlineMaxBytes": (held + python) / inline_max_bytes,
    }


@contextmanager
def _session(folder: Path) -> Iterator[SparkSession]:
    # A cluster of this kind writes to a folder in Spark's home.
    home = folder / "spark"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    os.environ.update(SPARK_HOME=str(home), PYSPARK_PYTHON=sys.executable)
    builder = SparkSession.builder.master("local-cluster[1,2,1024]").appName("bench")
    for key, value in {**SETTINGS, "spark.sql.warehouse.dir": str(folder / "warehouse")}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def _committing(process: int) -> Iterator[int]:
    """Yield the processes for commits among all descendants of a process."""
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, _read(children).split()):
            if COMMITS in _read(Path(f"/proc/{child}/cmdline")):
                yield child
            yield from _committing(child)


def _resident(process: int) -> int:
    fields = _read(Path(f"/proc/{process}/statm")).split()
    return int(fields[1]) * PAGE if fields else 0


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process has ended meanwhile
        return b""
