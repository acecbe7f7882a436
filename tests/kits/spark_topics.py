"""Topics of every kind on a real Kafka, written by Java's producer: levada and Spark's own connector shall read them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

import java_clients
from java_clients import ABORT, BEGIN, COMMIT, Asked, Record
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from wire import Wire

NOW_MS = int(time.time() * 1000)
FIRST_MS = NOW_MS - 1_000_000
PATIENCE_S = 30
COMPACTED = {"cleanup.policy": "compact", "segment.ms": 200, "min.cleanable.dirty.ratio": 0.0}
_numbers = count()


class Topics:
    """Topics that stay as they are: their sizes by kind, and how to change others."""

    def __init__(self, kafka: Any, java: Asked) -> None:
        self.servers: str = kafka.bootstrap_servers
        self._kafka = kafka
        self._java = java
        self._admin = AdminClient({"bootstrap.servers": self.servers})
        self._prefix = f"beside{next(_numbers)}-"
        self.sizes: dict[str, int] = {}

    def name(self, kind: str) -> str:
        return self._prefix + kind

    def create(self, kind: str, partitions: int, config: dict[str, Any] | None = None) -> str:
        """Create one that stays."""
        self.sizes[kind] = partitions
        self._kafka.create_topic(self.name(kind), partitions, config)
        return self.name(kind)

    def fresh(self, partitions: int) -> str:
        """Create one to be changed."""
        name = f"{self._prefix}fresh{next(_numbers)}"
        self._kafka.create_topic(name, partitions)
        return name

    def create_all(self) -> Topics:
        """Create one of every kind: plain, empty, with aborted transactions, with retention passed, and compacted."""
        self.write(self.create("plain", 3), 3, range(300))
        self.create("empty", 2)
        self.write_transactions(self.create("transactions", 2), 2, 12)
        self.write(self.create("passed", 2), 2, range(100))
        self.pass_retention(self.name("passed"), 2, 30)
        self._create_compacted()
        return self

    def write(self, topic: str, partitions: int, numbers: range, *, keyed: bool = False) -> None:
        """Write some_records()."""
        java_clients.write(self._java, self.servers, some_records(topic, partitions, numbers, keyed=keyed))

    def write_transactions(self, topic: str, partitions: int, transactions: int) -> None:
        """Write transactions of five records; every third one is aborted."""
        records = iter(some_records(topic, partitions, range(5 * transactions)))
        steps: list[Record | str] = []
        for number in range(transactions):
            steps += [BEGIN, *(next(records) for _ in range(5)), ABORT if number % 3 == 1 else COMMIT]
        java_clients.write(self._java, self.servers, steps, transactional_id=topic)

    def write_message_sets(self, topic: str, partitions: int, numbers: range) -> None:
        """Write records to a topic of message.format.version 0.9 or 0.10, which has no headers, producer ids and transactions."""
        producer = Producer({"bootstrap.servers": self.servers, "compression.type": "gzip", "linger.ms": 5})
        for record in some_records(topic, partitions, numbers):
            producer.produce(topic, record.value, record.key, record.partition or 0, timestamp=record.timestamp or 0)
        assert producer.flush(PATIENCE_S) == 0

    def pass_retention(self, topic: str, partitions: int, offset: int) -> None:
        """Remove the records before an offset, as retention does."""
        positions = [Position(topic, number, offset) for number in range(partitions)]
        for outcome in self._admin.delete_records(positions).values():
            outcome.result(PATIENCE_S)

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until it is gone."""
        self._admin.delete_topics([topic])[topic].result(PATIENCE_S)
        _wait(lambda: topic not in self._admin.list_topics().topics)

    def create_again(self, topic: str, partitions: int) -> None:
        """Delete a topic and create another one of its name."""
        self.delete(topic)
        self._kafka.create_topic(topic, partitions)

    def _create_compacted(self) -> None:
        topic = self.create("compacted", 2, COMPACTED)
        for numbers in (range(60), range(60, 100)):
            # Records that are more than segment.ms younger than those before begin a new segment, and the old one is compacted.
            self.write(topic, 2, numbers, keyed=True)
        _wait(lambda: len(java_clients.read(self._java, self.servers, topic)) < 60)


def add_partitions(servers: str, topic: str, partitions: int) -> None:
    """Give a topic more partitions, and wait until they can be used."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(PATIENCE_S)
    # Each broker learns of them from the controller, and a query may ask any.
    _wait(lambda: all(_partitions_known_to(address, topic) == partitions for address in servers.split(",")))


def _partitions_known_to(address: str, topic: str) -> int:
    with Wire(address) as wire:
        (found,) = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 1).topics
    return sum(partition.error_code == 0 for partition in found.partitions)


def some_records(topic: str, partitions: int, numbers: range, *, keyed: bool = False) -> Iterator[Record]:
    """Make records, with and without key, value and headers, a second apart and in turns over the partitions. keyed: each has a key."""
    for number in numbers:
        yield Record(
            topic,
            number % partitions,
            key=None if number % 7 == 0 and not keyed else b"k%d" % (number % 5),
            value=None if number % 11 == 0 else b"v%d" % number,
            timestamp=FIRST_MS + number * 1000,
            headers=(("n", b"%d" % number), ("empty", None)) if number % 3 == 0 else (),
        )


def _wait(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "the broker did not get there"
        time.sleep(0.05)
