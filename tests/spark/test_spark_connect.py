"""Spark Connect and declarative pipelines: the same format, helpers and listener, in one process with a server of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import levada as lv
from levada.testing import EmbeddedKafka
from spark_guide import blocks

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(650)]

JOB = Path(__file__).parent / "connect_job.py"


def test_connect_and_pipelines_read_and_write(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs pip install pyspark[pipelines]")
    pytest.importorskip("yaml", reason="Spark's pipelines need pip install pyspark[pipelines]")
    with EmbeddedKafka(num_partitions=2) as kafka:
        with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            admin.create_topics([lv.NewTopic(name, partitions=2) for name in ("rows", "orders", "copies")])
        write_pipeline(tmp_path, kafka)
        command = [sys.executable, str(JOB), kafka.bootstrap_servers, str(tmp_path)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        written = {name: values_in(kafka, name) for name in ("rows", "orders", "copies")}

    found = json.loads(done.stdout.splitlines()[-1])
    assert found["session"] == "pyspark.sql.connect.session"
    assert found["batch"] == 100
    assert found["lags"][0] in range(48, 53)
    assert found["lags"][-1] == 0
    assert written["rows"] == sorted(b"%d" % number for number in range(100))
    assert written["orders"] == written["copies"] == written["rows"]


def write_pipeline(folder: Path, kafka: EmbeddedKafka) -> None:
    """Write the pipeline of docs/SPARK.md, as `spark-pipelines init` lays one out."""
    (program,) = blocks("Spark Connect and declarative pipelines", "python", kafka.bootstrap_servers)
    (folder / "transformations").mkdir()
    (folder / "transformations" / "copy.py").write_text(program)
    spec = f"name: copy\nstorage: file://{folder}/storage\nlibraries:\n  - glob:\n      include: transformations/**\n"
    (folder / "spark-pipeline.yml").write_text(spec)


def values_in(kafka: EmbeddedKafka, topic: str) -> list[bytes]:
    return sorted(record.value or b"" for record in lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers))
