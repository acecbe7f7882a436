"""A job while it runs as a stream, and what Spark tells of it."""

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
    """A query that reads what is in a topic, writes another one, and ends. checkpoint: None for a new one that is not used again."""

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
            # Both topics stay in the memory of the broker.
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
        """Yield how many records have been read, until all that are there have been."""
        while not self._query.awaitTermination(timeout=0.25):
            self._ctrl_c.raise_if_pressed()
            yield self._records()
        yield self._records()

    def reports(self) -> list[StreamingQueryProgress]:
        """Return what Spark reports of the micro-batches so far."""
        return self._query.recentProgress

    def batches(self) -> list[Batch]:
        """Return the micro-batches so far."""
        return batches(self.reports())

    def _records(self) -> int:
        return sum(progress.numInputRows for progress in self._query.recentProgress)
