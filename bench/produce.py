"""What producing costs beside other clients, on a real Kafka 4.4 node: `make bench-produce`, or `python bench/produce.py lz4`."""

from __future__ import annotations

import sys

import produce_transactions
from kafka_jars import KafkaUnavailable
from machine import kafka
from produce_bench import ProduceBench
from produce_rates import Rates
from sections import Run

SECTIONS = {**{codec: Rates(codec) for codec in ("none", "lz4", "zstd")}, "transactions": produce_transactions}
PACKAGES = ("confluent-kafka", "aiokafka", "kafka-python", "pyarrow")


def main() -> int:
    """Measure, print a table per case and the missed targets, and save the rows."""
    run = Run("produce", __doc__ or "", SECTIONS, turns=3, quick="one turn of a fifth of the records: does it work at all?")
    chosen = run.arguments(PACKAGES)
    try:
        with kafka() as broker:
            bench = ProduceBench(broker.nodes[0], 1 if chosen.quick else chosen.turns, quick=chosen.quick)
            run.tell(chosen.sections, run.cases(bench, chosen.sections))
    except KafkaUnavailable as reason:
        print(f"bench-produce needs a real Kafka, and Kafka's tools: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
