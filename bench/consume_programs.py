"""Consumers that are separate programs: Java's performance tool, and kcat."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from datetime import datetime
from pathlib import Path

from consume_meter import CPU, RATE, Job
from engine_bench import System
from engine_process import Figures, WorkerFailed
from java_tools import run_tool

WARM_SHARE = 3
INTERVAL_MS = 100
TIMEOUT_MS = 60_000
DATE_FORMAT, PYTHON_FORMAT = "yyyy-MM-dd HH:mm:ss:SSS", "%Y-%m-%d %H:%M:%S:%f"
NO_KCAT = "skipped: no kcat on PATH (apt install kcat)"


def perf_tool(job: Job) -> System:
    """Return a system with the tool's rate after a third of the records, and its whole processor time per record, including its start."""

    def run() -> Figures:
        with tempfile.NamedTemporaryFile("w", suffix=".properties") as settings:
            settings.write("".join(f"{name}={value}\n" for name, value in job.settings.items()))
            settings.flush()
            arguments = ["--bootstrap-server", job.bootstrap_servers, "--topic", job.topic, "--num-records", str(job.records)]
            arguments += ["--group", f"bench-{uuid.uuid4()}", "--command-config", settings.name, "--timeout", str(TIMEOUT_MS)]
            arguments += ["--fetch-size", str(job.settings["max.partition.fetch.bytes"]), "--date-format", DATE_FORMAT]
            arguments += ["--show-detailed-stats", "--reporting-interval", str(INTERVAL_MS)]
            printed, cpu = run_tool("ConsumerPerformance", arguments)
        return {RATE: _rate(printed, job.records // WARM_SHARE), CPU: cpu / job.records * 1e6}

    return run


def _rate(printed: str, warm: int) -> float:
    """Return thousands of records per second between the first report after the warm-up and the last report."""
    reports = [
        (_moment(fields[0]), int(fields[4]))
        for line in printed.splitlines()
        if len(fields := line.split(", ")) == 10 and fields[4].isdigit()
    ]
    counted = [report for report in reports if report[1] >= warm]
    if len(counted) < 2:
        raise WorkerFailed(f"Java's performance tool told no rate\n{printed[-1000:]}")
    (since, before), (until, after) = counted[0], counted[-1]
    return (after - before) / (until - since) / 1e3


def _moment(text: str) -> float:
    return datetime.strptime(text, PYTHON_FORMAT).timestamp()


def kcat(job: Job) -> System | str:
    """Return a system that measures the whole process, including its start, which takes a few milliseconds of about a second.

    Its output is discarded.
    """
    program = shutil.which("kcat") or shutil.which("kafkacat")
    if program is None:
        return NO_KCAT
    options = [word for name, value in job.settings.items() for word in ("-X", f"{name}={str(value).lower()}")]
    command = [program, "-C", "-b", job.bootstrap_servers, "-t", job.topic, "-o", "beginning", "-c", str(job.records), "-q", *options]

    def run() -> Figures:
        start = time.perf_counter()
        with Path(os.devnull).open("wb") as nowhere:
            process = subprocess.Popen(command, stdout=nowhere)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise WorkerFailed(f"kcat ended with {process.returncode}")
        return {RATE: job.records / (time.perf_counter() - start) / 1e3, CPU: (usage.ru_utime + usage.ru_stime) * 1e6 / job.records}

    return run
