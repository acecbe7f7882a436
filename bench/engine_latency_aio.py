"""Producer and consumer of the latency section on an asyncio loop, as workers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from engine_latency_clients import Arrivals, SendingCost, stamped
from engine_pace import async_ticks
from engine_process import Figures, ready


def levada_producer(bootstrap_servers: str, topic: str, warm: int, records: int, rate: int) -> Figures:
    from levada.aio import KafkaProducer

    async def work() -> Figures:
        async with KafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=0) as producer:
            return await _send(producer, topic, warm, records, rate)

    return asyncio.run(work())


def aiokafka_producer(bootstrap_servers: str, topic: str, warm: int, records: int, rate: int) -> Figures:
    from aiokafka import AIOKafkaProducer

    async def work() -> Figures:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=0, acks="all") as producer:
            return await _send(producer, topic, warm, records, rate)

    return asyncio.run(work())


async def _send(producer: Any, topic: str, warm: int, records: int, rate: int) -> Figures:
    await (await producer.send(topic, stamped()))
    cost = SendingCost(warm, records)
    async for number in async_ticks(warm + records - 1, rate):
        cost.before(number)
        await producer.send(topic, stamped())
    await producer.flush()
    return cost.figures()


def levada_consumer(bootstrap_servers: str, topic: str, warm: int, records: int, rate: int) -> Figures:
    import levada.aio

    async def work() -> Figures:
        async with levada.aio.KafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
            await _maybe(consumer.assign([levada.TopicPartition(topic, 0)]))
            return await _receive(lambda: _levada_values(consumer), warm, records)

    return asyncio.run(work())


async def _levada_values(consumer: Any) -> Iterable[bytes]:
    return [record.value for record in await consumer.poll(1.0)]


async def _maybe(answer: Any) -> None:
    if answer is not None:
        await answer


def aiokafka_consumer(bootstrap_servers: str, topic: str, warm: int, records: int, rate: int) -> Figures:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    tp = TopicPartition(topic, 0)

    async def work() -> Figures:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([tp])

            async def values() -> Iterable[bytes]:
                return [record.value for record in (await consumer.getmany(tp, timeout_ms=1000)).get(tp, ())]

            return await _receive(values, warm, records)

    return asyncio.run(work())


async def _receive(read: Callable[[], Awaitable[Iterable[bytes]]], warm: int, records: int) -> Figures:
    arrivals = Arrivals(warm, records)
    assert not list(await read()), "the topic is not empty"
    ready()
    while arrivals.missing:
        for value in await read():
            arrivals.take(value)
    return arrivals.figures()
