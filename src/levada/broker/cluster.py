"""What all nodes of a cluster share: the list of nodes, the topics, the offsets of groups, and the next producer id."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from random import Random
from uuid import UUID

from levada.broker.coordinators.placement import Placement
from levada.broker.coordinators.transactions import Transactions
from levada.broker.group_offsets import GroupOffsets
from levada.broker.partition import Partition
from levada.broker.settings import BrokerSettings
from levada.broker.topics import TopicConfig, check_topic_name
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, TopicAlreadyExistsError, UnknownTopicOrPartitionError
from levada.types import Node, TopicPartition

DEFAULT = -1

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"


class Topic:
    """A topic: its name, its id (a new one each time a name is created), its partitions in order of their numbers."""

    def __init__(self, name: str, topic_id: UUID, config: TopicConfig, assignment: Iterable[tuple[int, ...]]) -> None:
        self.name = name
        self.id = topic_id
        self.config = config
        self.partitions = [Partition(TopicPartition(name, index), config, replicas) for index, replicas in enumerate(assignment)]


class Cluster:
    """The nodes, topics and offsets of groups, shared by all nodes. random gives ids, so a seeded cluster is the same every time."""

    def __init__(self, settings: BrokerSettings, random: Random) -> None:
        self.settings = settings
        self._random = random
        self.id = base64.urlsafe_b64encode(self._new_uuid().bytes).decode().rstrip("=")
        self.nodes: dict[int, Node] = {}
        self.group_coordinators = Placement(GROUP_METADATA_TOPIC, settings.offsets_topic_num_partitions, self.nodes)
        self.transaction_coordinators = Placement(TRANSACTION_STATE_TOPIC, settings.transaction_state_log_num_partitions, self.nodes)
        self.share_coordinators = Placement(SHARE_GROUP_STATE_TOPIC, settings.share_coordinator_state_topic_num_partitions, self.nodes)
        self.topics: dict[str, Topic] = {}
        self.group_offsets = GroupOffsets()
        self._by_id: dict[UUID, Topic] = {}
        self.transactions = Transactions(settings, self.transaction_coordinators, self.group_coordinators, self.allocate_producer_id)
        self._next_producer_id = 0
        self._watchers: list[Callable[[Partition], None]] = []

    @property
    def controller_id(self) -> int:
        """The node that answers for the cluster, -1 before any has joined."""
        return min(self.nodes, default=-1)

    def join(self, node: Node) -> None:
        """Add a node, or give a known one its new address."""
        self.nodes[node.id] = node

    def topic(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self.topics.get(name)

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        """The topic with this id."""
        return self._by_id.get(topic_id)

    def partition(self, topic: Topic | None, index: int) -> Partition:
        """A topic's partition; UnknownTopicOrPartitionError when there is none."""
        if topic is None or not 0 <= index < len(topic.partitions):
            raise UnknownTopicOrPartitionError("this server does not host this topic-partition")
        return topic.partitions[index]

    def plan(
        self,
        name: str,
        partitions: int = DEFAULT,
        replication_factor: int = DEFAULT,
        config: Mapping[str, str | None] | None = None,
        assignment: Mapping[int, tuple[int, ...]] | None = None,
    ) -> Topic:
        """Check what create_topic is asked for and return the topic it would create.

        assignment: replicas per partition, instead of a number of partitions. Raises BrokerError or ConfigError with the reason.
        """
        check_topic_name(name)
        if name in self.topics:
            raise TopicAlreadyExistsError(f"topic '{name}' already exists")
        topic_config = TopicConfig(self.settings, config)
        if assignment:
            placed = self._checked_assignment(assignment)
        else:
            placed = self._place(self._partition_count(partitions), self._replication_factor(replication_factor))
        return Topic(name, self._new_uuid(), topic_config, placed)

    def add(self, topic: Topic) -> Topic:
        """Create a planned topic."""
        self.topics[topic.name] = self._by_id[topic.id] = topic
        return topic

    def remove(self, topic: Topic) -> None:
        """Delete a topic, its records, and what groups have committed for it."""
        del self.topics[topic.name], self._by_id[topic.id]
        self.group_offsets.forget_topic(topic.name)
        for partition in topic.partitions:
            self.tell_watchers(partition)

    def move_leader(self, partition: Partition, node_id: int, *, lose_from: int | None = None) -> None:
        """Let a node lead a partition, in a new leader epoch. lose_from: it lacks the batches from this offset on (unclean election)."""
        if lose_from is not None:
            partition.lose(lose_from)
        partition.leader = node_id
        partition.leader_epoch += 1
        self.tell_watchers(partition)

    def watch(self, changed: Callable[[Partition], None]) -> None:
        """Call back when a partition is deleted, or gets another leader or a marker, so that requests that wait for it are answered."""
        self._watchers.append(changed)

    def tell_watchers(self, partition: Partition) -> None:
        """Something about a partition has changed that requests may wait for."""
        for changed in self._watchers:
            changed(partition)

    def allocate_producer_id(self) -> int:
        """Return a producer id that was never given out before (I19)."""
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def _partition_count(self, wanted: int) -> int:
        count = self.settings.num_partitions if wanted == DEFAULT else wanted
        if count < 1:
            raise BrokerError(f"a topic needs at least 1 partition, not {count}", code=ErrorCode.INVALID_PARTITIONS)
        return count

    def _replication_factor(self, wanted: int) -> int:
        factor = self.settings.default_replication_factor if wanted == DEFAULT else wanted
        if not 1 <= factor <= len(self.nodes):
            raise BrokerError(
                f"replication factor {factor} on a cluster of {len(self.nodes)} brokers", code=ErrorCode.INVALID_REPLICATION_FACTOR
            )
        return factor

    def _place(self, partitions: int, factor: int) -> list[tuple[int, ...]]:
        ids = sorted(self.nodes)
        return [tuple(ids[(index + replica) % len(ids)] for replica in range(factor)) for index in range(partitions)]

    def _checked_assignment(self, assignment: Mapping[int, tuple[int, ...]]) -> list[tuple[int, ...]]:
        if sorted(assignment) != list(range(len(assignment))):
            fault = "partition numbers do not run from 0 without gaps"
        elif len({len(replicas) for replicas in assignment.values()}) != 1:
            fault = "partitions differ in their number of replicas"
        elif not all(self._are_nodes(replicas) for replicas in assignment.values()):
            fault = "replicas must be known brokers, each once, at least one"
        else:
            return [assignment[index] for index in range(len(assignment))]
        raise BrokerError(fault, code=ErrorCode.INVALID_REPLICA_ASSIGNMENT)

    def _are_nodes(self, replicas: tuple[int, ...]) -> bool:
        return bool(replicas) and len(set(replicas)) == len(replicas) and set(replicas) <= set(self.nodes)

    def _new_uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)
