"""A batch query reads JSON objects of five fields into columns: typed by the source, or by from_json after the connector."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pyspark.sql import DataFrame, functions

from engine_bench import LEVADA
from fill import JSON
from spark_bench import CONNECTOR, TUNED, SparkBench, SparkCase, Topic

SECTION = "json"
ROWS = 4_000_000
FIELDS = "id long, name string, price double, active boolean, seen_at timestamp"
TIMES = 4
CPU_SHARE = 0.5


def run(bench: SparkBench) -> Iterator[SparkCase]:
    """Measure one case, without compression."""
    case = SparkCase(SECTION, "JSON to five columns, 108 B, none")
    with bench.filled(JSON, bench.scaled(ROWS)) as topic:
        connectors = {system: partial(_from_json, bench, system, topic) for system in (CONNECTOR, TUNED)}
        bench.compare(case, topic, {LEVADA: partial(_typed, bench, topic), **connectors})
    case.hold_rate(LEVADA, TIMES)
    case.hold_cpu(LEVADA, CPU_SHARE)
    yield case


def _typed(bench: SparkBench, topic: Topic, **options: str) -> DataFrame:
    typed = {"value.format": "json", "value.schema": FIELDS, "columns": "value"}
    return bench.read(LEVADA, topic, **typed, **options).select("value.*")


def _from_json(bench: SparkBench, system: str, topic: Topic, **options: str) -> DataFrame:
    text = bench.read(system, topic, **options).select(functions.col("value").cast("string"))
    return text.select(functions.from_json("value", FIELDS).alias("value")).select("value.*")
