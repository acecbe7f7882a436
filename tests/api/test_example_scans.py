"""examples/scan_*.py: each library reads a topic, and they agree."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import levada as lv
from example_programs import Kafka, broker
from kafka_cluster import KafkaCluster

EXAMPLES = Path(__file__).parents[2] / "examples"
LIBRARIES = sorted(path.stem.removeprefix("scan_") for path in EXAMPLES.glob("scan_*.py"))


@pytest.fixture(scope="module")
def kafka(given_kafka: KafkaCluster | None) -> Iterator[Kafka]:
    """Topic orders: a and c today, b two days ago and today."""
    with broker(given_kafka, 2) as kafka:
        kafka.create_topic("orders", 2)
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            producer.send("orders", b"old", key="b", timestamp=1_700_000_000_000, partition=0).result(10)
            producer.send_many("orders", [(key, b"1 pear") for key in "abcabbc"])
        yield kafka


def test_there_is_an_example_for_each_library() -> None:
    assert LIBRARIES == ["datafusion", "duckdb", "pandas", "polars"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_example_counts_the_records_of_a_day(
    kafka: Kafka, library: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    program = EXAMPLES / f"scan_{library}.py"
    monkeypatch.setattr(sys, "argv", [str(program), kafka.bootstrap_servers, "orders"])
    runpy.run_path(str(program), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == ["key,len", "a,2", "b,3", "c,2"]
