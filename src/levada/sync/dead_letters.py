"""Sends dead letters with a blocking producer, in the thread that calls the consumer."""

from __future__ import annotations

from collections.abc import Callable

from levada.api.consumer.dead_letters import fitted, most_bytes
from levada.consumer.consumer_flows import Post
from levada.dead_letter import DeadLetter
from levada.interceptors import ProducerRecord


def posting(to: DeadLetter | None) -> Post | None:
    """Return the function that sends dead letters; None if there is no DeadLetter."""
    if to is None:
        return None
    producer, limit = to.producer, most_bytes(to)

    def post(record: ProducerRecord, settled: Callable[[BaseException | None], None]) -> None:
        record = fitted(record, limit)
        producer.send(record.topic, record.value, record.key, headers=record.headers, on_delivery=lambda _, error: settled(error))

    return post
