"""Compares levada scan --to parquet with the library's scan and with kcat writing to a file, in turns, on a real Kafka.

    make bench-cli [CLI_FLAGS="--records 4_000_000 --turns 3"]

Targets: at least half of the library's rate, and faster than kcat writing raw values or JSON. The library's scan returns the same columns
and writes nothing.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import fill
from kafka_cluster import KafkaCluster

TOPIC = "bench-cli"
PARTITIONS, SIZE = 4, 100
LIBRARY = """
import sys, levada
columns = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
read = levada.scan(sys.argv[2], bootstrap_servers=sys.argv[1], columns=columns, batch_rows=131_072)
assert sum(batch.num_rows for batch in read.arrow()) == int(sys.argv[3])
"""
LIBRARY_WAY, LEVADA, KCAT, KCAT_JSON = "library scan", "levada scan --to parquet", "kcat > file", "kcat -J > file"


class Run(NamedTuple):
    """One run of a program, including its start."""

    seconds: float
    cpu_seconds: float


def programs(bootstrap_servers: str, records: int, folder: Path) -> Mapping[str, tuple[Sequence[str], Path]]:
    """Return the programs by name, each with the file for its stdout."""
    python, nowhere = sys.executable, folder / "stdout"
    found: dict[str, tuple[Sequence[str], Path]] = {
        LIBRARY_WAY: ([python, "-c", LIBRARY, bootstrap_servers, TOPIC, str(records)], nowhere),
        LEVADA: ([python, "-m", "levada.cli", "scan", TOPIC, "-b", bootstrap_servers, "--to", str(folder / "x.parquet")], nowhere),
    }
    if kcat := shutil.which("kcat") or shutil.which("kafkacat"):
        reads = [kcat, "-C", "-q", "-e", "-b", bootstrap_servers, "-t", TOPIC, "-o", "beginning"]
        found |= {KCAT: (reads, folder / "kcat"), KCAT_JSON: ([*reads, "-J"], folder / "kcat.json")}
    return found


def run(command: Sequence[str], to: Path) -> Run:
    """Run a program to its end."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with to.open("wb") as out:
        subprocess.run(command, stdout=out, check=True)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Run(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000_000)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    with KafkaCluster("4.4.0") as kafka, tempfile.TemporaryDirectory() as folder:
        kafka.create_topic(TOPIC, PARTITIONS)
        fill.topic(kafka.bootstrap_servers, TOPIC, SIZE, options.records, PARTITIONS, "lz4")
        ways = programs(kafka.bootstrap_servers, options.records, Path(folder))
        runs: dict[str, list[Run]] = {way: [] for way in ways}
        for _ in range(options.turns):
            for way, (command, to) in ways.items():
                runs[way].append(run(command, to))
                to.unlink()
    report(options.records, runs)


def report(records: int, runs: Mapping[str, Sequence[Run]]) -> None:
    """Print the medians, and whether the targets are met."""
    rates = {way: records / median(run.seconds for run in of_way) for way, of_way in runs.items()}
    for way, of_way in runs.items():
        cpu_us = median(run.cpu_seconds for run in of_way) / records * 1e6
        print(f"{way:<26} {rates[way] / 1000:>8,.0f} k records/s  {cpu_us:6.3f} us processor time per record")
    print(f"of the library's rate: {rates[LEVADA] / rates[LIBRARY_WAY]:.2f} (target: 0.5)")
    if KCAT in rates:
        print(f"beside kcat: {rates[LEVADA] / rates[KCAT]:.2f}, with JSON {rates[LEVADA] / rates[KCAT_JSON]:.2f} (target: above 1)")


if __name__ == "__main__":
    main()
