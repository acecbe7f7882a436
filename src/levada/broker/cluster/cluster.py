"""The state that all nodes of a cluster share, such as nodes, topics, committed offsets and the next producer id.

It does the work of Kafka's controller, and replicates records from leaders to followers. All coordinators share their state here.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from random import Random
from uuid import UUID

from levada.broker.access.authorizer import Authorizer
from levada.broker.access.delegation_tokens import DelegationTokens
from levada.broker.access.scram_users import ScramUsers
from levada.broker.cluster.features import Features
from levada.broker.cluster.replica_assignment import (
    are_nodes,
    check_assignment,
    check_new_partitions,
    check_partition_count,
    check_replication_factor,
    place,
)
from levada.broker.cluster.storage import IN_MEMORY, ClusterStorage, LogDir, StoredTopic
from levada.broker.cluster.telemetry import ClientMetricsConfig, ClientTelemetry, combined
from levada.broker.cluster.topic import Topic
from levada.broker.config.group_config import GroupConfig
from levada.broker.config.settings import BrokerSettings
from levada.broker.config.topics import TopicConfig, check_topic_name
from levada.broker.coordinators.groups.consumer_group import Topics, TopicSize
from levada.broker.coordinators.groups.groups import StoredGroups
from levada.broker.coordinators.internal_topics import InternalTopics, check_may_exist, is_internal, placements
from levada.broker.coordinators.transactions.transactions import Transactions
from levada.broker.network.connection import PLAINTEXT
from levada.broker.quotas.client_quotas import ClientQuotas
from levada.broker.quotas.throttles import Throttles
from levada.broker.replication.partition import NO_LEADER, Partition
from levada.broker.replication.replica import ReplicaFiles
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, IllegalStateError, InvalidTopicError, TopicAlreadyExistsError, UnknownTopicOrPartitionError
from levada.types import Node

DEFAULT = -1
# The size of the blocks that Kafka's controller gives to a broker.
_PRODUCER_ID_BLOCK = 1000

_GROUPS = "groups"
"""The name under which the storage has the settings of groups."""
_BROKERS = "brokers"
"""The name under which the storage has the changed settings of brokers."""
_ALL_BROKERS = ""
_SCRAM_USERS, _CLIENT_QUOTAS, _DELEGATION_TOKENS = "scram_users", "client_quotas", "delegation_tokens"


class Access:
    """The SCRAM users, delegation tokens, ACLs and quotas of a cluster.

    mutations: how much clients have used of the quota controller_mutation_rate. authorizer: the ACLs, None if everybody may do everything.
    new_id: returns an unused id for a delegation token.
    """

    def __init__(self, settings: BrokerSettings, storage: ClusterStorage, new_id: Callable[[], str]) -> None:
        self.scram_users = ScramUsers(storage.section(_SCRAM_USERS), partial(storage.keep_section, _SCRAM_USERS))
        self.client_quotas = ClientQuotas(storage.section(_CLIENT_QUOTAS), partial(storage.keep_section, _CLIENT_QUOTAS))
        sample_ms = settings.controller_quota_window_size_seconds * 1000
        self.mutations = Throttles(self.client_quotas, settings.controller_quota_window_num, sample_ms)
        kept, keep = storage.section(_DELEGATION_TOKENS), partial(storage.keep_section, _DELEGATION_TOKENS)
        self.delegation_tokens = DelegationTokens(settings, new_id, kept, keep)
        self.authorizer = _authorizer(settings, storage)


class Cluster:
    """The state that all nodes of a cluster share.

    random: the source of ids; the same seed gives a cluster the same ids. nodes: all registered nodes by id, with their addresses at the
    first listener. stopped: the ids of the nodes that are down. now_ms: the time of the last step of any node. metadata_offset: a number
    that grows each time the topics are stored, and when a node is unregistered. controller_epoch: 1 at first; it grows when the node of the
    controller is stopped. authorizer: None if everybody may do everything. settings: the broker settings with the changes for all nodes,
    but without those for single nodes.
    """

    def __init__(self, settings: BrokerSettings, random: Random, storage: ClusterStorage = IN_MEMORY) -> None:
        self._started = settings
        self._broker_changes: dict[str, dict[str, str]] = storage.section(_BROKERS) or {}
        self.settings = settings = settings.altered({}, self._changes_of(_ALL_BROKERS))
        self._random = random
        self._storage = storage
        self.id = storage.cluster_id(lambda: base64.urlsafe_b64encode(self.new_uuid().bytes).decode().rstrip("="))
        self.now_ms = 0
        self.nodes: dict[int, Node] = {}
        self._addresses: dict[str, dict[int, Node]] = {}
        self.stopped: set[int] = set()
        self._unregistered: dict[int, Node] = {}
        self._paused: set[int] = set()
        self._following: frozenset[int] = frozenset()
        self.topics: dict[str, Topic] = {}
        self._placements = placements(settings, storage.topics(), self.nodes, self.create_internal_topic)
        self.group_coordinators, self.transaction_coordinators, self.share_coordinators = self._placements
        self.stored_groups = StoredGroups()
        self.topics_for_groups = Topics(self._size_of, self._name_of, lambda: iter(self.topics))
        self.group_offsets = self.stored_groups.offsets
        self.share_states = self.stored_groups.share_states
        self._default_group_config = GroupConfig(settings)
        self._group_configs = {name: GroupConfig(settings, overrides) for name, overrides in (storage.section(_GROUPS) or {}).items()}
        self.access = Access(settings, storage, lambda: str(self.new_uuid()))
        self._by_id: dict[UUID, Topic] = {}
        self._by_metric_name: dict[str, str] = {}
        self.authorizer = self.access.authorizer
        self.features = Features(settings)
        self.metadata_offset = 1
        self.controller_epoch = 1
        self._metrics: dict[str, ClientMetricsConfig] = {}
        self.transactions = Transactions(
            settings, self.features, self.transaction_coordinators, self.group_coordinators, self.allocate_producer_id
        )
        self.telemetry = ClientTelemetry(settings.telemetry_max_bytes, self.new_uuid)
        self._next_producer_id = self._kept_producer_ids = storage.first_producer_id()
        self._watchers: list[Callable[[Partition], None]] = []
        self._settings_watchers: list[Callable[[], None]] = []
        self.internal_topics = InternalTopics(
            settings=settings,
            placements=self._placements,
            stored_groups=self.stored_groups,
            stored_transactions=self.transactions,
            storage=storage,
            alive=lambda: self.alive,
            topics=self.topics,
            changed=self.notify_watchers,
        )

    @property
    def controller_id(self) -> int:
        """The id of the node that acts as the controller; -1 before the first node has joined and while all nodes are down."""
        return min(self.alive, default=-1)

    @property
    def alive(self) -> list[int]:
        """The ids of the nodes that are up, in order."""
        return sorted(self.nodes.keys() - self.stopped)

    def join(self, node: Node, listener: str = PLAINTEXT) -> None:
        """Register a node with its address at a listener, or change this address. All nodes have the same listeners, in the same order."""
        self._addresses.setdefault(listener, {})[node.id] = node
        self.nodes[node.id] = next(iter(self._addresses.values()))[node.id]
        self._update_following()

    def nodes_at(self, listener: str) -> Mapping[int, Node]:
        """Return all nodes with their addresses at a listener, by id."""
        return {node_id: node for node_id, node in self._addresses[listener].items() if node_id in self.nodes}

    def topic(self, name: str) -> Topic | None:
        """Return the topic of this name, None if there is none."""
        return self.topics.get(name)

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        """Return the topic with this id, None if there is none."""
        return self._by_id.get(topic_id)

    def has(self, partition: Partition) -> bool:
        """Return whether a partition still exists. It does not after its topic was deleted, even if the topic was created again."""
        topic, index = self.topics.get(partition.name.topic), partition.name.partition
        return topic is not None and partition in topic.partitions[index : index + 1]

    def partition(self, topic: Topic | None, index: int) -> Partition:
        """Return a partition of a topic by its number. Raises UnknownTopicOrPartitionError if there is no such partition, or if the topic
        is None.
        """
        if topic is None or not 0 <= index < len(topic.partitions):
            raise UnknownTopicOrPartitionError("this server does not host this topic-partition")
        return topic.partitions[index]

    def partitions(self, named: Iterable[tuple[str, Iterable[int]]] | None) -> Iterator[Partition]:
        """Yield the named partitions that exist, or with None all partitions of the cluster. named: topic names, each with partition
        numbers.
        """
        if named is None:
            yield from (partition for topic in self.topics.values() for partition in topic.partitions)
            return
        for name, indexes in named:
            of_topic = self.topics[name].partitions if name in self.topics else []
            yield from (of_topic[index] for index in indexes if 0 <= index < len(of_topic))

    def plan(
        self,
        name: str,
        partitions: int = DEFAULT,
        replication_factor: int = DEFAULT,
        config: Mapping[str, str | None] | None = None,
        assignment: Mapping[int, tuple[int, ...]] | None = None,
    ) -> Topic:
        """Check the parameters of a new topic; return a Topic that does not yet belong to the cluster.

        partitions, replication_factor: DEFAULT stands for num.partitions and default.replication.factor. assignment: the replicas of each
        partition, in place of these two. Raises BrokerError or ConfigError with the reason.
        """
        check_topic_name(name)
        check_may_exist(name)
        if name in self.topics:
            raise TopicAlreadyExistsError(f"topic '{name}' already exists")
        if (known := self._by_metric_name.get(_metric_name(name))) is not None:
            raise InvalidTopicError(f"topic '{name}' collides with existing topic '{known}': in names of metrics, '.' becomes '_'")
        topic_config = TopicConfig(self.settings, config)
        if assignment:
            placed = check_assignment(assignment, self.alive)
        else:
            count = check_partition_count(self.settings.num_partitions if partitions == DEFAULT else partitions)
            factor = self.settings.default_replication_factor if replication_factor == DEFAULT else replication_factor
            placed = place(count, check_replication_factor(factor, self.alive), self.alive)
        return self._topic(name, self.new_uuid(), topic_config, placed)

    def _topic(self, name: str, topic_id: UUID, config: TopicConfig, assignment: list[tuple[int, ...]]) -> Topic:
        return Topic(name, topic_id, config, assignment, self.internal_topics.partition if is_internal(name) else Partition)

    def create_internal_topic(self, name: str) -> Topic:
        """Create an internal topic with the settings and the number of partitions that its coordinators need. Raises BrokerError if the
        disk fails.
        """
        placed = self.internal_topics.assignment(name, self.nodes)
        config = TopicConfig(self.settings, self.internal_topics.config(name, len(placed[0])))
        return self.add(self._topic(name, self.new_uuid(), config, placed))

    def add(self, topic: Topic) -> Topic:
        """Add a topic that plan() has returned. If it cannot be stored, it is not added, because its records would be lost at a restart.
        Raises BrokerError.
        """
        for refusal in self.add_all([topic]).values():
            raise refusal
        return topic

    def add_all(self, topics: Iterable[Topic]) -> dict[str, BrokerError]:
        """Add topics that plan() has returned, and store them together. Returns the errors of the topics that could not be added,
        by name.
        """
        refused: dict[str, BrokerError] = {}
        added: list[Topic] = []
        for topic in topics:
            try:
                self._keep(topic)
                added.append(topic)
            except BrokerError as fault:
                refused[topic.name] = fault
                self._undo(topic)
        try:
            if added:
                self._keep_topics()
        except BrokerError as fault:
            for topic in added:
                refused[topic.name] = fault
                self._undo(topic)
        return refused

    def _undo(self, topic: Topic) -> None:
        self._forget(topic)
        self._delete_files(topic.partitions)

    def _delete_files(self, partitions: Iterable[Partition]) -> None:
        for files in _files_of(partitions):
            with suppress(BrokerError):
                files.delete()

    def _forget(self, topic: Topic) -> None:
        self.topics.pop(topic.name, None)
        self._by_id.pop(topic.id, None)
        # One request can create two topics that collide, as in Kafka.
        if self._by_metric_name.get(_metric_name(topic.name)) == topic.name:
            del self._by_metric_name[_metric_name(topic.name)]
        if topic.is_internal:
            self.internal_topics.placement(topic.name).end()

    def restore(self) -> None:
        """Load the stored topics and elect their leaders, after all nodes have joined. Raises BrokerError if files cannot be used."""
        for stored in self._storage.topics():
            topic = self._topic(stored.name, stored.id, TopicConfig(self.settings, stored.overrides), stored.assignment)
            self._keep(topic)
            for partition in topic.partitions:
                partition.resume()
                if partition.leader not in self.alive:
                    partition.elect_any(self.alive, self.now_ms)
                self.replicate(partition)
        # An older levada without internal topics may have written there.
        for name in sorted(self.internal_topics.written() - self.topics.keys()):
            if is_internal(name):
                self.create_internal_topic(name)
        for group in self.stored_groups.consumer.values():
            group.learn_sizes(self.topics_for_groups)

    def _keep(self, topic: Topic) -> None:
        topic.configure(topic.config, self._nodes_with_changes())
        for partition in topic.partitions:
            self._keep_partition(topic, partition)
        self.topics[topic.name] = self._by_id[topic.id] = topic
        self._by_metric_name[_metric_name(topic.name)] = topic.name
        if topic.is_internal:
            self.internal_topics.placement(topic.name).begin(len(topic.partitions))

    def _keep_partition(self, topic: Topic, partition: Partition) -> None:
        partition.keep_in(partial(self._storage.files, name=partition.name, topic_id=topic.id, config=topic.config))

    def _keep_topics(self, *, without: Topic | None = None) -> None:
        self.metadata_offset += 1
        self._storage.keep_topics(
            StoredTopic(topic.name, topic.id, dict(topic.config.overrides), [tuple(partition.replicas) for partition in topic.partitions])
            for topic in self.topics.values()
            if topic is not without
        )

    def configure(self, topic: Topic, config: TopicConfig) -> None:
        """Replace a topic's settings and store them. Raises BrokerError if the disk fails; the old settings stay in effect then."""
        before = topic.config
        topic.configure(config, self._nodes_with_changes())
        try:
            self._keep_topics()
        except BrokerError:
            topic.configure(before, self._nodes_with_changes())
            raise

    def configure_brokers(self, node_id: int | None, changes: Mapping[str, str]) -> None:
        """Replace the dynamic settings of a node or, if node_id is None, the cluster-wide defaults, which a node's own settings override.

        changes: all dynamic settings of this level, by Kafka's names; those that are not named are removed. Raises BrokerError if the disk
        fails.
        """
        name = _ALL_BROKERS if node_id is None else str(node_id)
        brokers = {known: kept for known, kept in {**self._broker_changes, name: dict(changes)}.items() if kept}
        self._storage.keep_section(_BROKERS, brokers)
        self._broker_changes = brokers
        self.settings = self._started.altered({}, self._changes_of(_ALL_BROKERS))
        self._default_group_config = self._default_group_config.under(self.settings)
        self._group_configs = {group: config.under(self.settings) for group, config in self._group_configs.items()}
        for topic in self.topics.values():
            topic.configure(topic.config.under(self.settings), self._nodes_with_changes())
        for changed in self._settings_watchers:
            changed()

    def settings_at(self, node_id: int, started: BrokerSettings) -> BrokerSettings:
        """Return the broker settings of a node, with dynamic changes applied. started: the settings with which the node was started."""
        return started.altered(self._changes_of(str(node_id)), self._changes_of(_ALL_BROKERS))

    def watch_settings(self, changed: Callable[[], None]) -> None:
        """Register a callback that is called after each change of broker settings."""
        self._settings_watchers.append(changed)

    def _changes_of(self, broker: str) -> Mapping[str, str]:
        return self._broker_changes.get(broker, {})

    def _nodes_with_changes(self) -> dict[int, BrokerSettings]:
        return {int(name): self.settings_at(int(name), self._started) for name in self._broker_changes if name != _ALL_BROKERS}

    def group_config(self, group_id: str) -> GroupConfig:
        """Return the settings of a group, which may not exist yet."""
        return self._group_configs.get(group_id) or self._default_group_config

    def configure_group(self, group_id: str, config: GroupConfig) -> None:
        """Replace the settings of a group and store them. Raises BrokerError if the disk fails; the old settings stay in effect then."""
        configs = {**self._group_configs, group_id: config}
        self._storage.keep_section(_GROUPS, {name: dict(known.overrides) for name, known in configs.items()})
        self._group_configs = configs

    @property
    def configured_groups(self) -> list[str]:
        """Return the ids of the groups that have settings of their own."""
        return [name for name, config in self._group_configs.items() if config.overrides]

    @property
    def metrics_subscriptions(self) -> list[str]:
        """Return the names of the client metrics subscriptions (KIP-714)."""
        return list(self._metrics)

    def metrics_config(self, name: str) -> ClientMetricsConfig:
        """Return the settings of a client metrics subscription, which may not exist yet."""
        return self._metrics.get(name) or ClientMetricsConfig(self.settings)

    def configure_metrics(self, name: str, config: ClientMetricsConfig) -> None:
        """Set a client metrics subscription, which is not stored. If the config has no settings, the subscription is deleted. Clients get
        the metrics of all subscriptions together.
        """
        self._metrics = {known: one for known, one in {**self._metrics, name: config}.items() if one.overrides}
        self.telemetry.wanted = combined(self._metrics.values())

    def log_dir(self, node_id: int) -> LogDir:
        """Return the log directory of a node."""
        return self._storage.log_dir(node_id)

    def plan_partitions(self, topic: Topic, total: int, assignment: list[tuple[int, ...]] | None) -> list[tuple[int, ...]]:
        """Return the replicas of each partition that is to be added to a topic. Raises BrokerError with the reason.

        total: the number of partitions after the change. assignment: the replicas of the new partitions; if None, the cluster chooses them.
        """
        if topic.is_internal:
            # Kafka allows it. Groups whose names then hash to another partition lose their coordinator.
            raise InvalidTopicError(
                f"{topic.name} is an internal topic: its number of partitions determines the coordinators and cannot be changed"
            )
        now, factor = len(topic.partitions), len(topic.partitions[0].replicas)
        check_new_partitions(total - now)
        if assignment is None:
            return place(total, check_replication_factor(factor, self.alive), self.alive)[now:]
        if any(len(replicas) != factor or not are_nodes(replicas, self.alive) for replicas in assignment):
            fault = f"each new partition needs {factor} known brokers, each once"
            raise BrokerError(fault, code=ErrorCode.INVALID_REPLICA_ASSIGNMENT)
        return assignment

    def add_partitions(self, topic: Topic, assignment: Iterable[tuple[int, ...]]) -> None:
        """Add partitions with these replicas to a topic. If they cannot be stored, none is added. Raises BrokerError."""
        before = len(topic.partitions)
        added = topic.add_partitions(assignment)
        try:
            for partition in added:
                self._keep_partition(topic, partition)
            self._keep_topics()
        except BrokerError:
            del topic.partitions[before:]
            self._delete_files(added)
            raise

    def reassign(self, partition: Partition, target: tuple[int, ...], *, may_change_factor: bool) -> None:
        """Begin to move a partition's replicas to other nodes. The first node becomes the preferred leader. If all target nodes are up and
        replicate, the reassignment completes at once.

        may_change_factor: whether the number of replicas may change. Raises INVALID_REPLICA_ASSIGNMENT for no nodes, unknown nodes or a
        node that is named twice, INVALID_REPLICATION_FACTOR if the number must not change.
        """
        if not target or len(set(target)) < len(target) or not set(target) <= self.nodes.keys():
            raise BrokerError("replicas must be known brokers, at least one and each only once", code=ErrorCode.INVALID_REPLICA_ASSIGNMENT)
        factor = len(partition.original_replicas)
        if not may_change_factor and len(target) != factor:
            raise BrokerError(
                f"{partition.name} has replication factor {factor}, which this request may not change",
                code=ErrorCode.INVALID_REPLICATION_FACTOR,
            )
        partition.reassign(target)
        self._keep_topics()
        self._bring_up_to_date(partition)

    def cancel_reassignment(self, partition: Partition) -> None:
        """Cancel the reassignment of a partition. Raises NO_REASSIGNMENT_IN_PROGRESS."""
        partition.cancel_reassignment(self.alive, self.now_ms)
        self._keep_topics()
        self._bring_up_to_date(partition)

    def remove(self, topic: Topic) -> None:
        """Delete a topic, its records, and the committed offsets and share states that groups have for it. With an internal topic, its
        coordinators lose their state. Raises BrokerError if the disk fails.
        """
        self._keep_topics(without=topic)
        if topic.is_internal:
            self.internal_topics.delete(topic.name)
        self._forget(topic)
        self.group_offsets.forget_topic(topic.name)
        self.share_states.forget_topic(topic.id)
        for files in _files_of(topic.partitions):
            files.delete()
        for partition in topic.partitions:
            self.notify_watchers(partition)

    def move_leader(self, partition: Partition, node_id: int, *, lose_from: int | None = None) -> None:
        """Make a node the leader of a partition, like Partition.elect(). Raises IllegalStateError if the node is down."""
        if node_id in self.stopped:
            raise IllegalStateError(f"node {node_id} is down and cannot lead {partition.name}")
        partition.elect(node_id, self.now_ms, lose_from=lose_from)
        self._keep_topics()
        self._bring_up_to_date(partition)

    # Replication

    def replicate(self, partition: Partition) -> None:
        """Let the followers of a partition fetch the records that they do not have; nodes that are down or paused fetch nothing. Then
        advance the high watermark, and complete a reassignment whose target nodes are in sync.
        """
        was_under_way = partition.reassignment is not None
        partition.replicate(self._following, self.now_ms)
        if was_under_way and partition.reassignment is None:
            self._keep_topics()
            self.notify_watchers(partition)
        if self.settings.replica_selector_class and len(partition.replicas) > 1:
            # Consumers may be waiting at followers as well.
            self.notify_watchers(partition)

    def pause_replication(self, node_id: int) -> None:
        """Let all followers catch up, and then stop those of a node from fetching. Partitions that the node leads are not affected."""
        self._replicate_all()
        self._paused.add(node_id)
        self._update_following()

    def resume_replication(self, node_id: int) -> None:
        """Let a node's followers fetch again. They catch up at once."""
        self._paused.discard(node_id)
        self._update_following()
        self._replicate_all()

    def drop_lagging(self, leader: int) -> None:
        """Remove from the ISR the replicas that have lagged for longer than replica.lag.time.max.ms, in partitions that a node leads.
        leader: the node's id.
        """
        since_ms = self.now_ms - self.settings.replica_lag_time_max_ms
        for partition in self._partitions():
            if partition.leader == leader and partition.drop_lagging(since_ms):
                self._bring_up_to_date(partition)

    def stop_node(self, node_id: int) -> None:
        """Mark a node as down. Nodes that are up take over its coordinators and lead its partitions. A partition without an in-sync replica
        on them has no leader, unless unclean.leader.election.enable is set.
        """
        self.controller_epoch += node_id == self.controller_id
        self.stopped.add(node_id)
        self._update_following()
        alive = self.alive
        self._move_coordinators(node_id)
        for partition in self._partitions():
            if node_id in partition.replicas:
                partition.leave(node_id, alive, self.now_ms)
                self._bring_up_to_date(partition)

    def unregister(self, node_id: int) -> None:
        """Unregister a node that is down, until it is started again. Raises INVALID_REQUEST if the node is up, BROKER_ID_NOT_REGISTERED if
        it is unknown.
        """
        if node_id not in self.nodes:
            raise BrokerError(f"broker {node_id} is not registered", code=ErrorCode.BROKER_ID_NOT_REGISTERED)
        if node_id not in self.stopped:
            raise BrokerError(f"broker {node_id} is up", code=ErrorCode.INVALID_REQUEST)
        self._unregistered[node_id] = self.nodes.pop(node_id)
        self.metadata_offset += 1

    def start_node(self, node_id: int) -> None:
        """Mark a node as up and registered. Its followers catch up. Partitions without a leader elect one if this is possible now, and
        coordinators leave nodes that are down.
        """
        if node_id in self._unregistered:
            self.nodes[node_id] = self._unregistered.pop(node_id)
        self.stopped.discard(node_id)
        self._update_following()
        for down in self.stopped:
            self._move_coordinators(down)
        for partition in self._partitions():
            if partition.leader == NO_LEADER:
                partition.elect_any(self.alive, self.now_ms)
        self._replicate_all()

    def _update_following(self) -> None:
        # Cached, because each append needs it.
        self._following = frozenset(self.nodes.keys() - self.stopped - self._paused)

    def _move_coordinators(self, down: int) -> None:
        for placement in self._placements:
            placement.leave(down, self.alive)

    def _replicate_all(self) -> None:
        for partition in self._partitions():
            self._bring_up_to_date(partition)

    def _bring_up_to_date(self, partition: Partition) -> None:
        self.replicate(partition)
        self.notify_watchers(partition)

    def _partitions(self) -> list[Partition]:
        return [partition for topic in self.topics.values() for partition in topic.partitions]

    def watch(self, changed: Callable[[Partition], None]) -> None:
        """Register a callback. It is called with a partition when the partition was deleted, or when its leader, its ISR or its high
        watermark may have changed.

        Requests that wait for the partition may then have to be answered. The leader's node knows of appends by itself: they call the
        callback only with replica.selector.class, for consumers that wait at followers.
        """
        self._watchers.append(changed)

    def notify_watchers(self, partition: Partition) -> None:
        """Call the callbacks that watch() has registered, for a partition."""
        for changed in self._watchers:
            changed(partition)

    def allocate_producer_id(self) -> int:
        """Return a producer id that was never used before, not even before a restart. Raises BrokerError if the disk fails."""
        if self._next_producer_id == self._kept_producer_ids:
            self._kept_producer_ids += _PRODUCER_ID_BLOCK
            self._storage.keep_producer_ids(self._kept_producer_ids)
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def _size_of(self, name: str) -> TopicSize | None:
        topic = self.topics.get(name)
        return None if topic is None else TopicSize(topic.id, len(topic.partitions))

    def _name_of(self, topic_id: UUID) -> str | None:
        topic = self._by_id.get(topic_id)
        return None if topic is None else topic.name

    def new_uuid(self) -> UUID:
        """Return a new random id."""
        return UUID(int=self._random.getrandbits(128), version=4)


def _metric_name(topic: str) -> str:
    """Return a topic's name in Kafka's metrics. Two topics must not have the same."""
    return topic.replace(".", "_")


def _files_of(partitions: Iterable[Partition]) -> Iterator[ReplicaFiles]:
    """Yield the files of all replicas, except those of internal topics, which coordinators share."""
    for partition in partitions:
        if not partition.is_internal:
            yield from (replica.files for replica in partition.replicas.values())


def _authorizer(settings: BrokerSettings, storage: ClusterStorage) -> Authorizer | None:
    if not settings.authorizer_class_name:
        return None
    return Authorizer(
        storage.acls(),
        super_users=[name.strip() for name in settings.super_users.split(";") if name.strip()],
        allows_if_none=settings.allow_everyone_if_no_acl_found,
        keep=storage.keep_acls,
    )
