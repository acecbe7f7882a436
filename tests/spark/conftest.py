"""Fixtures for tests with Spark: one small session for all tests, queries, topics and tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

# Before levada.spark is imported: it would warn of another python3 on PATH.
os.environ["PYSPARK_PYTHON"] = sys.executable

import spark_strikes
import spark_verdict
from java_clients import Asked
from kafka_jars import KafkaUnavailable, spark_connector
from spark_copies import SOURCE_PARTITIONS, TARGET_PARTITIONS, Copy
from spark_drivers import Program
from spark_topics import Topics

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


@pytest.fixture
def no_idle_clients() -> Iterator[None]:
    """After the test, close the clients that its tasks and commits have kept for reuse."""
    yield
    from spark_sink import close_idle

    close_idle()


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
        # The connector is built for Spark 4.2. In an older Spark its jars make every source unavailable.
        return []
    try:
        return [str(path) for path in spark_connector()]
    except KafkaUnavailable:
        return []


@pytest.fixture
def connector(spark: SparkSession) -> SparkSession:
    """The session, with Spark's own Kafka connector. Skips the test if the connector is not available."""
    if not spark.conf.get("spark.jars", ""):
        pytest.skip("Spark's own connector: Maven does not reach it, or this PySpark is older than it")
    return spark


@pytest.fixture(scope="session")
def java_clients(java_program: Callable[[str, str], Asked]) -> Asked:
    """Java's own producer and consumer."""
    return java_program("Clients", "4.4.0")


@pytest.fixture(scope="session")
def topics(kafka44: Any, java_clients: Asked) -> Topics:
    """The topics of tests/kits/spark_topics.py, on Kafka 4.4."""
    return Topics(kafka44, java_clients).create_all()


@pytest.fixture
def strikes(spark: SparkSession, tmp_path: Path) -> Path:
    """An empty folder for strikes, with StruckDataSource registered (tests/kits/spark_strikes.py)."""
    cloudpickle.register_pickle_by_value(spark_strikes)  # type: ignore[no-untyped-call]
    spark.dataSource.register(spark_strikes.StruckDataSource)
    folder = tmp_path / "strikes"
    folder.mkdir()
    return folder


@pytest.fixture
def copy_of(spark: SparkSession, new_topic: Any, tmp_path: Path) -> Iterator[Callable[..., Copy]]:
    """Return a function that makes a query from a new topic to another: copy_of(kafka, **options). Stops the queries at the end."""
    made: list[Copy] = []

    def make(kafka: Any, **options: Any) -> Copy:
        topics = new_topic(kafka, SOURCE_PARTITIONS), new_topic(kafka, TARGET_PARTITIONS)
        made.append(Copy(spark, kafka, *topics, tmp_path / "checkpoint", **options))
        return made[-1]

    yield make
    for copy in made:
        copy.stop()


@pytest.fixture
def program_of(new_topic: Any, tmp_path: Path) -> Callable[..., Program]:
    """Return a function that makes a query in its own driver process: program_of(kafka, **settings of Program)."""
    numbers = count()

    def make(kafka: Any, **how: Any) -> Program:
        folder = tmp_path / str(next(numbers))
        (folder / "strikes").mkdir(parents=True)
        return Program(kafka, new_topic(kafka, SOURCE_PARTITIONS), new_topic(kafka, TARGET_PARTITIONS), folder, **how)

    return make


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """A SPARK_HOME with links to PySpark's files, but without its `work` folder, so that executors write below tmp_path."""
    home = tmp_path / "spark"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    return home


@pytest.fixture
def broker(any_kafka: Any, request: pytest.FixtureRequest) -> str:
    """The parameter of any_kafka: the name of the broker in tables."""
    name: str = request.node.callspec.params["any_kafka"]
    return name


@pytest.fixture(scope="session")
def table(note: Callable[[str], None]) -> Iterator[Callable[[str, list[str], list[str]], None]]:
    """Return a function that adds a row to a table at the end of the report: table(title, heads, row)."""
    rows: dict[str, list[Sequence[str]]] = {}

    def add(title: str, heads: list[str], row: list[str]) -> None:
        rows.setdefault(title, [heads]).append(row)

    yield add
    for title, (heads, *found) in rows.items():
        for line in ("", title, *spark_verdict.table(heads, found)):
            note(line)
