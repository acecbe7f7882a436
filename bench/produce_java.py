"""Java's own performance tool (kafka-tools), which sends a file's lines and waits until all is acknowledged."""

from __future__ import annotations

import re
import resource
import subprocess
import tempfile
from pathlib import Path

from engine_bench import System
from engine_process import TIMEOUT_S, Figures, WorkerFailed
from kafka_jars import jars, java
from measure import cpu_seconds
from payloads import values
from produce_bench import BROKER, CLIENT, RATE, Job

POM = Path(__file__).parents[1] / "tests" / "real_kafka" / "pom-perf-tool-4.3.0.xml"
WARM_SHARE = 3
# Without a limit the tool's collector runs in as many threads as it likes, and its heap grows to a quarter of the machine.
JVM = ("-Xmx512m",)
_RATE = re.compile(r"([\d.]+) records/sec")


def perf_tool(job: Job) -> System:
    """The tool's rate after a third of the records, and the processor time of all of it per record, starting included."""

    def run() -> Figures:
        with tempfile.NamedTemporaryFile("wb", suffix=".txt") as payload:
            payload.write(b"\n".join(values(job.value_bytes)))
            payload.flush()
            options = {"bootstrap.servers": job.bootstrap_servers, **job.settings}
            command = [str(java()), *JVM, "-cp", f"{jars(POM)}/*", "org.apache.kafka.tools.ProducerPerformance"]
            command += ["--topic", job.topic, "--num-records", str(job.records), "--warmup-records", str(job.records // WARM_SHARE)]
            command += ["--throughput", "-1", "--payload-file", payload.name]
            command += ["--command-property", *(f"{name}={value}" for name, value in options.items())]
            broker = cpu_seconds(job.broker_process)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        rates = _RATE.findall(ended.stdout)
        if ended.returncode != 0 or not rates:
            raise WorkerFailed(f"Java's performance tool failed\n{ended.stdout[-1000:]}{ended.stderr[-1000:]}")
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {
            RATE: float(rates[-1]) / 1e3,
            CLIENT: cpu / job.records * 1e6,
            BROKER: (cpu_seconds(job.broker_process) - broker) / job.records * 1e6,
        }

    return run
