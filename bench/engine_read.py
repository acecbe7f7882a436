"""Columns out of a topic: poll_arrow at its default settings beside the same table made of confluent-kafka's messages, and beside kcat."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from engine_bench import CONFLUENT, LEVADA, Bench, Case, Target, ours, worker
from engine_process import Figures, Worker, WorkerFailed
from engine_send import CPU, RATE, figures
from fill import write
from measure import measured
from payloads import values

SECTION = "read"
PARTITIONS = 4
RECORDS = {100: 3_000_000, 1024: 500_000}
LARGE_BATCH, SMALL_BATCH = 500_000, 16_384
AT_ONCE = 10_000
UNLIMITED, IN_SMALL_BATCHES, BY_500 = "batches of 500 KB", "batches of 16 KiB", "batches of 500 KB, max_records=500"
KCAT = "kcat"
NO_KCAT = "skipped: no kcat on PATH (apt install kcat); levada is held against confluent-kafka instead"
VALUES_ONLY = "confluent-kafka, column of values only"
START, FIRST = "start-up ms", "first call ms"
FIRST_CALL_LIMIT_MS = 30


def run(bench: Bench) -> Iterator[Case]:
    """100 B and 1 KB in large batches, 100 B in small ones and by 500 records; each topic is filled once, all turns read it."""
    with ExitStack() as topics:
        large = topics.enter_context(bench.topic(PARTITIONS))
        small = topics.enter_context(bench.topic(PARTITIONS))
        for topic, batch_bytes in ((large, LARGE_BATCH), (small, SMALL_BATCH)):
            _fill(bench, topic, 100, batch_bytes)
        yield _small_values(bench, large)
        yield _ways(bench, large, small)
    with bench.topic(PARTITIONS) as topic:
        _fill(bench, topic, 1024, LARGE_BATCH)
        yield _large_values(bench, topic)


def _fill(bench: Bench, topic: str, size: int, batch_bytes: int) -> None:
    Worker("engine_read:fill", _job(bench, topic, size) | {"value_bytes": size, "batch_bytes": batch_bytes}).result()


def _job(bench: Bench, topic: str, size: int) -> dict[str, Any]:
    return bench.job(topic, records=bench.scaled(RECORDS[size]))


def _small_values(bench: Bench, topic: str) -> Case:
    job = _job(bench, topic, 100)
    systems = {
        **ours("engine_read:levada_columns", job, before=bench.before),
        CONFLUENT: worker("engine_read:confluent_columns", job),
        VALUES_ONLY: worker("engine_read:confluent_columns", job | {"values_only": True}),
    }
    case = bench.run(Case(SECTION, "poll_arrow, 100 B in batches of 500 KB"), systems)
    case.hold(LEVADA, RATE, CONFLUENT, 8, at_least=True)
    case.hold(LEVADA, CPU, CONFLUENT, 0.125)
    case.targets.append(Target(LEVADA, FIRST, FIRST_CALL_LIMIT_MS, case.figure(LEVADA, FIRST)))
    return case


def _ways(bench: Bench, large: str, small: str) -> Case:
    """levada beside itself."""
    systems = {
        UNLIMITED: worker("engine_read:levada_columns", _job(bench, large, 100)),
        IN_SMALL_BATCHES: worker("engine_read:levada_columns", _job(bench, small, 100)),
        BY_500: worker("engine_read:levada_columns", _job(bench, large, 100) | {"max_records": 500}),
    }
    case = bench.run(Case(SECTION, "poll_arrow, 100 B, levada beside itself"), systems)
    case.hold(IN_SMALL_BATCHES, CPU, UNLIMITED, 2)
    case.hold(BY_500, CPU, UNLIMITED, 1.3)
    return case


def _large_values(bench: Bench, topic: str) -> Case:
    job = _job(bench, topic, 1024)
    kcat = shutil.which("kcat") or shutil.which("kafkacat")
    systems = {
        **ours("engine_read:levada_columns", job, before=bench.before),
        CONFLUENT: worker("engine_read:confluent_columns", job),
        KCAT: (lambda: _kcat(kcat, **job)) if kcat else NO_KCAT,
    }
    case = bench.run(Case(SECTION, "poll_arrow, 1 KB in batches of 500 KB"), systems)
    if kcat:
        case.hold(LEVADA, CPU, KCAT, 1.1)
    else:
        case.hold(LEVADA, CPU, CONFLUENT, 0.6)
    return case


def _kcat(kcat: str, bootstrap_servers: str, topic: str, records: int) -> Figures:
    """Its whole process, start included: half a second's work of a C program starts in a few milliseconds."""
    settings = ("queued.min.messages=1000000", "check.crcs=true")
    options = [word for setting in settings for word in ("-X", setting)]
    command = [kcat, "-C", "-b", bootstrap_servers, "-t", topic, "-o", "beginning", "-c", str(records), "-e", "-q", *options]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise WorkerFailed(f"kcat ended with {process.returncode}")
    return {RATE: records / (time.perf_counter() - start) / 1e3, CPU: (usage.ru_utime + usage.ru_stime) * 1e6 / records}


