"""Kafka for a test, started in milliseconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import SystemRandom
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

from levada.broker.apis import FAIL_BY_PARTITION, NAMES
from levada.broker.cluster import DEFAULT, Cluster
from levada.broker.control import Faults
from levada.broker.coordinators.placement import Placement
from levada.broker.node import BrokerNode
from levada.broker.partition import Partition
from levada.broker.server import BrokerServer
from levada.broker.session import Session
from levada.broker.settings import BrokerSettings
from levada.errors import ConfigError, IllegalStateError, UnknownTopicOrPartitionError
from levada.face import arguments

T = TypeVar("T")

_MOST_REPLICAS = 3


class EmbeddedKafka:
    """A broker on a free port of 127.0.0.1, in a thread of this process, for as long as the `with` block lasts.

    Any Kafka client can use it::

        with EmbeddedKafka(num_partitions=3) as kafka:
            producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

    brokers: how many, with node ids from 1, each on a port and a thread of its own. Topics have replicas on up to three of them, unless
    default_replication_factor says otherwise. Brokers can be stopped and started, kept from copying what leaders have, and leaders and
    coordinators moved between them. port: of the first one. Other keyword arguments are broker settings with Kafka's names in snake_case
    (`num_partitions`, `auto_create_topics_enable`, `message_max_bytes`, `log_retention_ms`, ...); see levada.broker.settings. Everything is
    forgotten when it ends.

    faults: what is to go wrong next, a levada.broker.control.Faults.
    """

    def __init__(self, *, port: int = 0, brokers: int = 1, **settings: Any) -> None:
        if arguments.whole("brokers", brokers) < 1:
            raise ConfigError(f"brokers must be at least 1, not {brokers}")
        self._faults = Faults(NAMES, FAIL_BY_PARTITION)
        settings.setdefault("default_replication_factor", min(brokers, _MOST_REPLICAS))
        self._lock = threading.RLock()
        cluster = Cluster(BrokerSettings.of(**settings), SystemRandom())
        self.nodes = [BrokerNode(node_id=number, cluster=cluster, faults=self._faults, **settings) for number in range(1, brokers + 1)]
        self.node = self.nodes[0]
        self._servers = [self._server(node, 0 if index else port) for index, node in enumerate(self.nodes)]
        if brokers > 1:
            cluster.watch(lambda partition: self._wake())

    def start(self) -> Self:
        """Start it without a `with` block; close() is then yours to call."""
        try:
            for server in self._servers:
                server.start()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End the brokers: their ports, connections and threads are gone afterwards."""
        for server in self._servers:
            server.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """host:port of each broker, for any client's bootstrap.servers. Raises RuntimeError while ports are not known, before start()."""
        if not all(server.port for server in self._servers):
            raise RuntimeError("EmbeddedKafka has no port yet: enter its `with` block, or call start(), first")
        return ",".join(server.address for server in self._servers)

    @property
    def faults(self) -> Faults:
        """What is to go wrong next: errors, answers that are lost, late or held, disconnects, blackholes, older versions.

        help(kafka.faults) explains its methods: fail_next, drop_response, disconnect, delay, hold, blackhole, close_mid_frame, throttle,
        cap_version, clear, requests.
        """
        return self._faults

    # Topics

    def create_topic(self, name: str, partitions: int = DEFAULT, config: Mapping[str, str | None] | None = None) -> UUID:
        """Create a topic and return its id. Raises BrokerError or ConfigError with the reason."""
        return self._call(lambda: self.node.create_topic(name, partitions, config)).id

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """The offset the partition's next record will get. Raises UnknownTopicOrPartitionError."""
        return self._call(lambda: self._partition(topic, partition).log.end_offset)

    def elect_leader(self, topic: str, partition: int = 0, *, node: int | None = None, lose_from: int | None = None) -> None:
        """Begin a new leader epoch. node: the id of the leader, by default the one it is now.

        A node that is not in sync loses what it lacks, as in an unclean election; a node without a replica takes over the leader's.
        lose_from: the node has lost the batches that reach beyond this offset, as with a disk that was not flushed.

        Raises UnknownTopicOrPartitionError, ConfigError for a node that does not exist, IllegalStateError for one that is down.
        """
        if lose_from is not None and arguments.whole("lose_from", lose_from) < 0:
            raise ValueError(f"lose_from is an offset, got {lose_from}")
        self._check_node(node)
        self._call(lambda: self._elect(topic, partition, node, lose_from))

    def forget_producers(self, topic: str, partition: int = 0) -> None:
        """Let a partition forget its producers' sequences, as after producer.id.expiration.ms. Those with an open transaction stay.

        Raises UnknownTopicOrPartitionError.
        """
        self._call(lambda: self._partition(topic, partition).forget_producers())

    def connections(self) -> list[Session]:
        """Return who is connected now, to whichever broker: address, client id, and software by name and version.

        A client has several connections to a broker.
        """
        return self._call(lambda: [session for node in self.nodes for session in node.sessions()])

    def forget_fetch_sessions(self) -> None:
        """Evict all fetch sessions, as when there is no room for them: consumers have to open new ones."""
        for node in self.nodes:
            self._call(node.forget_fetch_sessions)

    # Nodes

    def pause_replication(self, node: int) -> None:
        """Let a node copy nothing from leaders until resume_replication(); it goes on to lead and to answer.

        What is produced with acks=all waits meanwhile, until the node is out of sync after replica_lag_time_max_ms (30,000).
        """
        self._check_node(node)
        self._call(lambda: self.node.cluster.pause_replication(node))

    def resume_replication(self, node: int) -> None:
        """Let a node follow leaders again. It catches up at once."""
        self._check_node(node)
        self._call(lambda: self.node.cluster.resume_replication(node))

    def stop_node(self, node: int) -> None:
        """Stop a broker: its connections end, its port is refused, and other brokers lead and coordinate in its place. Its logs are kept.

        Raises ConfigError for a node that does not exist, IllegalStateError for one that is down.
        """
        self._check_node(node)
        if node in self.node.cluster.stopped:
            raise IllegalStateError(f"node {node} is down already")
        # The port first: whoever is refused there then learns who leads instead.
        self._servers[node - 1].close()
        self._servers[node - 1].node.forget_fetch_sessions()
        self._call(lambda: self.node.cluster.stop_node(node))

    def start_node(self, node: int) -> None:
        """Start a broker that was stopped, on its old port. It catches up, and leads only what nobody else could lead.

        Raises ConfigError for a node that does not exist, IllegalStateError for one that is up.
        """
        self._check_node(node)
        if node not in self.node.cluster.stopped:
            raise IllegalStateError(f"node {node} is up already")
        stopped = self._servers[node - 1]
        server = self._servers[node - 1] = self._server(stopped.node, stopped.port)
        server.start()
        self._call(lambda: self.node.cluster.start_node(node))

    # Coordinators

    def move_coordinator(self, *, transactional_id: str | None = None, group: str | None = None, node: int) -> None:
        """Let a node coordinate a transactional id or a group, and whatever else is in its partition of the internal topic.

        Raises ConfigError for a node that does not exist.
        """
        self._check_node(node)
        placement, key = self._placement(transactional_id, group)
        self._call(lambda: placement.move(key, node))

    @contextmanager
    def loading_coordinator(self, *, transactional_id: str | None = None, group: str | None = None) -> Iterator[None]:
        """Let the coordinator of a transactional id or a group answer COORDINATOR_LOAD_IN_PROGRESS within a `with` block."""
        placement, key = self._placement(transactional_id, group)
        self._call(lambda: placement.begin_loading(key))
        try:
            yield
        finally:
            self._call(lambda: placement.end_loading(key))

    def time_out_transaction(self, transactional_id: str) -> None:
        """Abort an open transaction as if its timeout had passed. Raises IllegalStateError when none is open."""
        self._call(lambda: self.node.time_out_transaction(transactional_id))

    def expire_transactional_id(self, transactional_id: str) -> None:
        """Forget a transactional id as after transactional.id.expiration.ms. Raises IllegalStateError while a transaction is open."""
        self._call(lambda: self.node.expire_transactional_id(transactional_id))

    def _call(self, function: Callable[[], T]) -> T:
        return self._servers[0].call(function)

    def _server(self, node: BrokerNode, port: int) -> BrokerServer:
        return BrokerServer(node, port=port, lock=self._lock)

    def _wake(self) -> None:
        for server in self._servers:
            server.wakeup()

    def _elect(self, topic: str, partition: int, node: int | None, lose_from: int | None) -> None:
        found = self._partition(topic, partition)
        self.node.cluster.move_leader(found, found.leader if node is None else node, lose_from=lose_from)

    def _check_node(self, node: int | None) -> None:
        ids = [known.id for known in self.nodes]
        if node is not None and node not in ids:
            raise ConfigError(f"there is no node {node}; this EmbeddedKafka has {', '.join(map(str, ids))}")

    def _placement(self, transactional_id: str | None, group: str | None) -> tuple[Placement, str]:
        cluster = self.node.cluster
        if transactional_id is not None and group is None:
            return cluster.transaction_coordinators, transactional_id
        if group is not None and transactional_id is None:
            return cluster.group_coordinators, group
        raise ConfigError("name either a transactional_id or a group")

    def _partition(self, topic: str, partition: int) -> Partition:
        known = self.node.cluster.topic(topic)
        if known is None:
            raise UnknownTopicOrPartitionError(f"topic {topic!r} does not exist")
        if not 0 <= partition < len(known.partitions):
            raise UnknownTopicOrPartitionError(f"topic {topic!r} has no partition {partition}; it has {len(known.partitions)}, from 0")
        return known.partitions[partition]
