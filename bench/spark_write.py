"""Writing: a batch query from memory to Kafka, and a stream from Kafka to Kafka, at least once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial

from pyspark.sql import DataFrame, functions

from engine_bench import LEVADA, System
from engine_process import Figures
from payloads import values
from spark_bench import CONNECTOR, PARTITIONS, READ_COMMITTED, TUNED, SparkBench, SparkCase, Topic, checked
from spark_session import WrongRows, fingerprint

SECTION = "write"
ROWS = 4_000_000
CODECS = ("none", "lz4")
# Few enough values to be literals of a query.
DISTINCT = 1000
WARM_ROWS = 500_000
TIMES = 1.5
SYSTEMS = (LEVADA, CONNECTOR, TUNED)


def run(bench: SparkBench) -> Iterator[SparkCase]:
    """Measure a batch write with each codec, then Kafka to Kafka."""
    rows = bench.scaled(ROWS)
    for codec in CODECS:
        case = SparkCase(SECTION, f"batch write of keys and values, 100 B, {codec}")
        yield _compare(bench, case, rows, {system: partial(_write, bench, system, codec) for system in SYSTEMS})
    case = SparkCase(SECTION, "AvailableNow from Kafka to Kafka, 100 B, none")
    with bench.filled(100, rows) as topic, bench.filled(100, WARM_ROWS) as warm:
        sources = {rows: topic, WARM_ROWS: warm}
        yield _compare(bench, case, rows, {system: partial(_pipe, bench, system, sources) for system in SYSTEMS})


def _compare(bench: SparkBench, case: SparkCase, rows: int, systems: dict[str, Callable[[int], Figures]]) -> SparkCase:
    """Let systems write `rows` rows in turns. Each first writes fewer rows, which do not count."""

    def system(name: str, write: Callable[[int], Figures]) -> System:
        def once() -> Figures:
            if name not in case.turns:
                write(WARM_ROWS)
            return write(rows)

        return checked(once)

    bench.run(case, {name: system(name, write) for name, write in systems.items()})
    case.hold_rate(LEVADA, TIMES)
    return case


def _write(bench: SparkBench, system: str, codec: str, rows: int) -> Figures:
    payload = functions.array(*[functions.lit(value) for value in values(100)[:DISTINCT]])
    value = functions.element_at(payload, (functions.col("id") % DISTINCT + 1).cast("int"))
    frame = bench.spark.range(rows).select(functions.col("id").cast("string").cast("binary").alias("key"), value.alias("value"))
    with bench.topic(PARTITIONS) as target:
        name, options = bench.sink(system, target)
        writer = frame.write.format(name).mode("append").options(**options, **{"kafka.compression.type": codec})
        figures = bench.session.timed(rows, writer.save)
        _check(bench, system, frame, Topic(target, rows))
    return figures


def _pipe(bench: SparkBench, system: str, sources: dict[int, Topic], rows: int) -> Figures:
    return pipe(bench, system, sources[rows])


def pipe(bench: SparkBench, system: str, source: Topic) -> Figures:
    """Copy a topic with a query; return the figures from its start to its end."""
    with bench.topic(PARTITIONS) as target, tempfile.TemporaryDirectory(prefix="levada-bench-") as checkpoint:
        name, options = bench.sink(system, target)
        frame = bench.pairs(system, source, startingOffsets="earliest")
        writer = frame.writeStream.format(name).options(**options, checkpointLocation=checkpoint).trigger(availableNow=True)
        figures = bench.session.timed(source.rows, lambda: writer.start().awaitTermination())
        _check(bench, system, bench.read(LEVADA, source).select("key", "value"), Topic(target, source.rows))
    return figures


def _check(bench: SparkBench, system: str, expected: DataFrame, written: Topic) -> None:
    wanted, found = fingerprint(expected), fingerprint(bench.read(LEVADA, written, **READ_COMMITTED).select("key", "value"))
    if found != wanted:
        raise WrongRows(f"{system} wrote rows that come to {found} instead of {wanted}")