# Workers


def fill(bootstrap_servers: str, topic: str, records: int, value_bytes: int, batch_bytes: int) -> Figures:
    """Batches of about so many bytes before they are compressed."""
    batches = {"linger.ms": 1000, "batch.size": batch_bytes, "batch.num.messages": 1_000_000}
    write(bootstrap_servers, topic, values(value_bytes), records, PARTITIONS, batches)
    return {}


def levada_columns(bootstrap_servers: str, topic: str, records: int, max_records: int | None = None) -> Figures:
    import pyarrow  # noqa: F401 - loading it is not part of reading

    import levada

    start = time.perf_counter()
    with levada.KafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([levada.TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        return _read(lambda _: consumer.poll_arrow(timeout=5.0, max_records=max_records).num_rows, records, start)


def confluent_columns(bootstrap_servers: str, topic: str, records: int, values_only: bool = False) -> Figures:
    """Its best settings, without which it stalls for a second whenever its queue is full; the columns that poll_arrow has."""
    import pyarrow  # noqa: F401 - loading it is not part of reading
    from confluent_kafka import Consumer, TopicPartition

    start = time.perf_counter()
    best = {"queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 2}
    group = {"group.id": uuid.uuid4().hex, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "check.crcs": True, **best, **group})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    make = _values if values_only else _table
    found = _read(lambda missing: make(consumer.consume(min(AT_ONCE, missing), 5.0)), records, start)
    consumer.close()
    return found


def _values(messages: list[Any]) -> int:
    import pyarrow as pa

    return len(pa.array([message.value() for message in messages], pa.binary()))


def _table(messages: list[Any]) -> int:
    import pyarrow as pa

    rows: int = pa.table(
        {
            "key": pa.array([message.key() for message in messages], pa.binary()),
            "value": pa.array([message.value() for message in messages], pa.binary()),
            "topic": pa.array([message.topic() for message in messages], pa.string()).dictionary_encode(),
            "partition": pa.array([message.partition() for message in messages], pa.int32()),
            "offset": pa.array([message.offset() for message in messages], pa.int64()),
            "timestamp": pa.array([message.timestamp()[1] for message in messages], pa.timestamp("ms", "UTC")),
        }
    ).num_rows
    return rows


def _read(read: Callable[[int], int], records: int, start: float) -> Figures:
    """The first call and the first fifth of the records are not part of the rate."""
    called = time.perf_counter()
    seen = read(records)
    first = time.perf_counter()
    while seen < records // 5:
        seen += read(records - seen)
    with measured(records - seen) as sample:
        while seen < records:
            seen += read(records - seen)
    return figures(sample) | {START: (first - start) * 1e3, FIRST: (first - called) * 1e3}
