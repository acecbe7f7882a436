"""What Spark does with Kafka through levada beside Spark's own connector, on a real Kafka 4.4 node: `make bench-spark`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import spark_json
import spark_latency
import spark_read
import spark_write
from engine_bench import Case
from engine_process import WorkerFailed
from kafka_jars import KafkaUnavailable
from machine import kafka
from sections import Run
from spark_bench import WARM_ROWS, SparkBench
from spark_session import session

SECTIONS = {"read": spark_read, "json": spark_json, "write": spark_write, "latency": spark_latency}
PACKAGES = ("pyspark", "pyarrow", "confluent-kafka")


def measure(bench: SparkBench, sections: list[str]) -> Iterator[Case]:
    """Warm up the broker, whose code is not compiled yet, then run the sections."""
    with bench.filled(100, WARM_ROWS):
        pass
    for section in sections:
        try:
            yield from SECTIONS[section].run(bench)
        except WorkerFailed as error:
            print(f"{section}: {error}", file=sys.stderr, flush=True)


def main() -> int:
    """Measure, print a table per case and what missed its target, and save the rows."""
    run = Run("spark", __doc__ or "", SECTIONS, turns=3, quick="one turn of a million rows at most: does it work at all?")
    chosen = run.arguments(PACKAGES)
    try:
        with kafka() as broker, session(broker.nodes[0]) as spark:
            bench = SparkBench(broker.bootstrap_servers, spark, 1 if chosen.quick else chosen.turns, quick=chosen.quick)
            run.tell(chosen.sections, measure(bench, chosen.sections))
    except KafkaUnavailable as reason:
        print(f"bench-spark needs a real Kafka, and the connector's jars: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
