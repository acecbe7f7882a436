"""Java's own performance tool (kafka-tools), which sends a file's lines and waits until all are acknowledged."""

from __future__ import annotations

import re
import tempfile

from engine_bench import System
from engine_process import Figures, WorkerFailed
from java_tools import run_tool
from measure import cpu_seconds
from payloads import values
from produce_bench import BROKER, CLIENT, RATE, Job

WARM_SHARE = 3
_RATE = re.compile(r"([\d.]+) records/sec")


def perf_tool(job: Job) -> System:
    """Return a system with the tool's rate after a third of the records, and its whole processor time per record, including its start."""

    def run() -> Figures:
        with tempfile.NamedTemporaryFile("wb", suffix=".txt") as payload:
            payload.write(b"\n".join(values(job.value_bytes)))
            payload.flush()
            options = {"bootstrap.servers": job.bootstrap_servers, **job.settings}
            arguments = ["--topic", job.topic, "--num-records", str(job.records), "--warmup-records", str(job.records // WARM_SHARE)]
            arguments += ["--throughput", "-1", "--payload-file", payload.name]
            arguments += ["--command-property", *(f"{name}={value}" for name, value in options.items())]
            broker = cpu_seconds(job.broker_process)
            printed, cpu = run_tool("ProducerPerformance", arguments)
        rates = _RATE.findall(printed)
        if not rates:
            raise WorkerFailed(f"Java's performance tool told no rate\n{printed[-1000:]}")
        return {
            RATE: float(rates[-1]) / 1e3,
            CLIENT: cpu / job.records * 1e6,
            BROKER: (cpu_seconds(job.broker_process) - broker) / job.records * 1e6,
        }

    return run
