"""A RecordAccumulator on its own, with partitions whose leaders are made up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Any

from levada.client.metadata.snapshot import ClusterSnapshot, TopicMetadata
from levada.logs import Log
from levada.producer.append.buffer_pool import BufferPool
from levada.producer.append.partition_queue import PartitionQueue
from levada.producer.append.partitioning import Partitioning
from levada.producer.append.producer_batch import ProducerBatch
from levada.producer.append.record_accumulator import AccumulatorSettings, RecordAccumulator, ToSend
from levada.producer.delivery.delivery import Delivery
from levada.record.compression import Codec
from levada.types import Node, PartitionInfo
from settings_kit import PLAIN_PARTITIONING

LEADERS = (1, 1, 2, -1)


def a_snapshot(leaders: tuple[int, ...] = LEADERS, epoch: int = 0) -> ClusterSnapshot:
    partitions = tuple(PartitionInfo("t", number, leader, epoch, (1, 2), (1, 2)) for number, leader in enumerate(leaders))
    return ClusterSnapshot(nodes={1: Node(1, "a", 1), 2: Node(2, "b", 1)}, topics={"t": TopicMetadata("t", partitions=partitions)})


class Clock:
    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def wall_ms(self) -> int:
        return self.ms


SETTINGS = AccumulatorSettings(
    batch_size=1000,
    linger_ms=10,
    max_request_size=5000,
    delivery_timeout_ms=1000,
    codec=Codec.NONE,
    level=None,
    adaptive_partitioning=True,
    availability_timeout_ms=0,
)


class Bench:
    def __init__(self, *, memory: int = 1_000_000, partitioning: Partitioning = PLAIN_PARTITIONING, **settings: Any) -> None:
        self.deferred: list[Callable[[], None]] = []
        self.settled: list[ProducerBatch] = []
        self.woken: list[bool] = []
        self.clock = Clock()
        self.lock = threading.RLock()
        self.pool = BufferPool(memory)
        self.accumulator = RecordAccumulator(
            SETTINGS._replace(**settings),
            pool=self.pool,
            rng=Random(1),
            defer=self.deferred.append,
            settled=self.settled.append,
            log=Log("levada.producer"),
            lock=self.lock,
            clock=self.clock,
            partitioning=partitioning,
            wake=self.woken.append,
        )
        self.accumulator.topic("t", a_snapshot())

    def append(self, value: bytes = b"v", partition: int | None = 0, now_ms: int = 0, **fields: Any) -> Delivery:
        self.clock.ms = now_ms
        delivery = self.accumulator.append(self.record(value, partition, **fields), now_ms)
        assert isinstance(delivery, Delivery)
        self.accumulator.adopt()
        return delivery

    @staticmethod
    def record(value: bytes = b"v", partition: int | None = 0, callback: Any = None, ack: Any = None) -> ToSend:
        return ToSend("t", partition, None, value, (), 123, callback, ack)

    def queue(self, partition: int) -> PartitionQueue:
        return self.accumulator.topics["t"].partitions[partition]

    def drain(self, node: int = 1, now_ms: int = 0) -> list[ProducerBatch]:
        due = self.accumulator.ready(now_ms).nodes
        drained = self.accumulator.drain(node, now_ms, None) if node in due else []
        for batch in drained:
            batch.attempts += 1
            batch.on_the_wire = True
        return drained

    def finish(self, batch: ProducerBatch) -> None:
        """Complete a batch as acknowledged by the broker, at offset 0."""
        self.accumulator.off_the_wire(batch)
        self.accumulator.complete(batch, 0, -1)

    def charged_batches(self) -> list[ProducerBatch]:
        """Return the batches that are not complete."""
        self.accumulator.adopt()
        return list(self.accumulator.incomplete)
