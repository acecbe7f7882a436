"""Reading with levada beside confluent-kafka, on a real Kafka 4.4 node of this machine: `make bench`.

Every run of every system is a process of its own. The broker shares the machine's processors with the client, as it does for everybody
here; compare systems with each other, not with a cluster.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from kafka_cluster import KafkaCluster
from kafka_jars import KafkaUnavailable
from measure import Job, Sample
from report import Row, fill_in_ratios, row, table, write

WORKER = Path(__file__).parent / "worker.py"
PARTITIONS = 4
TIMEOUT_S = 300
RECORDS = {100: 1_000_000, 1024: 300_000}

CONSUMERS = {
    "levada poll": "consume:levada_poll",
    "levada poll_arrow": "consume:levada_poll_arrow",
    "confluent-kafka consume": "consume:confluent_consume",
    "confluent-kafka consume to Arrow": "consume:confluent_consume_to_arrow",
}


class Bench:
    """One broker and what is run against it."""

    def __init__(self, kafka: KafkaCluster, repeat: int, shrink: int) -> None:
        self._kafka = kafka
        self._repeat = repeat
        self._shrink = shrink
        self._topics = 0

    def clients(self, codecs: Iterable[str]) -> list[Row]:
        """Consume, per value size and codec."""
        return [one for codec in codecs for size in RECORDS for one in self._case(size, codec, self._filled_topic(size, codec))]

    def _case(self, size: int, codec: str, topic: str) -> Iterator[Row]:
        """Take turns between the systems, so that a slow minute of the machine hits all of them."""
        samples: dict[str, list[Sample]] = {system: [] for system in CONSUMERS}
        for _ in range(self._repeat):
            for system, runner in CONSUMERS.items():
                samples[system].append(self._run(runner, self._job(topic, size, codec)))
        for system in CONSUMERS:
            yield self._told(row("consume", system, size, codec, samples[system]))

    def _told(self, one: Row) -> Row:
        print(f"{one.case} {one.value_bytes} B {one.codec}: {one.system}: {one.records_per_s:,}/s, {one.client_cpu_us:.2f} us", flush=True)
        return one

    def _job(self, topic: str, size: int, codec: str) -> Job:
        return Job(self._kafka.bootstrap_servers, topic, PARTITIONS, RECORDS[size] // self._shrink, size, codec)

    def _run(self, runner: str, job: Job) -> Sample:
        command = [sys.executable, str(WORKER), runner, json.dumps(asdict(job))]
        run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        if run.returncode != 0:
            raise RuntimeError(f"{runner} failed on {job}:\n{run.stderr[-3000:]}")
        return Sample(**json.loads(run.stdout.splitlines()[-1]))

    def _new_topic(self) -> str:
        self._topics += 1
        self._kafka.create_topic(f"bench-{self._topics}", PARTITIONS)
        return f"bench-{self._topics}"

    def _filled_topic(self, size: int, codec: str) -> str:
        topic = self._new_topic()
        self._run("fill:fill", self._job(topic, size, codec))
        return topic


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--codecs", default="none,lz4", help="separated by commas (default: none,lz4)")
    parser.add_argument("--repeat", type=int, default=3, help="runs per system and case; their median counts (default: 3)")
    parser.add_argument("--quick", action="store_true", help="one run with a tenth of the records: does it work at all?")
    return parser.parse_args()


def main() -> int:
    """Run everything, print a table and save its rows."""
    chosen = arguments()
    started = time.monotonic()
    try:
        with KafkaCluster("4.4.0", heap="1g", jvm_args=(), properties={"num.partitions": PARTITIONS}) as kafka:
            bench = Bench(kafka, 1 if chosen.quick else chosen.repeat, 10 if chosen.quick else 1)
            rows = bench.clients(chosen.codecs.split(","))
    except KafkaUnavailable as reason:
        print(f"bench needs a real Kafka: {reason}", file=sys.stderr)
        return 1
    fill_in_ratios(rows)
    print(f"\n{table(rows)}\n\nrows saved in {write('clients', rows)}; {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
