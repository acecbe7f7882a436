"""A batch query reads a topic and discards the rows: all columns, values alone, and the rows since a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pyspark.sql import Column, DataFrame, functions

from engine_bench import LEVADA
from spark_bench import CONNECTOR, TUNED, Reader, SparkBench, SparkCase, Topic

SECTION = "read"
ROWS = {100: 20_000_000, 1024: 1_000_000}
CODECS = ("none", "lz4")
BY_SCHEMA, BY_SELECT = "levada, schema of value", "levada, select of value"
SELECTED = {BY_SELECT: LEVADA, CONNECTOR: CONNECTOR, TUNED: TUNED}
# The smallest ratio of rates, by size and case.
TIMES = {100: {LEVADA: 2, BY_SCHEMA: 3, BY_SELECT: 1.5}, 1024: {LEVADA: 1.5, BY_SCHEMA: 1.5, BY_SELECT: 1.5}}
CPU_SHARE = 0.5
NEAR_THE_END = 0.99
NEAR_THE_END_TIMES = 10


def run(bench: SparkBench) -> Iterator[SparkCase]:
    """Measure every size and codec. All cases of a size and codec read the same topic."""
    for size, rows in ROWS.items():
        for codec in CODECS:
            with bench.filled(size, bench.scaled(rows), codec) as topic:
                yield _all_columns(bench, topic, size, codec)
                yield _values(bench, topic, size, codec)
                if (size, codec) == (100, "none"):
                    yield _near_the_end(bench, topic)


def _all_columns(bench: SparkBench, topic: Topic, size: int, codec: str) -> SparkCase:
    case = SparkCase(SECTION, f"all columns, {size} B, {codec}")
    bench.compare(case, topic, {system: partial(bench.read, system, topic) for system in (LEVADA, CONNECTOR, TUNED)})
    case.hold_rate(LEVADA, TIMES[size][LEVADA])
    case.hold_cpu(LEVADA, CPU_SHARE)
    return case


def _values(bench: SparkBench, topic: Topic, size: int, codec: str) -> SparkCase:
    """Measure reading values alone. The connector has no schema with fewer columns."""
    case = SparkCase(SECTION, f"values, {size} B, {codec}")
    readers: dict[str, Reader] = {BY_SCHEMA: lambda **options: bench.reader(LEVADA, topic, **options).schema("value binary").load()}
    readers |= {name: partial(_selected, bench, system, topic) for name, system in SELECTED.items()}
    bench.compare(case, topic, readers)
    for system in (BY_SCHEMA, BY_SELECT):
        case.hold_rate(system, TIMES[size][system])
        case.hold_cpu(system, CPU_SHARE)
    return case


def _selected(bench: SparkBench, system: str, topic: Topic, **options: str) -> DataFrame:
    return bench.read(system, topic, **options).select("value")


def _near_the_end(bench: SparkBench, topic: Topic) -> SparkCase:
    """Measure reading the last rows, selected by the time at which the rows before were written."""
    last = bench.read(LEVADA, topic, startingOffsets=topic.offsets(int(topic.rows * NEAR_THE_END)))
    since = functions.lit(last.agg(functions.min("timestamp")).collect()[0][0])
    readers = {system: partial(_since, bench, system, topic, since) for system in (LEVADA, CONNECTOR, TUNED)}
    rows = readers[CONNECTOR]().count()
    case = SparkCase(SECTION, f"where timestamp >= ..., the last {rows:,} of {topic.rows:,} rows, 100 B")
    bench.compare(case, topic, readers, rows=rows)
    case.hold_rate(LEVADA, NEAR_THE_END_TIMES)
    case.hold_cpu(LEVADA, CPU_SHARE)
    return case


def _since(bench: SparkBench, system: str, topic: Topic, since: Column, **options: str) -> DataFrame:
    pushed = {"pushFilters": "true"} if system == LEVADA else {}
    return bench.read(system, topic, **options, **pushed).where(functions.col("timestamp") >= since)
