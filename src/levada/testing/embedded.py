"""Kafka for a test, started in milliseconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

from levada.acls import AclBinding
from levada.api import arguments
from levada.broker.access.logins import GSSAPI, OAUTHBEARER
from levada.broker.apis import FAIL_BY_PARTITION, NAMES
from levada.broker.cluster.cluster import DEFAULT, Cluster
from levada.broker.cluster.storage import IN_MEMORY
from levada.broker.cluster.telemetry import DEFAULT_INTERVAL_MS
from levada.broker.config.settings import RACK_AWARE, STANDARD_AUTHORIZER, BrokerSettings
from levada.broker.coordinators.placement import Placement
from levada.broker.disk.data_dir import DataDir
from levada.broker.network.connection import Session
from levada.broker.network.server import BrokerServer, Endpoint
from levada.broker.node.faults import Faults
from levada.broker.node.node import BrokerNode
from levada.broker.replication.partition import Partition
from levada.errors import ConfigError, IllegalStateError, UnknownTopicOrPartitionError
from levada.testing.listening import Listening, OAuth, Security, logins_of
from levada.testing.pushed_metrics import PushedMetrics

T = TypeVar("T")

_MOST_REPLICAS = 3
_OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


class EmbeddedKafka:
    """A broker on a free port of 127.0.0.1, in a thread of this process, for as long as the `with` block lasts.

    Any Kafka client can use it::

        with EmbeddedKafka(num_partitions=3) as kafka:
            producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

    brokers: how many, with node ids from 1, each on a port and a thread of its own. Topics have replicas on up to three of them, unless
    default_replication_factor says otherwise. Brokers can be stopped and started, kept from copying what leaders have, and leaders and
    coordinators moved between them. port: of the first one. Other keyword arguments are broker settings with Kafka's names in snake_case
    (`num_partitions`, `auto_create_topics_enable`, `message_max_bytes`, `log_retention_ms`, ...): all that Kafka has. Those in
    levada.broker.config.settings have effect; others are only shown by DescribeConfigs.

    racks: in which rack each broker is; consumers with a client.rack read from a replica there (KIP-392).

    data_dir: a folder to keep topics, records, committed offsets and transactions in, in Kafka's formats; the next EmbeddedKafka with it
    goes on there, also after a crash. None keeps everything in memory, to be forgotten when it ends. Raises IllegalStateError when another
    broker uses the folder.

    security: "SSL" has the brokers speak TLS with a certificate made for the occasion (`pip install 'levada[testing]'`), and a
    levada.testing.Tls with one of yours. `client_settings` has what clients need to connect.

    users: names with their passwords; clients have to log in, by PLAIN or SCRAM. A user that data_dir knows gets this password.
    settings_for() has what a user's client needs. KafkaAdmin.alter_user_scram_credentials() creates more users, of SCRAM.

    listeners: protocols, such as ["PLAINTEXT", "SASL_SSL"], each on a port of its own; or names of your choice with their protocols.
    Clients are told the addresses of the listener that they came by. All listeners with TLS have the same certificate, all with logins the
    same users. By default there is one listener, as security and users say.

    acls: access rules to begin with, which decide what users may do: nothing without one. super_users: names of users who may do everything
    all the same. Either one, even if empty, switches the authorizer on. Clients without a login are the user ANONYMOUS, those of a listener
    with client certificates the subject of theirs.

    oauth: clients have to log in, or may do so instead, by OAUTHBEARER. "unsecured" believes tokens without a signature, as Kafka does by
    default; EmbeddedTokenEndpoint.validator() and levada.testing.jwks_validator() believe signed ones. aws_accounts: access keys with
    their secrets, for AWS_MSK_IAM. keytab: a file with the keys of the broker's Kerberos principals, such as kafka/127.0.0.1@EXAMPLE.COM,
    for GSSAPI (`pip install 'levada[gssapi]'`). Sessions end with their tokens, and after the setting connections_max_reauth_ms, if it is
    above 0.

    faults: what is to go wrong next, a levada.broker.node.faults.Faults.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        brokers: int = 1,
        racks: Sequence[str] | None = None,
        data_dir: Path | str | None = None,
        listeners: Mapping[str, str] | Sequence[str] | None = None,
        security: Security = None,
        users: Mapping[str, str] | None = None,
        acls: Iterable[AclBinding] | None = None,
        super_users: Iterable[str] | None = None,
        oauth: OAuth = None,
        aws_accounts: Mapping[str, str] | None = None,
        keytab: Path | str | None = None,
        **settings: Any,
    ) -> None:
        if arguments.whole("brokers", brokers) < 1:
            raise ConfigError(f"brokers must be at least 1, not {brokers}")
        if racks is not None and len(racks) != brokers:
            raise ConfigError(f"racks names one rack for each of {brokers} brokers, not {len(racks)}")
        if racks is not None:
            settings.setdefault("replica_selector_class", RACK_AWARE)
        has_logins = any(given is not None for given in (users, oauth, aws_accounts, keytab))
        self._listening = Listening(listeners, security, has_logins=has_logins)
        self._users = dict(users or {})
        self._faults = Faults(NAMES, FAIL_BY_PARTITION)
        if brokers > 1:
            settings.setdefault("default_replication_factor", min(brokers, _MOST_REPLICAS))
        if acls is not None or super_users is not None:
            settings.setdefault("authorizer_class_name", STANDARD_AUTHORIZER)
            settings.setdefault("super_users", ";".join(f"User:{name}" for name in super_users or ()))
        self._lock = threading.RLock()
        broker_settings = BrokerSettings.of(**settings)
        self._data_dir = None if data_dir is None else DataDir(data_dir, broker_settings)
        try:
            cluster = Cluster(broker_settings, SystemRandom(), self._data_dir or IN_MEMORY)
            logins = logins_of(cluster.access, users if has_logins else {}, oauth, aws_accounts, keytab)
            listening = self._listening.listeners(logins)
            self.nodes = [
                BrokerNode(node_id=number, rack=rack, cluster=cluster, faults=self._faults, listeners=listening, **settings)
                for number, rack in enumerate(racks or [None] * brokers, start=1)
            ]
            cluster.restore()
            if cluster.authorizer is not None:
                cluster.authorizer.add(acls or ())
        except BaseException:
            self._close_data_dir()
            raise
        self.node = self.nodes[0]
        self._servers = [self._server(node, self._listening.endpoints(0 if index else port)) for index, node in enumerate(self.nodes)]
        if brokers > 1:
            cluster.watch(lambda partition: self._wake())
            cluster.group_coordinators.watch(self._wake)

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
        self._close_data_dir()

    def _close_data_dir(self) -> None:
        if self._data_dir is not None:
            self._data_dir.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """host:port of each broker's first listener, for any client's bootstrap.servers.

        Raises RuntimeError while ports are not known, before start().
        """
        return self._addresses(None)

    @property
    def client_settings(self) -> dict[str, Any]:
        """The options of a client of the first listener: `KafkaProducer(**kafka.client_settings)`. Raises as bootstrap_servers does."""
        return self.settings_at(None)

    def settings_at(self, listener: str | None) -> dict[str, Any]:
        """The options of a client of a listener, but for its login; None for the first one. Raises ConfigError for one there is not."""
        return {"bootstrap_servers": self._addresses(listener), **self._listening.trust(listener)}

    def settings_for(self, user: str, mechanism: str = "SCRAM-SHA-256", *, listener: str | None = None) -> dict[str, Any]:
        """The options of a client that logs in as this user. listener: by default the first one that has logins.

        By OAUTHBEARER it does so with a token that nobody has signed, which oauth="unsecured" believes. By GSSAPI the user is a principal,
        and the client needs its tickets, or sasl_kerberos_keytab, besides. Raises KeyError for a user that is not among `users`,
        ConfigError for a listener that there is not.
        """
        settings = {**self.settings_at(listener or self._listening.with_logins()), "sasl_mechanism": mechanism}
        if mechanism == OAUTHBEARER:
            return {**settings, "sasl_jaas_config": f'{_OAUTH_MODULE} required unsecuredLoginStringClaim_sub="{user}";'}
        if mechanism == GSSAPI:
            return {**settings, "sasl_kerberos_principal": user}
        return {**settings, "sasl_username": user, "sasl_password": self._users[user]}

    def _addresses(self, listener: str | None) -> str:
        name = self._listening.name(listener)
        endpoints = [(server, endpoint) for server in self._servers for endpoint in server.endpoints if endpoint.listener == name]
        if not all(endpoint.port for _, endpoint in endpoints):
            raise RuntimeError("EmbeddedKafka has no port yet: enter its `with` block, or call start(), first")
        return ",".join(server.address_of(endpoint) for server, endpoint in endpoints)

    @property
    def faults(self) -> Faults:
        """What is to go wrong next: errors, answers that are lost, late or held, disconnects, blackholes, older versions.

        help(kafka.faults) explains its methods: fail_next, drop_response, disconnect, delay, hold, blackhole, close_mid_frame, throttle,
        cap_version, clear, requests.
        """
        return self._faults

    # Topics

    def create_topic(self, name: str, partitions: int = DEFAULT, config: Mapping[str, str | float | None] | None = None) -> UUID:
        """Create a topic and return its id. Raises BrokerError or ConfigError with the reason."""
        return self._call(lambda: self.node.create_topic(name, partitions, config)).id

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Raises UnknownTopicOrPartitionError."""
        self._call(lambda: self.node.delete_topic(name))

    def configure_group(self, group: str, config: Mapping[str, str | float | None]) -> None:
        """Change settings of a group, such as share.auto.offset.reset; None stands for the default. Raises ConfigError with the reason."""
        self._call(lambda: self.node.configure_group(group, config))

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
        """Start a broker that was stopped, on its old ports. It catches up, and leads only what nobody else could lead.

        Raises ConfigError for a node that does not exist, IllegalStateError for one that is up.
        """
        self._check_node(node)
        if node not in self.node.cluster.stopped:
            raise IllegalStateError(f"node {node} is up already")
        stopped = self._servers[node - 1]
        endpoints = [replace(endpoint, socket=None) for endpoint in stopped.endpoints]
        server = self._servers[node - 1] = self._server(stopped.node, endpoints)
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

    # Telemetry

    def subscribe_metrics(self, *metrics: str, interval_ms: int = DEFAULT_INTERVAL_MS, delta: bool = True) -> None:
        """Want these metrics of every client from now on (KIP-714), instead of those before.

        metrics: beginnings of their names, such as "org.apache.kafka.producer."; "" for all; none at all for nothing. interval_ms: between
        two pushes. delta: totals are to be what came since the last push; False for what there was since the client began.

        Clients push with enable.metrics.push=true. Raises IllegalStateError without the setting client_telemetry=True.
        """
        if not self.node.settings.client_telemetry:
            raise IllegalStateError(
                "this broker does not offer telemetry, as Kafka without a plugin; EmbeddedKafka(client_telemetry=True) does"
            )
        self._call(lambda: self.node.cluster.telemetry.subscribe(metrics, interval_ms, delta=delta))

    def pushed_metrics(self) -> list[PushedMetrics]:
        """Return what clients have pushed so far, in order."""
        return [PushedMetrics.of(pushed) for pushed in self._call(lambda: list(self.node.cluster.telemetry.pushed))]

    def _call(self, function: Callable[[], T]) -> T:
        return self._servers[0].call(function)

    def _server(self, node: BrokerNode, endpoints: list[Endpoint]) -> BrokerServer:
        return BrokerServer(node, endpoints=endpoints, lock=self._lock)

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
