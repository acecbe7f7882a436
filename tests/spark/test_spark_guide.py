"""The programs of docs/SPARK.md run as they stand, in the session of all tests; only the brokers and the checkpoint are other ones.

The pipeline runs in test_spark_connect.py, and what is said of clusters in test_spark_cluster.py.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import levada as lv
from levada.cli.commands.spark import SinkRow
from levada.registry import Schema, SchemaRegistryClient
from levada.spark import write_kafka
from levada.testing import EmbeddedKafka, EmbeddedRegistry
from source_tree import ROOT
from spark_guide import SECTIONS, blocks

pytestmark = pytest.mark.spark

AMOUNTS = sorted((b"%d" % number, b"%d.5" % number) for number in range(20) if number % 2 or number >= 10)
NOTHING: Mapping[str, str] = {}
ELSEWHERE = {"Spark Connect and declarative pipelines"}


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    """A broker with ten orders in each of two partitions."""
    with EmbeddedKafka(num_partitions=2) as kafka:
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for number in range(20):
                producer.send("orders", value=b'{"id": %d, "amount": %d.5}' % (number, number), partition=number % 2)
        yield kafka


@pytest.fixture
def run(spark: Any, kafka: EmbeddedKafka, tmp_path: Path) -> Any:
    """Run the Python of a section, with `spark`; return its names."""

    def run_section(section: str, replaced: Mapping[str, str] = NOTHING, **given: Any) -> dict[str, Any]:
        names: dict[str, Any] = {"spark": spark, **given}
        for block in blocks(section, "python", kafka.bootstrap_servers):
            # A relative path would be the JVM's, which every test shares.
            for printed, instead in {"checkpoints/": f"{tmp_path}/", **replaced}.items():
                block = block.replace(printed, instead)
            exec(block, names)
        return names

    return run_section


def records(kafka: EmbeddedKafka, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return sorted(
        (record.key, record.value) for record in lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed")
    )


def test_the_first_program_is_a_stream(run: Any) -> None:
    assert run("")["orders"].isStreaming


def test_which_python(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "another")
    run("Which Python")
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_the_settings_that_save_time(run: Any, spark: Any) -> None:
    """They are Spark's: it would not complain about a name that it does not know."""
    names = re.findall(r'config\("([^"]+)"', "".join(blocks("Settings of the session that save time", "python", "")))
    known = [name for name in names if spark._jsparkSession.sessionState().conf().isModifiable(name)]
    assert known == [name for name in names if "arrow" in name]
    before = {name: spark.conf.get(name) for name in known}
    try:
        named = run("Settings of the session that save time", SparkSession=SparkSession)["spark"]
        assert [named.conf.get(name) for name in known] == ["2147483647", "50000"]
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def test_the_helpers(run: Any, kafka: EmbeddedKafka) -> None:
    names = run("With typed keywords")
    assert names["query"].awaitTermination(100)
    assert records(kafka, "amounts") == AMOUNTS
    paid = run("Exactly once", amounts=names["amounts"])["query"]
    paid.processAllAvailable()
    paid.stop()
    assert records(kafka, "paid") == AMOUNTS


def test_the_listener(run: Any, spark: Any) -> None:
    listener = run("How far a query is behind")["listener"]
    assert listener.lags == []
    spark.streams.removeListener(listener)
    listener.close()


def test_the_sql(spark: Any, kafka: EmbeddedKafka) -> None:
    (script,) = blocks("SQL", "sql", kafka.bootstrap_servers)
    try:
        found = [spark.sql(statement).collect() for statement in script.split(";") if statement.strip()]
    finally:
        for view in ("orders", "totals"):
            spark.catalog.dropTempView(view)
    assert sorted(map(tuple, found[1])) == [(0, 10), (1, 10)]
    assert records(kafka, "totals") == [(b"0", b"10"), (b"1", b"10")]


def test_the_values_of_a_registry(run: Any) -> None:
    with EmbeddedRegistry() as server, SchemaRegistryClient(schema_registry_url=server.url) as registry:
        fields = [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}]
        registry.register_schema("orders-value", Schema(json.dumps({"type": "record", "name": "Order", "fields": fields})))
        orders = run("Reading", {"http://host:8081": server.url})["orders"]
    assert orders.isStreaming
    assert orders.schema.simpleString() == "struct<id:bigint,item:string>"


def test_the_values_that_are_written_and_totals_that_change(spark: Any, tmp_path: Path) -> None:
    orders = spark.createDataFrame([(1, "apple", 3)], "id long, item string, price int")
    (tmp_path / "sales").mkdir()
    (tmp_path / "sales" / "first.json").write_text('{"product": "pear", "amount": 2}\n{"product": "pear", "amount": 3}')
    sales = spark.readStream.schema("product string, amount long").json(str(tmp_path / "sales"))
    with EmbeddedKafka() as kafka:
        names = {"orders": orders, "sales": sales, "write_kafka": write_kafka}
        for block in blocks("Writing", "python", kafka.bootstrap_servers):
            exec(block.replace("checkpoints/", f"{tmp_path}/"), names)
        for query in spark.streams.active:
            query.processAllAvailable()
            query.stop()
        assert records(kafka, "orders") == [(None, b'{"id":1,"item":"apple","price":3}')]
        assert records(kafka, "totals") == [(b"pear", b'{"product":"pear","sum(amount)":5}')]


def literals() -> str:
    """Return the texts in levada's source, one a line."""
    found = []
    for path in (ROOT / "src" / "levada").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                found.append("\0".join(str(part.value) for part in node.values if isinstance(part, ast.Constant)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def test_the_messages_that_the_guide_quotes_are_those_of_the_code() -> None:
    told = SECTIONS["Exactly once"].partition("### What can still go wrong")[2]
    quoted = [text for text in re.findall("`([^`]+)`", told) if text.count(" ") > 3 and not text.startswith("levada ")]
    assert len(quoted) > 15
    said = literals()
    pieces = [piece.strip(" .,:;'") for text in quoted for piece in text.split("…")]
    assert [piece for piece in pieces if piece not in said] == []


def test_the_guide_explains_the_columns_of_the_list_of_sinks() -> None:
    heads = re.findall(r"^\| ([A-Z ,]+) \|", SECTIONS["Exactly once"], re.M)
    explained = {name for head in heads for name in head.split(", ")}
    assert explained == {name.replace("_", " ").upper() for name in SinkRow._fields}


def test_every_program_is_run() -> None:
    with_python = {section for section in SECTIONS if blocks(section, "python", "")}
    assert with_python == {
        "",
        "Which Python",
        "With typed keywords",
        "Reading",
        "Writing",
        "Exactly once",
        "How far a query is behind",
        "Settings of the session that save time",
        *ELSEWHERE,
    }
    assert {section for section in SECTIONS if blocks(section, "sql", "")} == {"SQL"}
