"""KafkaConsumer against nodes of the embedded broker, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from consumer_kit import batch
from levada.broker.cluster.cluster import Cluster
from levada.broker.config.settings import BrokerSettings
from levada.broker.node.node import BrokerNode
from levada.record.batch import RecordBatch
from levada.sync.consumer import KafkaConsumer
from levada.testing.simulation import EPOCH_MS, Simulation
from levada.types import TopicPartition

PORT = 9092


class World:
    """A simulation with a cluster whose nodes have the hosts b1, b2, ... settings: of the brokers."""

    def __init__(self, simulation: Simulation, nodes: int = 1, **settings: Any) -> None:
        self.simulation = simulation
        self.network = simulation.network
        # The batches of the tests have timestamps near the epoch, so retention by time would delete them.
        settings = {"log_retention_ms": -1, **settings}
        self.cluster = Cluster(BrokerSettings.of(**settings), Random(1))
        self.nodes = [
            BrokerNode(node_id=number, host=f"b{number}", port=PORT, wall_offset_ms=EPOCH_MS, cluster=self.cluster, **settings)
            for number in range(1, nodes + 1)
        ]
        for number, node in enumerate(self.nodes, start=1):
            self.network.add_server(node, f"b{number}", PORT)

    @property
    def now_ms(self) -> int:
        return self.simulation.now_ms

    @property
    def faults(self) -> Any:
        return self.nodes[0].faults

    def requests(self, api: str) -> int:
        """Return how many requests of an API all nodes have received."""
        return sum(node.faults.requests[api] for node in self.nodes)

    def topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic."""
        self.cluster.add(self.cluster.plan(name, partitions))

    def partition(self, topic: str, partition: int = 0) -> Any:
        return self.cluster.partition(self.cluster.topic(topic), partition)

    def append(self, topic: str, values: Sequence[bytes | None], partition: int = 0, **kind: Any) -> None:
        """Append one batch to the log of a partition, and replicate it. kind: keyword arguments of batch()."""
        data = batch(0, values, **kind)
        self.append_raw(topic, data, partition)

    def append_raw(self, topic: str, data: bytes, partition: int = 0) -> None:
        """Append the bytes of a batch to the log of a partition, and replicate it."""
        found = self.partition(topic, partition)
        found.log.append(RecordBatch(memoryview(bytearray(data))), leader_epoch=found.leader_epoch)
        self.cluster.replicate(found)

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Make another node the leader of a partition."""
        self.cluster.move_leader(self.partition(topic, partition), node_id)

    def consumer(self, *partitions: TopicPartition, **settings: Any) -> KafkaConsumer:
        """Return a consumer of the cluster, with these partitions assigned if there are any. auto_offset_reset: by default earliest."""
        servers = ",".join(f"b{number}:{PORT}" for number in range(1, len(self.nodes) + 1))
        consumer = self.simulation.consumer({"bootstrap.servers": servers}, **{"auto_offset_reset": "earliest", **settings})
        if partitions:
            consumer.assign(partitions)
        return consumer
