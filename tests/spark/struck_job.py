"""A stream from topic to topic as a program of its own, a driver that tests kill, pause, and run beside another one.

struck_job.py JSON: what tests/kits/spark_drivers.py asks for. It ends when everything that is there is copied.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import spark_strikes

QUICK_TO_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.extraJavaOptions": QUICK_TO_START,
    "spark.executor.extraJavaOptions": QUICK_TO_START,
}


def main(asked: dict[str, Any]) -> None:
    spark = session(asked)
    spark.dataSource.register(spark_strikes.StruckDataSource)
    folder = Path(asked["strikes"])
    rows = spark.readStream.format(asked["source_format"]).options(**asked["source"]).load().select("value")
    writer = rows.mapInArrow(spark_strikes.at_the_end_of_a_task(folder), rows.schema).writeStream
    writer = writer.option("checkpointLocation", asked["checkpoint"]).trigger(availableNow=True)

    def write(batch: Any, _: int) -> None:
        batch.write.format(asked["sink_format"]).options(**asked["sink"]).mode("append").save()
        spark_strikes.strike(folder, "after-batch")

    if asked["for_each_batch"]:
        query = writer.foreachBatch(write).start()
    else:
        query = writer.format(asked["sink_format"]).options(**asked["sink"]).start()
    query.awaitTermination()


def session(asked: dict[str, Any]) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder
    builder = builder.remote("local[2]") if asked["is_remote"] else builder.master(asked["master"])
    for name, value in {**SETTINGS, **asked["settings"]}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
