"""The common part of the sections about producing: sizes, settings, and the processor time of the broker and the client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from engine_bench import Bench
from engine_process import Figures
from kafka_cluster import KafkaNode
from measure import cpu_seconds, measured

PARTITIONS = 4
RECORDS = {100: 1_000_000, 1024: 200_000}

RATE, CLIENT, BROKER, ACCEPTED = "k records/s", "client CPU us", "broker CPU us", "accepts k/s"

# confluent-kafka's default queue of 100,000 messages makes its loop slower.
CONFLUENT_QUEUE = {"queue.buffering.max.messages": 10_000_000}

Settings = dict[str, dict[str, Any]]

DEFAULT: Settings = {
    "levada": {},
    "confluent": CONFLUENT_QUEUE,
    "aiokafka": {"acks": "all"},
    "kafka-python": {},
    "java": {},
}
BEST: Settings = {
    "levada": {"linger_ms": 20, "batch_size": 1_000_000, "buffer_memory": 1 << 27},
    "confluent": {
        **CONFLUENT_QUEUE,
        "linger.ms": 20,
        "batch.size": 1_000_000,
        "batch.num.messages": 100_000,
        "queue.buffering.max.kbytes": 2_097_151,
    },
    "aiokafka": {"acks": "all", "linger_ms": 20, "max_batch_size": 1_000_000},
    "kafka-python": {"linger_ms": 20, "batch_size": 1_000_000},
    "java": {"linger.ms": 5, "batch.size": 262_144, "buffer.memory": 1 << 27},
}


@dataclass(frozen=True)
class Job:
    """The job of a worker. form: the way of sending, for clients with several ways. broker_process: the broker, which is measured, too."""

    bootstrap_servers: str
    topic: str
    records: int
    value_bytes: int
    settings: dict[str, Any]
    broker_process: int
    form: str = "plain"


class ProduceBench(Bench):
    """A bench that knows its broker's process."""

    def __init__(self, broker: KafkaNode, turns: int, *, quick: bool = False) -> None:
        super().__init__(broker.address, turns, quick=quick)
        self.broker = broker


@contextmanager
def told(job: Job) -> Iterator[Figures]:
    """Measure the `with` block that sends a job's records, and fill in the figures."""
    figures: Figures = {}
    broker = cpu_seconds(job.broker_process)
    with measured(job.records) as sample:
        yield figures
    figures[RATE] = job.records / sample.seconds / 1e3
    figures[CLIENT] = sample.cpu_seconds / job.records * 1e6
    figures[BROKER] = (cpu_seconds(job.broker_process) - broker) / job.records * 1e6
