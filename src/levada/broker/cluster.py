"""What all nodes of a cluster share: the list of nodes, the topics, the offsets of groups, and the next producer id.

It does the work of Kafka's controller, and it moves records from leaders to followers. Coordinators' knowledge is shared by all nodes.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from random import Random
from uuid import UUID

from levada.broker.coordinators.placement import Placement
from levada.broker.coordinators.transactions import Transactions
from levada.broker.group_offsets import GroupOffsets
from levada.broker.partition import NO_LEADER, Partition
from levada.broker.settings import BrokerSettings
from levada.broker.topics import TopicConfig, check_topic_name
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, IllegalStateError, TopicAlreadyExistsError, UnknownTopicOrPartitionError
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
    """The nodes, topics and offsets of groups, shared by all nodes. random gives ids, so a seeded cluster is the same every time.

    nodes: all that ever joined; stopped: those of them that are down. now_ms: when a node was last given the time.
    """

    def __init__(self, settings: BrokerSettings, random: Random) -> None:
        self.settings = settings
        self._random = random
        self.id = base64.urlsafe_b64encode(self._new_uuid().bytes).decode().rstrip("=")
        self.now_ms = 0
        self.nodes: dict[int, Node] = {}
        self.stopped: set[int] = set()
        self._paused: set[int] = set()
        self._following: frozenset[int] = frozenset()
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
        """The node that answers for the cluster, -1 before any has joined and while all are down."""
        return min(self.alive, default=-1)

    @property
    def alive(self) -> list[int]:
        """The ids of the nodes that are up, in order."""
        return sorted(self.nodes.keys() - self.stopped)

    def join(self, node: Node) -> None:
        """Add a node, or give a known one its new address."""
        self.nodes[node.id] = node
        self._update_following()

    def topic(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self.topics.get(name)

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        """The topic with this id."""
        return self._by_id.get(topic_id)

    def has(self, partition: Partition) -> bool:
        """Whether a partition still exists; one of a topic that was created again is another one."""
        topic, index = self.topics.get(partition.name.topic), partition.name.partition
        return topic is not None and partition in topic.partitions[index : index + 1]

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
        """Let a node lead a partition (Partition.elect). IllegalStateError for one that is down."""
        if node_id in self.stopped:
            raise IllegalStateError(f"node {node_id} is down and cannot lead {partition.name}")
        partition.elect(node_id, self.now_ms, lose_from=lose_from)
        self.replicate(partition)
        self.tell_watchers(partition)

    # Replication

    def replicate(self, partition: Partition) -> None:
        """Let a partition's followers copy what they lack, but for those that are down or held back."""
        partition.replicate(self._following, self.now_ms)

    def pause_replication(self, node_id: int) -> None:
        """Let a node copy nothing as a follower from now on. It goes on to lead."""
        self._replicate_all()
        self._paused.add(node_id)
        self._update_following()

    def resume_replication(self, node_id: int) -> None:
        """Let a node follow again: it catches up at once."""
        self._paused.discard(node_id)
        self._update_following()
        self._replicate_all()

    def drop_lagging(self, leader: int) -> None:
        """Take replicas that lag for longer than replica.lag.time.max.ms out of those in sync, in the partitions that a node leads."""
        since_ms = self.now_ms - self.settings.replica_lag_time_max_ms
        for partition in self._partitions():
            if partition.leader == leader and partition.drop_lagging(since_ms):
                self.replicate(partition)
                self.tell_watchers(partition)

    def stop_node(self, node_id: int) -> None:
        """A node goes down: other nodes lead and coordinate in its place."""
        self.stopped.add(node_id)
        self._update_following()
        alive = self.alive
        self._move_coordinators(node_id)
        for partition in self._partitions():
            if node_id in partition.replicas:
                partition.leave(node_id, alive, self.now_ms)
                self.replicate(partition)
                self.tell_watchers(partition)

    def start_node(self, node_id: int) -> None:
        """A node comes up: it catches up as a follower, and leads what nobody else could."""
        self.stopped.discard(node_id)
        self._update_following()
        for down in self.stopped:
            self._move_coordinators(down)
        for partition in self._partitions():
            if partition.leader == NO_LEADER:
                partition.elect_any(self.alive, self.now_ms)
        self._replicate_all()

    def _update_following(self) -> None:
        # Kept, because every append asks for it.
        self._following = frozenset(self.nodes.keys() - self.stopped - self._paused)

    def _move_coordinators(self, down: int) -> None:
        for placement in (self.group_coordinators, self.transaction_coordinators, self.share_coordinators):
            placement.leave(down, self.alive)

    def _replicate_all(self) -> None:
        for partition in self._partitions():
            self.replicate(partition)
            self.tell_watchers(partition)

    def _partitions(self) -> list[Partition]:
        return [partition for topic in self.topics.values() for partition in topic.partitions]

    def watch(self, changed: Callable[[Partition], None]) -> None:
        """Call back when requests that wait for a partition may have to be answered: it is deleted, or its leader, its replicas in sync or
        its high watermark have changed, but for appends to it, which their node sees itself.
        """
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
        if not 1 <= factor <= len(self.alive):
            raise BrokerError(
                f"replication factor {factor} on a cluster of {len(self.alive)} brokers", code=ErrorCode.INVALID_REPLICATION_FACTOR
            )
        return factor

    def _place(self, partitions: int, factor: int) -> list[tuple[int, ...]]:
        ids = self.alive
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
        return bool(replicas) and len(set(replicas)) == len(replicas) and set(replicas) <= set(self.alive)

    def _new_uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)
