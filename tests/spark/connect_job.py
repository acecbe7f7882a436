"""A Spark Connect session and a declarative pipeline, as a program of its own: one process cannot have a classic session, too.

connect_job.py BOOTSTRAP FOLDER: prints what it found as JSON. Topics are rows, orders (a stream's copy of it) and copies (the pipeline's).
The pipeline is in the folder.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryTerminatedEvent

from levada.spark import Lag, LagListener, read_kafka, write_kafka

ROWS = 100


def main(servers: str, folder: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.remote("local[2]").getOrCreate()

    rows = session.range(ROWS).selectExpr("cast(id as string) key", "cast(id as string) value")
    write_kafka(rows, servers, topic="rows").save()
    found: dict[str, Any] = {"session": type(session).__module__, "batch": read_kafka(session, servers, subscribe="rows").count()}
    found["lags"] = stream(session, servers, folder)
    pipeline(folder / "spark-pipeline.yml")
    print(json.dumps(found))


class Watched(LagListener):
    """Keeps what it tells, and says when the query has ended.

    PySpark 4.3 waits forever in removeListener() when an event arrives meanwhile; the end of the query is the last one.
    """

    def __init__(self, servers: str) -> None:
        self.told: list[Lag] = []
        self.ended = threading.Event()
        super().__init__(servers, on_lag=self.told.append)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        super().onQueryTerminated(event)
        self.ended.set()


def stream(session: Any, servers: str, folder: Path) -> list[int]:
    """Copy a topic; return how many offsets the query was behind after each micro-batch."""
    listener = Watched(servers)
    session.streams.addListener(listener)
    frame = read_kafka(session, servers, stream=True, subscribe="rows", startingOffsets="earliest", maxOffsetsPerTrigger=ROWS // 2)
    writer = write_kafka(frame.select("key", "value"), servers, stream=True, topic="orders")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(300), "the stream did not end"
    assert listener.ended.wait(60), "the listener did not see the end of the stream"
    session.streams.removeListener(listener)
    listener.close()
    return [lag.offsets for lag in listener.told]


def pipeline(spec: Path) -> None:
    """Do what `spark-pipelines run` does, in the session that is there; that ends it."""
    from pyspark.pipelines.cli import run

    run(spec, full_refresh=[], full_refresh_all=False, refresh=[], dry=False)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
