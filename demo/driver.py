"""Runs the driver of the job "arrivals" in a separate process, so that KILL=1 can kill it.

driver.py JSON: servers, source, target, folder. Runs from the checkpoint in the folder to the end of the topic, and prints Spark's report
of each micro-batch as a line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from data import airlines, weather
from jobs import LEVADA, jobs
from session import CtrlC, spark_session
from stream import Stream


def main(servers: str, source: str, target: str, folder: str) -> None:
    """Run the job."""
    ctrl_c = CtrlC()
    spark = spark_session(Path(folder) / "spark.log", ctrl_c)
    arrivals, _ = jobs(spark, airlines(), weather())
    printed: set[int] = set()
    with Stream(spark, ctrl_c, arrivals, LEVADA, servers, source, target, Path(folder) / "checkpoint") as stream:
        for _ in stream.until_done():
            for report in stream.reports():
                if "addBatch" in report["durationMs"] and report["batchId"] not in printed:
                    printed.add(report["batchId"])
                    print(report.json, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
