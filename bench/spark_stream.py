"""A stream reads a topic and discards the rows, with few rows and with many: what a query costs to start, and what each row costs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial

from engine_bench import LEVADA
from engine_process import Figures
from spark_bench import CONNECTOR, TUNED, SparkBench, SparkCase, Topic, checked
from spark_session import CPU, RATE, WrongRows

SECTION = "stream"
SIZE = 100
ROWS, FEW_ROWS = 20_000_000, 2_000_000
SYSTEMS = (LEVADA, CONNECTOR, TUNED)
START_S, SLOPE_RATE, SLOPE_CPU = "start s", "k rows/s after the start", "CPU us per row after the start"
TIMES, CPU_SHARE = 2, 1


def run(bench: SparkBench) -> Iterator[SparkCase]:
    """Measure a query under AvailableNow that reads all columns."""
    rows, few = bench.scaled(ROWS), bench.scaled(FEW_ROWS) // (2 if bench.quick else 1)
    case = SparkCase(SECTION, f"AvailableNow to noop, {rows:,} of {SIZE} B, none; start-up told by {few:,}")
    with bench.filled(SIZE, rows) as many, bench.filled(SIZE, few) as start:
        bench.run(case, {system: checked(partial(_both, bench, case, system, many, start)) for system in SYSTEMS}, both_orders=True)
    case.hold(LEVADA, RATE, TUNED, TIMES, at_least=True)
    case.hold(LEVADA, CPU, TUNED, CPU_SHARE)
    yield case


def _both(bench: SparkBench, case: SparkCase, system: str, many: Topic, few: Topic) -> Figures:
    if system not in case.turns:
        _drained(bench, system, few)
    small, large = _drained(bench, system, few), _drained(bench, system, many)
    more = many.rows - few.rows
    seconds = many.rows / large[RATE] / 1e3 - few.rows / small[RATE] / 1e3
    cpu_us = many.rows * large[CPU] - few.rows * small[CPU]
    return large | {
        START_S: few.rows * (1 / small[RATE] / 1e3 - seconds / more),
        SLOPE_RATE: more / seconds / 1e3,
        SLOPE_CPU: cpu_us / more,
    }


def _drained(bench: SparkBench, system: str, topic: Topic) -> Figures:
    frame = bench.stream(system, topic, startingOffsets="earliest")
    with tempfile.TemporaryDirectory(prefix="levada-bench-") as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query = None

        def work() -> None:
            nonlocal query
            query = writer.start()
            query.awaitTermination()

        figures = bench.session.timed(topic.rows, work)
    assert query is not None
    if (found := sum(progress["numInputRows"] for progress in query.recentProgress)) != topic.rows:
        raise WrongRows(f"{system} has {found} rows instead of {topic.rows}")
    return figures
