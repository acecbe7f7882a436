"""What Spark does with Kafka through levada beside Spark's own connector, on a real Kafka 4.4 node: `make bench-spark`."""

from __future__ import annotations

import sys

import spark_json
import spark_latency
import spark_once
import spark_read
import spark_stream
import spark_write
from kafka_jars import KafkaUnavailable
from machine import kafka
from sections import Run
from spark_bench import WARM_ROWS, SparkBench
from spark_once import inline_of
from spark_session import session

SECTIONS = {
    "read": spark_read,
    "stream": spark_stream,
    "json": spark_json,
    "write": spark_write,
    "latency": spark_latency,
    "once": spark_once,
}
INLINE_MAX_BYTES = 64 << 20
PACKAGES = ("pyspark", "pyarrow", "confluent-kafka")


def warm_up(bench: SparkBench) -> None:
    """Let the broker's JVM compile its code."""
    with bench.filled(100, WARM_ROWS):
        pass


def main() -> int:
    """Measure, print a table per case and the missed targets, and save the rows."""
    run = Run("spark", __doc__ or "", SECTIONS, turns=3, quick="one turn of a million rows at most: does it work at all?")
    meaning = f"section once: inlineMaxBytes where all rows go through the driver (default: {INLINE_MAX_BYTES})"
    run.parser.add_argument("--inline-max-bytes", type=int, default=INLINE_MAX_BYTES, help=meaning)
    chosen = run.arguments(PACKAGES)
    inline = inline_of(chosen.inline_max_bytes)
    try:
        with kafka() as broker, session(broker.nodes[0]) as spark:
            bench = SparkBench(broker.nodes[0], spark, 1 if chosen.quick else chosen.turns, inline, quick=chosen.quick)
            warm_up(bench)
            run.tell(chosen.sections, run.cases(bench, chosen.sections))
    except KafkaUnavailable as reason:
        print(f"bench-spark needs a real Kafka, and the connector's jars: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
