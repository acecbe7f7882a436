"""Topics for readers, written by a client that is not measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine_process import Figures
from json_columns import documents
from payloads import DISTINCT, values

PATIENCE_S = 120
JSON = "json"
# The batches of confluent-kafka's defaults, with a short linger.
LINGER = {"linger.ms": 20}


def topic(
    bootstrap_servers: str, topic: str, kind: int | str, records: int, partitions: int, codec: str, batch_bytes: int | None = None
) -> Figures:
    """Write records, spread evenly over the partitions. kind: the bytes of a value, or json for objects of five fields.

    batch_bytes: the size of batches before compression; None for the sizes that a short linger gives.
    """
    payload = values(kind) if isinstance(kind, int) else documents(DISTINCT, (",", ":"))
    batches = LINGER if batch_bytes is None else {"linger.ms": 1000, "batch.size": batch_bytes, "batch.num.messages": 1_000_000}
    write(bootstrap_servers, topic, payload, records, partitions, {**batches, "compression.type": codec})
    return {}


def write(bootstrap_servers: str, topic: str, payload: Sequence[bytes], records: int, partitions: int, settings: Mapping[str, Any]) -> None:
    """Write the payload repeatedly, each round to one partition after the other, so that batches fill evenly."""
    from confluent_kafka import Producer

    queue = {"queue.buffering.max.messages": 10_000_000, "queue.buffering.max.kbytes": 2_097_151}
    producer = Producer({"bootstrap.servers": bootstrap_servers, **queue, **settings})
    for number in range(records):
        producer.produce(topic, payload[number % len(payload)], partition=number % partitions)
        if number % DISTINCT == 0:
            producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
