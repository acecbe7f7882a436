"""The broker for benchmarks with targets, and texts about the machine they run on."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import levada
from kafka_cluster import KafkaCluster
from levada.record.reader import COMPILED
from levada.testing import Authority

# The heap of a broker in Kafka's own start script.
HEAP = "1g"
JVM = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent")
MEMORY = Path("/dev/shm")
LEAST_MEMORY_BYTES = 8 << 30
PROPERTIES = {"num.partitions": 4, "log.segment.delete.delay.ms": 1000}


def kafka(authority: Authority | None = None) -> KafkaCluster:
    """Return a node of Kafka 4.4 with the heap and the JIT compilers that users have, not started yet. Raises KafkaUnavailable.

    Its logs are on a memory file system where there is one with room, so that no disk is measured.
    authority: adds listeners with TLS.
    """
    has_room = MEMORY.is_dir() and min(shutil.disk_usage(MEMORY).free, _available_bytes()) >= LEAST_MEMORY_BYTES
    within = MEMORY if has_room else None
    if within is not None:
        _touch(within)
    return KafkaCluster("4.4.0", heap=HEAP, jvm_args=JVM, properties=PROPERTIES, authority=authority, within=within)


def _available_bytes() -> int:
    """Return how much memory programs may take: a memory file system does not know."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))


def _touch(folder: Path) -> None:
    """Write to the memory that logs will take, and free it.

    On a virtual machine the first write to a page costs several times what later ones do, and would count for the client that is first.
    """
    some = bytes(1 << 20)
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(LEAST_MEMORY_BYTES // len(some)):
            file.write(some)


def header(packages: Iterable[str]) -> str:
    """Return a line with the versions and the number of processor cores."""
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    form = "compiled" if COMPILED else "INTERPRETED"
    return f"Python {platform.python_version()}, levada at {_commit()} {form}, {versions}, {os.cpu_count()} cores"


def load() -> str:
    """Return the load average of the machine, as text."""
    return f"load average {os.getloadavg()[0]:.1f}"


def _commit() -> str:
    folder = Path(levada.__file__).parent
    run = subprocess.run(["git", "-C", str(folder), "describe", "--always", "--dirty"], capture_output=True, text=True)
    return run.stdout.strip() or levada.__version__
