"""Micro-batches with a small steady load of 1,000 records per second, and the time of a trigger by Spark's own phases."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from statistics import median
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from engine_bench import LEVADA, Target
from engine_pace import percentiles, ticks
from engine_process import Figures, Worker
from payloads import DISTINCT, values
from spark_bench import CONNECTOR, SparkBench, SparkCase, Topic, checked
from spark_session import WrongRows

SECTION = "latency"
PARTITIONS = (1, 4, 16)
PER_SECOND = 1000
SECONDS = 15
WARM_S = 5
P50 = "p50 ms"
TIMES = 2
TIMES_OF_ONE = 1.5
TRIGGER = "triggerExecution"
PHASES = ("latestOffset", "walCommit", "queryPlanning", "addBatch", "commitOffsets")
MS_NS = 1_000_000


def run(bench: SparkBench) -> Iterator[SparkCase]:
    """Measure each number of partitions."""
    first: float | None = None
    for partitions in PARTITIONS:
        case = SparkCase(SECTION, f"micro-batches at {PER_SECOND:,} records/s, partitions: {partitions}")
        bench.run(case, {system: checked(partial(_figures, bench, system, partitions)) for system in (LEVADA, CONNECTOR)})
        case.hold(LEVADA, P50, CONNECTOR, TIMES)
        found = case.figure(LEVADA, P50)
        first = first or found
        if partitions == PARTITIONS[-1]:
            ratio = found / first if found and first else None
            case.targets.append(Target(LEVADA, f"{P50} / its own with one partition", TIMES_OF_ONE, ratio))
        yield case


def _figures(bench: SparkBench, system: str, partitions: int) -> Figures:
    """Measure a new query from its start to its stop."""
    records = PER_SECOND * (SECONDS + WARM_S)
    with bench.topic(partitions) as name, tempfile.TemporaryDirectory(prefix="levada-bench-") as checkpoint:
        frame = bench.stream(system, Topic(name, 0), startingOffsets="earliest")
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            busy = bench.session.busy(lambda: feed(bench, name, partitions, records, query))
        finally:
            query.stop()
        batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
    if (found := sum(batch["numInputRows"] for batch in batches)) != records:
        raise WrongRows(f"{system} has {found} rows instead of {records}")
    return summed_up(batches) | busy


def feed(bench: SparkBench, topic: str, partitions: int, records: int, query: StreamingQuery) -> None:
    """Write a topic at the pace of the section, and wait until a query has all of it."""
    Worker("spark_latency:produce", bench.job(topic, partitions=partitions, records=records)).result()
    query.processAllAvailable()


def summed_up(batches: list[Any]) -> Figures:
    """Return percentiles of the triggers, and the medians of their phases, without the query's first seconds."""
    seen = accumulate(batch["numInputRows"] for batch in batches)
    durations = [batch["durationMs"] for batch, rows in zip(batches, seen, strict=True) if rows > PER_SECOND * WARM_S]
    times = percentiles([duration[TRIGGER] * MS_NS for duration in durations])
    phases = {phase: float(median(duration.get(phase, 0) for duration in durations)) for phase in PHASES}
    return {"batches": len(durations), **times, **phases}


def produce(bootstrap_servers: str, topic: str, partitions: int, records: int) -> Figures:
    """Send a record per millisecond, to the partitions in turn."""
    from confluent_kafka import Producer

    producer, payload = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0}), values(100)
    for number in ticks(records, PER_SECOND):
        producer.produce(topic, payload[number % DISTINCT], partition=number % partitions)
        producer.poll(0)
    assert producer.flush(30) == 0
    return {}
