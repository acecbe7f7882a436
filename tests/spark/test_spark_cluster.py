"""A cluster: executors with processes of their own, which have levada from an archive, and Python workers that are never reused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import levada as lv
from source_tree import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(650)]

JOB = Path(__file__).parent / "cluster_job.py"
TOO_LATE_MS = 2**62 - 1
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The wheel, installed into a folder, with that folder as an archive beside it: as docs/SPARK.md says."""
    build = f"setup.py -q egg_info --egg-base {tmp_path} build --build-base {tmp_path}/build bdist_wheel --dist-dir {tmp_path}"
    subprocess.run([sys.executable, *build.split()], cwd=ROOT, env={**os.environ, "LEVADA_PURE": "1"}, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    install = f"-m pip install -q --disable-pip-version-check --no-deps --target {tmp_path}/env {wheel}"
    subprocess.run([sys.executable, *install.split()], check=True)
    shutil.make_archive(str(tmp_path / "levada"), "zip", tmp_path / "env")
    return tmp_path


def produce(kafka: Any, topic: str) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(100):
            producer.send(topic, value=b"%d" % number, partition=number % 2)
        producer.send(topic, value=b"Spark cannot hold its time", partition=0, timestamp=TOO_LATE_MS)


def test_a_cluster_reads_and_writes(embedded: Any, new_topic: Any, installed: Path, spark_home: Path) -> None:
    source, target = new_topic(embedded, partitions=2, config=ANY_TIME), new_topic(embedded, config=ANY_TIME)
    produce(embedded, source)
    command = [sys.executable, str(JOB), embedded.bootstrap_servers, source, target, str(installed)]
    # Spark hands the driver's path on. This one means nothing where executors run.
    environment = {**os.environ, "SPARK_HOME": str(spark_home), "PYTHONPATH": "env"}

    done = subprocess.run(command, cwd=installed, env=environment, capture_output=True, text=True, timeout=600)

    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(list(lv.scan(target, bootstrap_servers=embedded.bootstrap_servers))) == 100
    assert len(found["tasks"]) == 4
    assert all("/from_archive/levada/__init__.py" in task["home"] for task in found["tasks"])
    assert len({task["pid"] for task in found["tasks"]}) == 4, "a Python worker was reused"
    logs = [path.read_text() for path in spark_home.glob("work/*/*/stderr")]
    assert len(logs) == 2
    (line,) = [line for log in logs for line in log.splitlines() if "more than Spark can hold" in line and "query_id" in line]
    assert f"WARNING levada.spark.schema [query_id={found['query']} run_id=" in line
    assert " batch_id=0 task=" in line
    assert f"{source}-0 at offset 50" in line
