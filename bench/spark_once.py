"""From Kafka to Kafka exactly once: rates compared with at least once, the time of a trigger and a transaction, and the driver's memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from engine_bench import LEVADA, System, Target, worker
from engine_pace import percentiles
from engine_process import Figures
from log_files import BY_BROKER, held_ms
from spark_bench import CONNECTOR, INLINE, ONCE, PARTITIONS, TUNED, Inline, SparkBench, SparkCase, Topic, checked
from spark_latency import P50, PER_SECOND, SECONDS, WARM_S, feed, summed_up
from spark_session import RATE, WrongRows
from spark_write import pipe

SECTION = "once"
SYSTEMS = (ONCE, LEVADA, CONNECTOR, TUNED)
ROWS = 20_000_000
INLINE_ROWS = 4_000_000
WARM_ROWS = 1_000_000
SIZE = 100
SEALED_SIZE = 112
"""Bytes of a record with such a value and without a key in a record batch, with a margin for uneven tasks."""
TIMES_OF_CONNECTOR, TIMES_OF_OWN, TIMES_OF_TUNED = 1.0, 0.8, 1.6
P50_MORE_MS = 15
HELD = "held p99 ms"
HELD_MS = 50
MS_NS = 1_000_000
MEMORY_TIMES = "times inlineMaxBytes"
MEMORY_MOST = 3
MEMORY_TRIGGERS = 4
MEMORY_WARM_ROWS = 100_000


def inline_of(max_bytes: int) -> Inline:
    """Return the Inline settings for `max_bytes`, with the number of the section's records that fit."""
    return Inline(max_bytes, max_bytes // SEALED_SIZE)


def run(bench: SparkBench) -> Iterator[SparkCase]:
    """Measure rates, latency and memory."""
    case = _copied(bench, ROWS, SYSTEMS, "")
    case.hold_rate(ONCE, TIMES_OF_CONNECTOR)
    case.hold(ONCE, RATE, LEVADA, TIMES_OF_OWN, at_least=True)
    case.hold(LEVADA, RATE, TUNED, TIMES_OF_TUNED, at_least=True)
    yield case
    yield _copied(bench, INLINE_ROWS, (ONCE, INLINE), f"; inline: {_inline(bench)}")
    yield _latency(bench)
    yield _memory(bench)


def _copied(bench: SparkBench, rows: int, systems: tuple[str, ...], more: str) -> SparkCase:
    rows = bench.scaled(rows)
    case = SparkCase(SECTION, f"AvailableNow from Kafka to Kafka, {rows:,} of {SIZE} B, none{more}")
    with bench.filled(SIZE, rows) as topic, bench.filled(SIZE, WARM_ROWS) as warm:
        bench.run(case, {system: checked(_warmed(bench, case, system, topic, warm)) for system in systems}, both_orders=True)
    return case


def _inline(bench: SparkBench) -> str:
    return f"{bench.inline.offsets_per_trigger:,} rows and {bench.inline.max_bytes >> 20} MiB a trigger"


def _warmed(bench: SparkBench, case: SparkCase, system: str, topic: Topic, warm: Topic) -> System:
    def once() -> Figures:
        if system not in case.turns:
            pipe(bench, system, warm)
        return pipe(bench, system, topic)

    return once


def _latency(bench: SparkBench) -> SparkCase:
    case = SparkCase(SECTION, f"micro-batches at {PER_SECOND:,} records/s from Kafka to Kafka, partitions: {PARTITIONS}")
    systems = {system: checked(partial(_triggers, bench, system)) for system in (ONCE, LEVADA, CONNECTOR)}
    for system in systems:  # Spark starts its processes in the first batches, and the JVM compiles what each trigger runs
        _triggers(bench, system)
    bench.run(case, systems, both_orders=True)
    ours, theirs = case.figure(ONCE, P50), case.figure(LEVADA, P50)
    more = None if ours is None or theirs is None else ours - theirs
    case.targets.append(Target(ONCE, f"{P50} more than {LEVADA}", P50_MORE_MS, more))
    case.targets.append(Target(ONCE, HELD, HELD_MS, case.figure(ONCE, HELD)))
    return case


def _triggers(bench: SparkBench, system: str) -> Figures:
    """Measure a new query from its start to its stop."""
    records = PER_SECOND * (SECONDS + WARM_S)
    with (
        bench.topic(PARTITIONS) as name,
        bench.topic(PARTITIONS, **BY_BROKER) as target,
        tempfile.TemporaryDirectory(prefix="levada-bench-") as checkpoint,
    ):
        form, options = bench.sink(system, target)
        frame = bench.pairs(system, Topic(name, 0), startingOffsets="earliest")
        query = frame.writeStream.format(form).options(**options, checkpointLocation=checkpoint).start()
        try:
            feed(bench, name, PARTITIONS, records, query)
        finally:
            query.stop()
        return summed_up(_with_rows(query, system, records)) | _held(bench, target)


def _with_rows(query: StreamingQuery, system: str, records: int) -> list[StreamingQueryProgress]:
    batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
    if (found := sum(batch["numInputRows"] for batch in batches)) != records:
        raise WrongRows(f"{system} has {found} rows instead of {records}")
    return batches


def _held(bench: SparkBench, topic: str) -> Figures:
    """Return how long read_committed consumers had to wait for transactions, over all partitions, without the query's first seconds."""
    (folder,) = bench.broker.log_folders
    found = [ms for number in range(PARTITIONS) for ms in held_ms(folder / f"{topic}-{number}", WARM_S * 1000)]
    if not found:
        return {}
    return {f"held {name}": value for name, value in percentiles([ms * MS_NS for ms in found]).items()}


def _memory(bench: SparkBench) -> SparkCase:
    """Measure a driver in separate processes with one executor: the most memory, minus the memory before large batches."""
    case, inline = SparkCase(SECTION, f"memory of the driver, {_inline(bench)}"), bench.inline
    with (
        bench.filled(SIZE, inline.offsets_per_trigger * MEMORY_TRIGGERS) as topic,
        bench.filled(SIZE, MEMORY_WARM_ROWS) as warm,
        bench.topic(PARTITIONS) as target,
    ):
        sizes = {"inline_max_bytes": inline.max_bytes, "offsets_per_trigger": inline.offsets_per_trigger}
        bench.run(case, {INLINE: worker("spark_memory:measure", bench.job(topic.name, warm=warm.name, target=target, **sizes))})
    case.targets.append(Target(INLINE, MEMORY_TIMES, MEMORY_MOST, case.figure(INLINE, MEMORY_TIMES)))
    return case
