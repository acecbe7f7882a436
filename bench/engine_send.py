"""What send() costs: the call alone, and a loop of calls until all records are acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from engine_bench import AIO, AIOKAFKA, CONFLUENT, LEVADA, Bench, Case, ours, worker, worker_aio
from engine_process import Figures
from engine_senders import FLUSH_S, levada
from measure import Sample, measured
from payloads import DISTINCT, values

SECTION = "send"
PARTITIONS = 4
# Together less than one batch of a megabyte, the broker's limit, so that nothing is sent before flush().
CALLS = 7_500
ROUNDS = 40
WARM_ROUNDS = 5
FOREVER_MS = 600_000
BATCH_BYTES = 1_000_000
CALL_VARIANTS = ("100 B", "with key", "with callback")
RECORDS = {100: 600_000, 1024: 200_000}
AIO_RECORDS = 100_000
RATE, CPU = "k records/s", "CPU us per record"
POLL_EVERY = 10_000


def run(bench: Bench) -> Iterator[Case]:
    """Measure the call alone, the loop for each size of values, and the loop on asyncio."""
    yield _calls(bench)
    for size in RECORDS:
        yield _rates(bench, size)
    yield _aio_rates(bench)


def _calls(bench: Bench) -> Case:
    with bench.topic(PARTITIONS) as topic:
        job = bench.job(topic, rounds=bench.scaled(ROUNDS))
        systems = {
            **ours(bench, "engine_send:levada_calls", job),
            CONFLUENT: worker("engine_send:confluent_calls", job),
        }
        case = bench.run(Case(SECTION, "send() in the caller, without I/O"), systems)
    for name in CALL_VARIANTS:
        case.hold(LEVADA, f"{name}, ns", CONFLUENT, 1)
    return case


def _rates(bench: Bench, size: int) -> Case:
    with bench.topic(PARTITIONS) as topic:
        job = bench.job(topic, records=bench.scaled(RECORDS[size]), value_bytes=size)
        systems = {
            **ours(bench, "engine_send:levada_rate", job),
            CONFLUENT: worker("engine_send:confluent_rate", job),
        }
        case = bench.run(Case(SECTION, f"send of {size} B, default settings, all acknowledged"), systems)
    case.hold(LEVADA, RATE, CONFLUENT, 1, at_least=True)
    return case


def _aio_rates(bench: Bench) -> Case:
    with bench.topic(PARTITIONS) as topic:
        job = bench.job(topic, records=bench.scaled(AIO_RECORDS))
        systems = {AIO: worker_aio("engine_send:aio_rate", job), AIOKAFKA: worker("engine_send:aiokafka_rate", job)}
        case = bench.run(Case(SECTION, "await send of 100 B on asyncio, default settings, all acknowledged"), systems)
    case.hold(AIO, RATE, AIOKAFKA, 3, at_least=True)
    return case


# The call alone


def levada_calls(bootstrap_servers: str, topic: str, rounds: int) -> Figures:
    import levada

    settings = {"linger_ms": FOREVER_MS, "delivery_timeout_ms": 2 * FOREVER_MS, "batch_size": BATCH_BYTES, "buffer_memory": 1 << 28}
    with levada.KafkaProducer(bootstrap_servers=bootstrap_servers, **settings) as producer:
        return _call_times(producer.send, lambda: producer.flush(FLUSH_S), topic, rounds)


def confluent_calls(bootstrap_servers: str, topic: str, rounds: int) -> Figures:
    from confluent_kafka import Producer

    timing = {"linger.ms": FOREVER_MS, "delivery.timeout.ms": 2 * FOREVER_MS}
    size = {"batch.size": BATCH_BYTES, "batch.num.messages": 1_000_000, "queue.buffering.max.messages": 10_000_000}
    producer = Producer({"bootstrap.servers": bootstrap_servers, **timing, **size})
    return _call_times(producer.produce, lambda: producer.flush(FLUSH_S), topic, rounds)


def _call_times(send: Callable[..., Any], flush: Callable[[], Any], topic: str, rounds: int) -> Figures:
    """Return the calling thread's processor time per call in nanoseconds, the median of the rounds."""
    loops = {"100 B": _plain, "with key": _with_key, "with callback": _with_callback}
    times: dict[str, list[float]] = {name: [] for name in loops}
    payload = values(100)[:CALLS]
    for _ in range(rounds + WARM_ROUNDS):
        for name, loop in loops.items():
            start = time.thread_time_ns()
            loop(send, topic, payload)
            times[name].append((time.thread_time_ns() - start) / CALLS)
            flush()
    return {f"{name}, ns": median(times[name][WARM_ROUNDS:]) for name in CALL_VARIANTS}


def _plain(send: Callable[..., Any], topic: str, payload: list[bytes]) -> None:
    for value in payload:
        send(topic, value)


def _with_key(send: Callable[..., Any], topic: str, payload: list[bytes]) -> None:
    for value in payload:
        send(topic, value, value[:8])


def _with_callback(send: Callable[..., Any], topic: str, payload: list[bytes]) -> None:
    for value in payload:
        send(topic, value, on_delivery=_ignore)


def _ignore(_: Any, __: Any) -> None:
    pass


# Until all is acknowledged


def levada_rate(bootstrap_servers: str, topic: str, records: int, value_bytes: int) -> Figures:
    sender = levada(bootstrap_servers)
    payload = values(value_bytes)

    def work(count: int) -> None:
        send = sender.send
        for number in range(count):
            send(topic, payload[number % DISTINCT])
        sender.flush()

    return _rate(work, records)


def confluent_rate(bootstrap_servers: str, topic: str, records: int, value_bytes: int) -> Figures:
    """Measure confluent-kafka with a larger queue, because its default of 100,000 messages makes the loop slower."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap_servers, "queue.buffering.max.messages": 10_000_000})
    payload = values(value_bytes)

    def work(count: int) -> None:
        produce = producer.produce
        for number in range(count):
            produce(topic, payload[number % DISTINCT])
            if number % POLL_EVERY == 0:
                producer.poll(0)
        assert producer.flush(FLUSH_S) == 0

    return _rate(work, records)


def _rate(work: Callable[[int], None], records: int) -> Figures:
    work(records // 10)
    with measured(records) as sample:
        work(records)
    return figures(sample)


def figures(sample: Sample) -> Figures:
    """Return the rate, and the processor time per record."""
    return {RATE: sample.records / sample.seconds / 1e3, CPU: sample.cpu_seconds / sample.records * 1e6}


def aio_rate(bootstrap_servers: str, topic: str, records: int) -> Figures:
    from levada.aio import KafkaProducer

    async def work() -> Figures:
        async with KafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
            return await _async_rate(producer, topic, records)

    return asyncio.run(work())


def aiokafka_rate(bootstrap_servers: str, topic: str, records: int) -> Figures:
    from aiokafka import AIOKafkaProducer

    async def work() -> Figures:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers, acks="all") as producer:
            return await _async_rate(producer, topic, records)

    return asyncio.run(work())


async def _async_rate(producer: Any, topic: str, records: int) -> Figures:
    payload = values(100)

    async def work(count: int) -> None:
        for number in range(count):
            await producer.send(topic, payload[number % DISTINCT])
        await producer.flush()

    await work(records // 10)
    with measured(records) as sample:
        await work(records)
    return figures(sample)
