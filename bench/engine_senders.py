"""Producers with one interface: `send(topic, value, key, on_delivery=...)`, `poll()`, `wait(seconds)`, `flush()`.

levada waits in send() when its buffer is full. confluent-kafka raises BufferError, and its users poll and try again. The key and the
callback have the same names in both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

FLUSH_S = 120
RETRY_S = 0.001


@dataclass
class Sender:
    """One producer.

    poll: runs callbacks. wait: runs callbacks for some seconds. error_of: returns the error among a callback's arguments.
    """

    send: Callable[..., Any]
    poll: Callable[[], Any]
    wait: Callable[[float], Any]
    flush: Callable[[], Any]
    error_of: Callable[[Any, Any], Any]


def levada(bootstrap_servers: str, **settings: Any) -> Sender:
    import levada

    producer = levada.KafkaProducer(bootstrap_servers=bootstrap_servers, **settings)
    return Sender(producer.send, lambda: None, time.sleep, lambda: producer.flush(FLUSH_S), lambda _, error: error)


def confluent(bootstrap_servers: str, **settings: Any) -> Sender:
    """settings: with underscores instead of dots."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap_servers} | {name.replace("_", "."): value for name, value in settings.items()})
    produce, poll = producer.produce, producer.poll

    def send(topic: str, value: bytes | None = None, key: bytes | None = None, **more: Any) -> None:
        while True:
            try:
                return produce(topic, value, key, **more)
            except BufferError:
                poll(RETRY_S)

    def flush() -> None:
        assert producer.flush(FLUSH_S) == 0

    return Sender(send, lambda: poll(0), poll, flush, lambda error, _: error)


SENDERS: dict[str, Callable[..., Sender]] = {"levada": levada, "confluent-kafka": confluent}
