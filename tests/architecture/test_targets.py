"""What `make test` leaves out is left out on purpose."""

from __future__ import annotations

import re

import fetch_jars
from kafka_cluster import VERSIONS
from source_tree import ROOT

MARK = re.compile(r"\bmark\.spark\b")


def test_every_test_of_spark_stands_where_make_test_looks_for_it() -> None:
    (places,) = re.findall(r"^SPARK_TESTS := (.*)$", (ROOT / "Makefile").read_text(), re.M)
    marked = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py") if MARK.search(path.read_text())}
    assert {path for path in marked if not path.startswith(tuple(places.split()))} == set()
    assert "tests/spark/test_tutorial.py" in marked


def test_what_the_suite_starts_is_fetched_before_it() -> None:
    assert set(VERSIONS) <= set(fetch_jars.KAFKAS)
    assert all((ROOT / "tests" / "real_kafka" / f"pom-{kafka}.xml").is_file() for kafka in fetch_jars.KAFKAS)
