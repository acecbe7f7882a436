"""Producer and consumer of the latency section with a blocking API, as workers.

A record has the time at which its send() began, by the monotonic clock that all processes of a machine share.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from engine_pace import percentiles, ticks
from engine_process import Figures, ready
from measure import own_cpu_seconds

STAMP_BYTES = 8
PADDING = b"x" * 92


def stamped() -> bytes:
    """Return a value of 100 bytes with the present time."""
    return time.monotonic_ns().to_bytes(STAMP_BYTES) + PADDING


class Arrivals:
    """The latencies of the values that a consumer gets, and its processor time since the last warm-up record."""

    def __init__(self, warm: int, records: int) -> None:
        self._warm = warm
        self._total = warm + records
        self._latencies: list[int] = []
        self._cpu_seconds = 0.0

    @property
    def missing(self) -> bool:
        return len(self._latencies) < self._total

    def take(self, value: bytes) -> None:
        self._latencies.append(time.monotonic_ns() - int.from_bytes(value[:STAMP_BYTES]))
        if len(self._latencies) == self._warm:
            self._cpu_seconds = own_cpu_seconds()

    def figures(self) -> Figures:
        measured = self._latencies[self._warm :]
        cpu_us = (own_cpu_seconds() - self._cpu_seconds) * 1e6 / len(measured)
        return percentiles(measured) | {"cpu us": cpu_us}


class SendingCost:
    """A producer's processor time per record since the last warm-up record."""

    def __init__(self, warm: int, records: int) -> None:
        self._warm = warm
        self._records = records
        self._cpu_seconds = 0.0

    def before(self, number: int) -> None:
        if number == self._warm:
            self._cpu_seconds = own_cpu_seconds()

    def figures(self) -> Figures:
        return {"cpu us": (own_cpu_seconds() - self._cpu_seconds) * 1e6 / self._records}


def levada_producer(bootstrap_servers: str, topic: str, warm: int, records: int, rate: int) -> Figures:
    import levada

    with levada.KafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=0) as producer:
        return _send(lambda value: producer.send(topic, value), lambda: producer.flush(30), warm, records, rate)


def confluent_producer(bootstrap_servers: str, topic: str, warm: int, records: int, rate: int, idempotent: bool = False) -> Figures:
    from confluent_kafka import Producer

    latency = {"linger.ms": 0, "socket.nagle.disable": True}
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": idempotent, **latency})

    def send(value: bytes) -> None:
        producer.produce(topic, value)
        producer.poll(0)

    return _send(send, lambda: producer.flush(30), warm, records, rate)


def _send(send: Callable[[bytes], Any], flush: Callable[[], Any], warm: int, records: int, rate: int) -> Figures:
    send(time.monotonic_ns().to_bytes(STAMP_BYTES))
    flush()
    cost = SendingCost(warm, records)
    for number in ticks(warm + records - 1, rate):
        cost.before(number)
        send(stamped())
    flush()
    return cost.figures()


def levada_consumer(bootstrap_servers: str, topic: str, warm: int, records: int, rate: int) -> Figures:
    import levada

    with levada.KafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([levada.TopicPartition(topic, 0)])
        return _receive(lambda timeout: (record.value for record in consumer.poll(timeout)), warm, records)


def confluent_consumer(bootstrap_servers: str, topic: str, warm: int, records: int, rate: int) -> Figures:
    from confluent_kafka import Consumer, TopicPartition

    group = {"group.id": uuid.uuid4().hex, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "socket.nagle.disable": True, "check.crcs": True, **group})
    consumer.assign([TopicPartition(topic, 0, 0)])

    def read(timeout: float) -> Iterable[bytes]:
        message = consumer.poll(timeout)
        if message is None:
            return ()
        assert message.error() is None, message.error()
        return (message.value(),)

    figures = _receive(read, warm, records)
    consumer.close()
    return figures


def _receive(read: Callable[[float], Iterable[bytes]], warm: int, records: int) -> Figures:
    arrivals = Arrivals(warm, records)
    assert not list(read(1.0)), "the topic is not empty"
    ready()
    while arrivals.missing:
        for value in read(1.0):
            arrivals.take(value)
    return arrivals.figures()
