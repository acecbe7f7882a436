"""What the engine costs beside other clients' on a real Kafka 4.4 node: `make bench-engine`, or `python bench/engine.py latency`."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import engine_idle
import engine_latency
import engine_load
import engine_read
import engine_send
import levada
from engine_bench import Bench, Case
from engine_process import WorkerFailed
from engine_report import missed, rows, table
from kafka_cluster import KafkaCluster
from kafka_jars import KafkaUnavailable
from levada.record.reader import COMPILED
from report import write

SECTIONS = {"latency": engine_latency, "send": engine_send, "load": engine_load, "read": engine_read, "idle": engine_idle}
PACKAGES = ("confluent-kafka", "aiokafka", "pyarrow")
# As Kafka's own start script runs a broker.
HEAP = "1g"
JVM = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent")
PROPERTIES = {"num.partitions": 4, "log.segment.delete.delay.ms": 1000}


def header() -> str:
    """What runs where."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    form = "compiled" if COMPILED else "INTERPRETED"
    return f"Python {platform.python_version()}, levada at {_commit()} {form}, {packages}, {os.cpu_count()} cores"


def _commit() -> str:
    folder = Path(levada.__file__).parent
    run = subprocess.run(["git", "-C", str(folder), "describe", "--always", "--dirty"], capture_output=True, text=True)
    return run.stdout.strip() or levada.__version__


def load() -> str:
    """How busy the machine is, by itself."""
    return f"load average {os.getloadavg()[0]:.1f}"


def measure(bench: Bench, sections: list[str]) -> Iterator[Case]:
    """Warm up the broker, whose code is not compiled yet, then run the sections."""
    with bench.topic(4) as topic:
        engine_send.confluent_rate(**bench.job(topic, records=bench.scaled(500_000), value_bytes=100))
    for section in sections:
        try:
            yield from SECTIONS[section].run(bench)
        except WorkerFailed as error:
            print(f"{section}: {error}", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/engine.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sections", nargs="*", default=list(SECTIONS), help=f"{', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--turns", type=int, default=5, help="turns of every system; medians count (default: 5)")
    parser.add_argument("--quick", action="store_true", help="fewer records: does it work at all? Tails and ratios mean little")
    parser.add_argument("--before", action="store_true", help="levada as it was before issue 8 in latency, load and read too")
    chosen = parser.parse_args()
    if unknown := set(chosen.sections) - SECTIONS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    return chosen


def main() -> int:
    """Measure, print a table per case and what missed its target, and save the rows."""
    chosen, started, cases = arguments(), time.monotonic(), []
    print(f"{header()}, {load()} before", flush=True)
    try:
        with KafkaCluster("4.4.0", heap=HEAP, jvm_args=JVM, properties=PROPERTIES) as kafka:
            bench = Bench(kafka.bootstrap_servers, chosen.turns, quick=chosen.quick, before=chosen.before)
            for case in measure(bench, chosen.sections):
                cases.append(case)
                print(f"\n{table(case)}", flush=True)
    except KafkaUnavailable as reason:
        print(f"bench-engine needs a real Kafka: {reason}", file=sys.stderr)
        return 1
    print("\n" + "\n".join(["Missed:", *missed(cases)] if missed(cases) else ["No target missed."]))
    name = "engine" if chosen.sections == list(SECTIONS) else f"engine-{'-'.join(chosen.sections)}"
    print(f"\nrows saved in {write(name, rows(cases))}; {time.monotonic() - started:.0f} s, {load()} after")
    return 0


if __name__ == "__main__":
    sys.exit(main())
