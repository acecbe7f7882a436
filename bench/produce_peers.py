"""Other clients' producers, as workers with the same interface as levada's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from engine_process import Figures
from payloads import DISTINCT, values
from produce_bench import Job, told
from produce_levada import FLUSH_S, WARM_SHARE, async_rate, rate, sent

POLL_EVERY = 10_000


def confluent(**given: Any) -> Figures:
    """Producer.produce. form: plain, key, callback, or batch for produce_batch with DISTINCT messages that were made before."""
    from confluent_kafka import Producer

    job = Job(**given)
    producer = Producer({"bootstrap.servers": job.bootstrap_servers, **job.settings})
    payload = values(job.value_bytes)

    def work(count: int) -> None:
        LOOPS[job.form](producer, job.topic, payload, count)

    def flush() -> None:
        assert producer.flush(FLUSH_S) == 0

    return sent(job, work, flush)


def _plain(producer: Any, topic: str, payload: list[bytes], count: int) -> None:
    produce = producer.produce
    for number in range(count):
        produce(topic, payload[number % DISTINCT])
        if number % POLL_EVERY == 0:
            producer.poll(0)


def _with_key(producer: Any, topic: str, payload: list[bytes], count: int) -> None:
    produce = producer.produce
    for number in range(count):
        value = payload[number % DISTINCT]
        produce(topic, value, value[:10])
        if number % POLL_EVERY == 0:
            producer.poll(0)


def _with_callback(producer: Any, topic: str, payload: list[bytes], count: int) -> None:
    produce = producer.produce
    for number in range(count):
        produce(topic, payload[number % DISTINCT], on_delivery=_ignore)
        if number % POLL_EVERY == 0:
            producer.poll(0)


def _batch(producer: Any, topic: str, payload: list[bytes], count: int) -> None:
    messages = [{"value": value} for value in payload]
    for _ in range(count // DISTINCT):
        assert producer.produce_batch(topic, messages) == DISTINCT
        producer.poll(0)


def _ignore(_: Any, __: Any) -> None:
    pass


LOOPS: dict[str, Callable[..., None]] = {"plain": _plain, "key": _with_key, "callback": _with_callback, "batch": _batch}


def aiokafka_send(**given: Any) -> Figures:
    """AIOKafkaProducer.send."""
    from aiokafka import AIOKafkaProducer

    job = Job(**given)

    async def work() -> Figures:
        async with AIOKafkaProducer(bootstrap_servers=job.bootstrap_servers, **job.settings) as producer:
            return await async_rate(job, producer)

    return asyncio.run(work())


def aiokafka_batches(**given: Any) -> Figures:
    """AIOKafkaProducer.send_batch with batches that the caller fills, to the partitions in turn."""
    from aiokafka import AIOKafkaProducer

    job = Job(**given)
    payload = values(job.value_bytes)

    async def work() -> Figures:
        async with AIOKafkaProducer(bootstrap_servers=job.bootstrap_servers, **job.settings) as producer:
            partitions = sorted(await producer.partitions_for(job.topic))

            async def fill(count: int) -> None:
                number = batches = 0
                while number < count:
                    batch = producer.create_batch()
                    while number < count and batch.append(key=None, value=payload[number % DISTINCT], timestamp=None):
                        number += 1
                    await producer.send_batch(batch, job.topic, partition=partitions[batches % len(partitions)])
                    batches += 1
                await producer.flush()

            await fill(job.records // WARM_SHARE)
            with told(job) as figures:
                await fill(job.records)
            return figures

    return asyncio.run(work())


def kafka_python(**given: Any) -> Figures:
    """KafkaProducer.send of kafka-python."""
    from kafka import KafkaProducer

    job = Job(**given)
    producer = KafkaProducer(bootstrap_servers=job.bootstrap_servers, **job.settings)
    payload = values(job.value_bytes)

    def work(count: int) -> None:
        for number in range(count):
            producer.send(job.topic, payload[number % DISTINCT])

    return rate(job, work, lambda: producer.flush(FLUSH_S))
