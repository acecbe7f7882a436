"""levada's producers, as workers: each warms up with a tenth of its records, then sends them all and waits until they are acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from statistics import median
from typing import Any

from engine_process import Figures
from measure import measured
from payloads import DISTINCT, values
from produce_bench import ACCEPTED, Job, told

FLUSH_S = 120
WARM_SHARE = 10
# Less than any buffer holds, so that only the calls themselves are timed.
ACCEPTED_BYTES, ACCEPTED_ROUNDS = 10_000_000, 9


def send(**given: Any) -> Figures:
    """KafkaProducer.send; form: plain, key, or callback."""
    import levada

    job = Job(**given)
    payload = values(job.value_bytes)
    with levada.KafkaProducer(bootstrap_servers=job.bootstrap_servers, **job.settings) as producer:

        def work(count: int) -> None:
            LOOPS[job.form](producer.send, job.topic, payload, count)

        return sent(job, work, lambda: producer.flush(FLUSH_S))


def _ignore(_: Any, __: Any) -> None:
    pass


def _plain(send: Callable[..., Any], topic: str, payload: list[bytes], count: int) -> None:
    for number in range(count):
        send(topic, payload[number % DISTINCT])


def _with_key(send: Callable[..., Any], topic: str, payload: list[bytes], count: int) -> None:
    for number in range(count):
        value = payload[number % DISTINCT]
        send(topic, value, value[:10])


def _with_callback(send: Callable[..., Any], topic: str, payload: list[bytes], count: int) -> None:
    for number in range(count):
        send(topic, payload[number % DISTINCT], on_delivery=_ignore)


LOOPS = {"plain": _plain, "key": _with_key, "callback": _with_callback}


def send_arrow(**given: Any) -> Figures:
    """KafkaProducer.send_arrow, with tables of DISTINCT rows that were made before."""
    import pyarrow as pa

    import levada

    job = Job(**given)
    table = pa.table({"value": pa.array(values(job.value_bytes), pa.binary())})
    with levada.KafkaProducer(bootstrap_servers=job.bootstrap_servers, **job.settings) as producer:
        reports = []

        def work(count: int) -> None:
            reports.extend(producer.send_arrow(job.topic, table, value="value") for _ in range(count // DISTINCT))

        figures = rate(job, work, lambda: producer.flush(FLUSH_S))
        for report in reports:
            report.result(timeout=FLUSH_S)
        return figures


def aio_send(**given: Any) -> Figures:
    """levada.aio.KafkaProducer.send."""
    from levada.aio import KafkaProducer

    job = Job(**given)

    async def work() -> Figures:
        async with KafkaProducer(bootstrap_servers=job.bootstrap_servers, **job.settings) as producer:
            return await async_rate(job, producer)

    return asyncio.run(work())


def sent(job: Job, work: Callable[[int], Any], flush: Callable[[], Any]) -> Figures:
    """Return the rate of sending; for the form plain also the rate at which calls accept records."""
    figures = rate(job, work, flush)
    return figures | accepted(ACCEPTED_BYTES // job.value_bytes, work, flush) if job.form == "plain" else figures


def rate(job: Job, work: Callable[[int], Any], flush: Callable[[], Any]) -> Figures:
    """Warm up, then measure sending all records until they are acknowledged."""
    work(job.records // WARM_SHARE)
    flush()
    with told(job) as figures:
        work(job.records)
        flush()
    return figures


async def async_rate(job: Job, producer: Any) -> Figures:
    """Do what rate() does for a producer whose send() and flush() are awaited."""
    payload = values(job.value_bytes)

    async def work(count: int) -> None:
        for number in range(count):
            await producer.send(job.topic, payload[number % DISTINCT])
        await producer.flush()

    await work(job.records // WARM_SHARE)
    with told(job) as figures:
        await work(job.records)
    return figures


def accepted(records: int, work: Callable[[int], Any], flush: Callable[[], Any]) -> Figures:
    """Return how fast calls accept records while the buffer has room: the median of some rounds, with a flush after each."""
    rounds = []
    for _ in range(ACCEPTED_ROUNDS):
        with measured(records) as sample:
            work(records)
        rounds.append(sample.seconds)
        flush()
    return {ACCEPTED: records / median(rounds) / 1e3}
