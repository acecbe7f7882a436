"""Runs a job as a stream, and collects Spark's reports about it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from figures import Batch, batches
from jobs import DELIVERY, FORMATS, Job, read_flights
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.listener import StreamingQueryProgress
from session import CtrlC


class Stream:
    """A query that reads the records that a topic has now, writes another topic, and ends.

    checkpoint: its folder; None for a new temporary folder.
    """

    def __init__(
        self,
        spark: SparkSession,
        ctrl_c: CtrlC,
        job: Job,
        system: str,
        servers: str,
        source: str,
        target: str,
        checkpoint: Path | None = None,
    ) -> None:
        self._ctrl_c = ctrl_c
        self._checkpoint = tempfile.TemporaryDirectory(prefix="levada-demo-", ignore_cleanup_errors=True)
        flights = read_flights(spark, system, servers, source, job.schema)
        self._query: StreamingQuery = (
            job.records(flights)
            .writeStream.format(FORMATS[system])
            .option("kafka.bootstrap.servers", servers)
            .option("topic", target)
            # Compressed, because the embedded broker keeps both topics in memory.
            .option("kafka.compression.type", "zstd")
            .option("checkpointLocation", str(checkpoint or self._checkpoint.name))
            .options(**DELIVERY[system])
            .outputMode("append")
            .trigger(availableNow=True)
            .start()
        )

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        self._query.stop()
        self._checkpoint.cleanup()

    def until_done(self) -> Iterator[int]:
        """Yield the number of records read so far, until the query ends."""
        while not self._query.awaitTermination(timeout=0.25):
            self._ctrl_c.raise_if_pressed()
            yield self._records()
        yield self._records()

    def reports(self) -> list[StreamingQueryProgress]:
        """Return Spark's reports of the micro-batches so far."""
        return self._query.recentProgress

    def batches(self) -> list[Batch]:
        """Return the micro-batches so far."""
        return batches(self.reports())

    def _records(self) -> int:
        return sum(progress.numInputRows for progress in self._query.recentProgress)
