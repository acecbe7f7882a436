"""A foreachBatch over Spark Connect that writes exactly once, and fails once after its second write, as a program of its own.

connect_foreach_job.py BOOTSTRAP FOLDER SINK_ID: copies topic for-SINK_ID to topic SINK_ID. SINK_ID "-": for-unnumbered to unnumbered,
without exactlyOnce.id and exactlyOnce.batchId.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from levada.spark import read_kafka, write_kafka

ROWS_AT_ONCE = 30


def main(servers: str, folder: Path, sink_id: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.remote("local[2]").getOrCreate()
    options: dict[str, Any] = {"subscribe": f"for-{topic_of(sink_id)}", "startingOffsets": "earliest", "maxOffsetsPerTrigger": ROWS_AT_ONCE}
    for _ in range(2):
        frame = read_kafka(session, servers, stream=True, **options)
        writer = frame.writeStream.foreachBatch(copier(servers, folder / "failed", sink_id)).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        try:
            assert query.awaitTermination(300), "the stream did not end"
        except StreamingQueryException as error:
            assert "once" in str(error)


def topic_of(sink_id: str) -> str:
    return "unnumbered" if sink_id == "-" else sink_id


def copier(servers: str, failed: Path, sink_id: str) -> Callable[[Any, int], None]:
    """Return what writes a batch; it fails after the write of batch 1, once."""

    def copy(rows: Any, batch: int) -> None:
        numbered: dict[str, Any] = {} if sink_id == "-" else {"exactlyOnce_id": sink_id, "exactlyOnce_batchId": batch}
        write_kafka(rows.select("key", "value"), servers, topic=topic_of(sink_id), delivery="exactly-once", **numbered).save()
        if batch == 1 and not failed.exists():
            failed.touch()
            raise RuntimeError("once")

    return copy


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
