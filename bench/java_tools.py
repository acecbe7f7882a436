"""Runs programs of Kafka's own tools, with the clients of their version."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Sequence
from pathlib import Path

from engine_process import TIMEOUT_S, WorkerFailed
from kafka_jars import jars, java

POM = Path(__file__).parents[1] / "tests" / "real_kafka" / "pom-perf-tool-4.3.0.xml"
# Without a limit a tool's garbage collector uses all processors, and its heap may grow to a quarter of the memory.
JVM = ("-Xmx512m",)


def run_tool(name: str, arguments: Sequence[str]) -> tuple[str, float]:
    """Run a tool; return its output, and the processor time of its process in seconds, including its start. Raises WorkerFailed."""
    command = [str(java()), *JVM, "-cp", f"{jars(POM)}/*", f"org.apache.kafka.tools.{name}", *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise WorkerFailed(f"{name} did not end within {TIMEOUT_S} s") from None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode != 0:
        raise WorkerFailed(f"{name} failed\n{ended.stdout[-1000:]}{ended.stderr[-1000:]}")
    return ended.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
