"""One small Spark session for all tests that need one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from java_clients import Asked
from kafka_jars import KafkaUnavailable, spark_connector
from spark_topics import Topics

# Before any test module is imported: levada.spark would warn of another python3 on PATH.
os.environ["PYSPARK_PYTHON"] = sys.executable

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two cores. No data source is registered by hand."""
    builder = SparkSession.builder.master("local[2]").appName("levada tests")
    if jars := _connector():
        builder = builder.config("spark.jars", ",".join(jars))
    for name, value in {**SETTINGS, "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def _connector() -> list[str]:
    from levada.spark.pyspark_versions import HAS_ADMISSION_CONTROL

    if not HAS_ADMISSION_CONTROL:
        # The connector is that of Spark 4.2; beside an older one Spark finds no source at all.
        return []
    try:
        return [str(path) for path in spark_connector()]
    except KafkaUnavailable:
        return []


@pytest.fixture
def connector(spark: SparkSession) -> SparkSession:
    """The session, where Spark's own connector is there too."""
    if not spark.conf.get("spark.jars", ""):
        pytest.skip("Spark's own connector: Maven does not reach it, or this PySpark is older than it")
    return spark


@pytest.fixture(scope="session")
def java_clients(java_program: Callable[[str, str], Asked]) -> Asked:
    """Java's own producer and consumer."""
    return java_program("Clients", "4.4.0")


@pytest.fixture(scope="session")
def topics(kafka44: Any, java_clients: Asked) -> Topics:
    """Topics of every kind."""
    return Topics(kafka44, java_clients).create_all()
