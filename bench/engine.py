"""What the engine costs, compared with other clients on a real Kafka 4.4 node: `make bench-engine`, or `python bench/engine.py latency`."""

from __future__ import annotations

import sys
from pathlib import Path

import engine_latency
import engine_load
import engine_send
from engine_bench import Bench
from kafka_jars import KafkaUnavailable
from machine import kafka
from sections import Run

SECTIONS = {"latency": engine_latency, "send": engine_send, "load": engine_load}
PACKAGES = ("confluent-kafka", "aiokafka", "pyarrow")


def warm_up(bench: Bench) -> None:
    """Let the broker's JVM compile its code."""
    with bench.topic(4) as topic:
        engine_send.confluent_rate(**bench.job(topic, records=bench.scaled(500_000), value_bytes=100))


def main() -> int:
    """Measure, print a table per case and the missed targets, and save the rows."""
    run = Run("engine", __doc__ or "", SECTIONS, turns=5, quick="fewer records: does it work at all? Tails and ratios mean little")
    run.parser.add_argument("--before", type=Path, help="the src folder of an older levada, compiled, which takes turns with this one")
    chosen = run.arguments(PACKAGES)
    try:
        with kafka() as broker:
            bench = Bench(broker.bootstrap_servers, chosen.turns, quick=chosen.quick, before=chosen.before)
            warm_up(bench)
            run.tell(chosen.sections, run.cases(bench, chosen.sections))
    except KafkaUnavailable as reason:
        print(f"bench-engine needs a real Kafka: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
