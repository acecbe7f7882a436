"""Records sent one by one: the time from send() until another process has them, and the processor time of both processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine_bench import AIO, AIOKAFKA, CONFLUENT, LEVADA, Bench, Case, System, aio_reason, now_and_before
from engine_process import Figures, Worker

SECTION = "latency"
RATE = 1000
WARM = 2000
RECORDS = 5000
IDEMPOTENT = "confluent-kafka, idempotent as levada is"
BARE = "bare loop over levada's codec (the limit)"
CPU = "CPU us per record, both processes"


def run(bench: Bench) -> Iterator[Case]:
    """Measure every system once per turn, each on a new topic with one partition."""
    systems: dict[str, System | str] = {
        **now_and_before(bench, lambda source: _system(bench, "engine_latency_clients:levada", source)),
        CONFLUENT: _system(bench, "engine_latency_clients:confluent"),
        IDEMPOTENT: _system(bench, "engine_latency_clients:confluent", idempotent=True),
        AIO: _system(bench, "engine_latency_aio:levada") if aio_reason() is None else f"skipped: {aio_reason()}",
        AIOKAFKA: _system(bench, "engine_latency_aio:aiokafka"),
        BARE: _system(bench, "engine_latency_bare:bare"),
    }
    case = bench.run(Case(SECTION, f"{RATE} records/s of 100 B one by one, linger 0"), systems)
    case.hold(LEVADA, "p50 ms", CONFLUENT, 1.6)
    case.hold(LEVADA, "p50 ms", AIOKAFKA, 1)
    case.hold(LEVADA, "p99 ms", CONFLUENT, 4)
    case.hold(LEVADA, CPU, CONFLUENT, 2)
    case.hold(AIO, "p50 ms", AIOKAFKA, 1)
    case.hold(AIO, CPU, AIOKAFKA, 1)
    yield case


def _system(bench: Bench, client: str, source: Path | None = None, **producer: Any) -> System:
    """producer: more arguments of the producer's worker."""
    return lambda: _pair(bench, client, source, producer)


def _pair(bench: Bench, client: str, source: Path | None, producer: dict[str, Any]) -> Figures:
    """Run a consumer until it is ready, then a producer. On both sides the measurement begins after WARM records."""
    with bench.topic(1) as topic:
        job = bench.job(topic, warm=WARM, records=bench.scaled(RECORDS), rate=RATE)
        consumer = Worker(f"{client}_consumer", job, source=source)
        try:
            consumer.await_ready()
            sent = Worker(f"{client}_producer", job | producer, source=source).result()
            got = consumer.result()
        finally:
            consumer.stop()
    cpu = {"producer CPU us": sent["cpu us"], "consumer CPU us": got.pop("cpu us")}
    return got | {CPU: sum(cpu.values())} | cpu
