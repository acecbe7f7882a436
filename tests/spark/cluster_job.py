"""A stream on two executors, as a program of its own: they have levada from an archive, and start a new Python worker for each task.

cluster_job.py BOOTSTRAP SOURCE TARGET FOLDER: prints as JSON where the tasks found levada, and in which processes they ran. The archive is
levada.zip in the folder.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from levada.spark import read_kafka, write_kafka

SETTINGS = {
    "spark.archives": "{folder}/levada.zip#from_archive",
    "spark.executorEnv.PYTHONPATH": "from_archive",
    "spark.executor.memory": "512m",
    "spark.python.worker.reuse": "false",
    "spark.sql.warehouse.dir": "{folder}/warehouse",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def main(servers: str, source: str, target: str, folder: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value.format(folder=folder))
    spark = builder.getOrCreate()

    rows = read_kafka(spark, servers, subscribe=source, failOnDataLoss=False, recordsPerTask=1)
    found = [row.asDict() for _ in range(2) for row in rows.select("offset").mapInArrow(where, "home string, pid long").collect()]

    stream = read_kafka(spark, servers, stream=True, subscribe=source, startingOffsets="earliest", failOnDataLoss=False, recordsPerTask=1)
    writer = write_kafka(stream.select("value", "timestamp"), servers, stream=True, topic=target).option(
        "checkpointLocation", f"{folder}/checkpoint"
    )
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(150)
    print(json.dumps({"tasks": found, "query": query.id}))
    spark.stop()


def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Say once per task which levada a worker has, and its process."""
    import levada

    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"home": [levada.__file__], "pid": [os.getpid()]})


if __name__ == "__main__":
    main(*sys.argv[1:])
