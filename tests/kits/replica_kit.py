"""Three nodes of one cluster with one clock, and the partition "t-0" with a replica on each; node 1 leads it at first."""

from __future__ import annotations

from random import Random
from typing import Any

from broker_kit import START_MS, Bench, Client, make_batch
from levada.broker.cluster.cluster import Cluster
from levada.broker.cluster.storage import IN_MEMORY, ClusterStorage
from levada.broker.config.settings import BrokerSettings
from levada.broker.node.node import BrokerNode
from levada.broker.replication.partition import Partition


class Trio:
    """config: of the topic. storage: where all is kept. Other arguments are broker settings."""

    def __init__(self, config: dict[str, str | None] | None = None, *, storage: ClusterStorage = IN_MEMORY, **settings: Any) -> None:
        settings = {"default_replication_factor": 3, **settings}
        self.cluster = Cluster(BrokerSettings.of(**settings), Random(1), storage)
        self.benches = {number: Bench() for number in (1, 2, 3)}
        for number, bench in self.benches.items():
            bench.node = BrokerNode(node_id=number, host=f"b{number}", port=9092, cluster=self.cluster, wall_offset_ms=START_MS, **settings)
        self.cluster.restore()
        if "t" not in self.cluster.topics:
            self.cluster.add(self.cluster.plan("t", 1, config=config))
        self.clients = {number: bench.client() for number, bench in self.benches.items()}

    @property
    def partition(self) -> Partition:
        return self.cluster.topics["t"].partitions[0]

    @property
    def leader(self) -> Client:
        """A client connected to the leader."""
        return self.clients[self.partition.leader]

    def produce(self, value: bytes, acks: int = 1) -> None:
        assert self.leader.produce("t", make_batch(value), acks=acks).error_code == 0

    def elect(self, node: int, lose_from: int | None = None) -> None:
        self.cluster.move_leader(self.partition, node, lose_from=lose_from)
        self.advance()

    def advance(self, ms: int = 0) -> None:
        for bench in self.benches.values():
            bench.advance(ms)

    def values(self, node: int) -> list[bytes | None]:
        """What a node's replica holds."""
        return [record.value for batch in self.partition.replicas[node].log.batches() for record in batch.records()]
