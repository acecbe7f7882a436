"""A stream from topic to topic as a program of its own, so that a test can kill it.

streaming_job.py BOOTSTRAP SOURCE TARGET CHECKPOINT PAUSE_S: with a pause it writes a hundred records at a time and runs until it is killed;
without one it ends when everything is copied.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

RECORDS_PER_BATCH = 4_000


def main(servers: str, source: str, target: str, checkpoint: str, pause_s: float) -> None:
    records = (
        session()
        .readStream.format("levada")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", RECORDS_PER_BATCH)
        .option("availableNow", not pause_s)
        .load()
        .select("key", "value")
    )
    writer = records.mapInArrow(slowly(pause_s), records.schema).writeStream if pause_s else records.writeStream
    writer = writer.format("levada").option("kafka.bootstrap.servers", servers).option("topic", target)
    writer = writer.option("checkpointLocation", checkpoint)
    query = (writer if pause_s else writer.trigger(availableNow=True)).start()
    query.awaitTermination()


def session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
    return builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "100").getOrCreate()


def slowly(pause_s: float) -> Any:
    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(pause_s)
            yield batch

    return pass_on


if __name__ == "__main__":
    servers, source, target, checkpoint, pause_s = sys.argv[1:]
    main(servers, source, target, checkpoint, float(pause_s))
