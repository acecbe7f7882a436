"""A topic of a cluster: its id, its settings and its partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

from levada.broker.config.settings import BrokerSettings
from levada.broker.config.topics import TopicConfig
from levada.broker.coordinators.internal_topics import is_internal
from levada.broker.replication.partition import Partition
from levada.types import TopicPartition


class Topic:
    """A topic. Its id is different from that of a deleted topic with the same name. Its partitions are in the order of their numbers.

    config: its settings at nodes that have no broker settings of their own. assignment: the replicas of each partition. new_partition:
    creates a partition.
    """

    def __init__(
        self,
        name: str,
        topic_id: UUID,
        config: TopicConfig,
        assignment: Iterable[tuple[int, ...]],
        new_partition: Callable[[TopicPartition, TopicConfig, tuple[int, ...]], Partition] = Partition,
    ) -> None:
        self.name = name
        self.id = topic_id
        self.config = config
        self._configs: Mapping[int, TopicConfig] = {}
        self.is_internal = is_internal(name)
        self.partitions = [new_partition(TopicPartition(name, index), config, replicas) for index, replicas in enumerate(assignment)]

    def add_partitions(self, assignment: Iterable[tuple[int, ...]]) -> list[Partition]:
        """Add partitions with these replicas; return the new partitions."""
        first = len(self.partitions)
        added = [Partition(TopicPartition(self.name, index), self.config, replicas) for index, replicas in enumerate(assignment, first)]
        for partition in added:
            partition.configure(self.config, self._configs)
        self.partitions += added
        return added

    def configure(self, config: TopicConfig, nodes: Mapping[int, BrokerSettings]) -> None:
        """Change the topic's settings. nodes: the broker settings of nodes whose settings differ from those of the cluster."""
        self.config = config
        self._configs = {node_id: config.under(settings) for node_id, settings in nodes.items()}
        for partition in self.partitions:
            partition.configure(config, self._configs)

    def config_at(self, node_id: int) -> TopicConfig:
        """Return the topic's settings at a node. Their defaults come from the node's broker settings."""
        return self._configs.get(node_id, self.config)
