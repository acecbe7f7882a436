"""Topics for readers, written by a client that is not under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine_process import Figures
from json_columns import documents
from measure import Job, Sample
from payloads import DISTINCT, values

PATIENCE_S = 120
JSON = "json"
# Batches as its defaults make them, once it waits a little.
LINGER = {"linger.ms": 20}


def fill(job: Job) -> Sample:
    """Write the job's records, spread evenly over the partitions."""
    settings = {**LINGER, "compression.type": job.codec}
    write(job.bootstrap_servers, job.topic, values(job.value_bytes), job.records, job.partitions, settings)
    return Sample(job.records)


def topic(bootstrap_servers: str, topic: str, kind: int | str, records: int, partitions: int, codec: str) -> Figures:
    """The same for a worker of the engine's kind. kind: how many bytes a value has, or json for objects of five fields."""
    payload = values(kind) if isinstance(kind, int) else documents(DISTINCT, (",", ":"))
    write(bootstrap_servers, topic, payload, records, partitions, {**LINGER, "compression.type": codec})
    return {}


def write(bootstrap_servers: str, topic: str, payload: Sequence[bytes], records: int, partitions: int, settings: Mapping[str, Any]) -> None:
    """Write the payload over and over, partition after partition of a round, so that batches fill evenly."""
    from confluent_kafka import Producer

    queue = {"queue.buffering.max.messages": 10_000_000, "queue.buffering.max.kbytes": 2_097_151}
    producer = Producer({"bootstrap.servers": bootstrap_servers, **queue, **settings})
    for number in range(records):
        producer.produce(topic, payload[number % len(payload)], partition=number % partitions)
        if number % DISTINCT == 0:
            producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
