"""A Kafka broker for tests, which starts in milliseconds."""

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
from levada.broker.replication.partition import NO_LEADER, Partition
from levada.errors import ConfigError, IllegalStateError, UnknownTopicOrPartitionError
from levada.testing.listening import Listening, OAuth, Security, logins_of
from levada.testing.pushed_metrics import PushedMetrics

T = TypeVar("T")

_MOST_REPLICAS = 3
_OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


class EmbeddedKafka:
    """A broker on a free port of 127.0.0.1, in a thread of this process. It runs until the `with` block ends.

    Any Kafka client can use it::

        with EmbeddedKafka(num_partitions=3) as kafka:
            producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

    brokers: the number of brokers. Their node ids begin with 1, and each has its own port and thread. A topic has up to three replicas,
    unless default_replication_factor is set. A test can stop and start brokers, pause their replication, and move leaders and coordinators
    between them. port: the port of the first broker. Other keyword arguments are broker settings of Kafka in snake_case (`num_partitions`,
    `auto_create_topics_enable`, `message_max_bytes`, `log_retention_ms`, ...). Those in levada.broker.config.settings have effect; all
    others are only shown by DescribeConfigs.

    racks: the rack of each broker. Consumers with a client.rack fetch from a replica in their rack (KIP-392).

    data_dir: a folder for topics, records, committed offsets and transactions, in Kafka's formats. The next EmbeddedKafka with the same
    folder continues with this data, also after a crash. With None everything is in memory and lost at the end. Raises IllegalStateError if
    another broker uses the folder.

    security: "SSL" for TLS with a new certificate of a new authority (`pip install 'levada[testing]'`), or a levada.testing.Tls with your
    own certificate. `client_settings` has the settings with which clients connect; with a Tls, add those of its Authority.trust().

    users: user names with their passwords. Clients have to log in with PLAIN or SCRAM. A user that exists in data_dir gets the new
    password. settings_for() has the settings of a user's client. KafkaAdmin.alter_user_scram_credentials() creates more users for SCRAM.

    listeners: security protocols, such as ["PLAINTEXT", "SASL_SSL"], each on its own port; or a mapping of listener names to protocols.
    Metadata has the addresses of the listener that the client is connected to. All listeners with TLS have the same certificate, and all
    with SASL the same users. By default there is one listener. It has TLS if security is given, and SASL if users, oauth, aws_accounts or
    keytab is given.

    acls: access rules, added to those in data_dir. A user may do nothing that no rule allows. super_users: names of users who may do
    everything. Either argument, even if empty, enables the authorizer. Clients without a login are the user ANONYMOUS. If a listener has
    client certificates, the user is the subject of the certificate.

    oauth: clients log in with OAUTHBEARER, or with one of the other mechanisms. "unsecured" accepts tokens without a signature, like Kafka
    by default; EmbeddedTokenEndpoint.validator() and levada.testing.jwks_validator() accept signed tokens. aws_accounts: access keys with
    their secrets, for AWS_MSK_IAM. keytab: a file with the keys of the broker's Kerberos principals, such as kafka/127.0.0.1@EXAMPLE.COM,
    for GSSAPI (`pip install 'levada[gssapi]'`). A session ends when its token expires, and after the setting connections_max_reauth_ms if
    it is above 0.

    faults: the faults to inject, a levada.broker.node.faults.Faults.
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
        """Start the brokers without a `with` block. The caller has to call close(). Raises ConnectError if the port is taken."""
        try:
            for server in self._servers:
                server.start()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stop the brokers: close their ports and connections and end their threads."""
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
        """The addresses of all brokers at their first listener, as host:port, for the bootstrap.servers of any client.

        Raises RuntimeError before start(), because the ports are not known yet.
        """
        return self._addresses(None)

    @property
    def client_settings(self) -> dict[str, Any]:
        """The settings of a client that connects to the first listener, as in `KafkaProducer(**kafka.client_settings)`.

        They contain no login: for a listener with SASL use settings_for(). Raises RuntimeError before start().
        """
        return self.settings_at(None)

    def settings_at(self, listener: str | None) -> dict[str, Any]:
        """Return the settings of a client that connects to a listener, without those for the login.

        listener: its name, None for the first listener. Raises ConfigError for an unknown listener, and RuntimeError before start().
        """
        return {"bootstrap_servers": self._addresses(listener), **self._listening.trust(listener)}

    def settings_for(self, user: str, mechanism: str = "SCRAM-SHA-256", *, listener: str | None = None) -> dict[str, Any]:
        """Return the settings of a client that logs in as this user with PLAIN, SCRAM, OAUTHBEARER or GSSAPI. listener: the name of the
        listener, by default the first one with SASL.

        With OAUTHBEARER the token has no signature, so only oauth="unsecured" accepts it. With GSSAPI the user is a Kerberos principal, and
        the client also needs its tickets or sasl_kerberos_keytab. With PLAIN and SCRAM, raises KeyError for a user that is not in `users`.
        Raises ConfigError for an unknown listener, and RuntimeError before start().
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
        """The faults to inject: errors, throttling, disconnects, blackholes, older API versions, and responses that are lost, late or held
        back.

        help(kafka.faults) explains the methods fail_next, drop_response, disconnect, delay, hold, blackhole, close_mid_frame, throttle,
        cap_version, clear and release_all. kafka.faults.requests counts the requests by API.
        """
        return self._faults

    # Topics

    def create_topic(self, name: str, partitions: int = DEFAULT, config: Mapping[str, str | float | None] | None = None) -> UUID:
        """Create a topic and return its id. partitions: by default the broker setting num_partitions. config: settings of the topic by
        Kafka's names. Raises BrokerError or ConfigError with the reason.
        """
        return self._call(lambda: self.node.create_topic(name, partitions, config)).id

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Raises UnknownTopicOrPartitionError."""
        self._call(lambda: self.node.delete_topic(name))

    def configure_group(self, group: str, config: Mapping[str, str | float | None]) -> None:
        """Change settings of a group, such as share.auto.offset.reset. None restores the default. Raises ConfigError with the reason."""
        self._call(lambda: self.node.configure_group(group, config))

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """Return the offset that the partition's next record will get. Raises UnknownTopicOrPartitionError."""
        return self._call(lambda: self._partition(topic, partition).log.end_offset)

    def elect_leader(self, topic: str, partition: int = 0, *, node: int | None = None, lose_from: int | None = None) -> None:
        """Elect a leader for a partition, in a new leader epoch. node: the id of the node that becomes leader, by default the present
        leader or, if there is none, a node that has a replica and is up, preferably one in sync.

        If the node is not in sync, the records that it does not have are lost, as in an unclean election. A node without a replica takes
        over the leader's replica, as in a reassignment. lose_from: let the node lose all batches that have records at or after this offset,
        as if its disk had not been flushed.

        Raises UnknownTopicOrPartitionError, ConfigError for a node that does not exist, and IllegalStateError for a stopped node, or if no
        node that has a replica is up.
        """
        if lose_from is not None and arguments.whole("lose_from", lose_from) < 0:
            raise ValueError(f"lose_from is an offset, got {lose_from}")
        self._check_node(node)
        self._call(lambda: self._elect(topic, partition, node, lose_from))

    def forget_producers(self, topic: str, partition: int = 0) -> None:
        """Remove the producer state of a partition, as if producer.id.expiration.ms had passed. Producers with an open transaction are
        kept.

        Raises UnknownTopicOrPartitionError.
        """
        self._call(lambda: self._partition(topic, partition).forget_producers())

    def connections(self) -> list[Session]:
        """Return the connections of clients to all brokers, with address, client id, and the name and version of the client software.

        A client may have several connections to a broker.
        """
        return self._call(lambda: [session for node in self.nodes for session in node.sessions()])

    def forget_fetch_sessions(self) -> None:
        """Remove all fetch sessions, as if the brokers needed room for others. Consumers have to open new ones."""
        for node in self.nodes:
            self._call(node.forget_fetch_sessions)

    # Nodes

    def pause_replication(self, node: int) -> None:
        """Let a node's followers catch up, then stop them from fetching until resume_replication(). The node still leads partitions and
        answers requests.

        Produce requests with acks=all to other leaders wait until the node's replicas are out of sync, after replica_lag_time_max_ms
        (30,000 ms). Raises ConfigError for a node that does not exist.
        """
        self._check_node(node)
        self._call(lambda: self.node.cluster.pause_replication(node))

    def resume_replication(self, node: int) -> None:
        """Let a node fetch from leaders again. It catches up at once. Raises ConfigError for a node that does not exist."""
        self._check_node(node)
        self._call(lambda: self.node.cluster.resume_replication(node))

    def stop_node(self, node: int) -> None:
        """Stop a broker: its connections are closed, new ones are refused, and other brokers become leaders and coordinators. Its logs are
        kept. A partition without an in-sync replica on another running broker has no leader, unless unclean.leader.election.enable is set.

        Raises ConfigError for a node that does not exist, and IllegalStateError for a stopped node.
        """
        self._check_node(node)
        if node in self.node.cluster.stopped:
            raise IllegalStateError(f"node {node} is down already")
        # The port is closed first, so that a client that is refused there finds the new leaders in metadata soon after.
        self._servers[node - 1].close()
        self._servers[node - 1].node.forget_fetch_sessions()
        self._call(lambda: self.node.cluster.stop_node(node))

    def start_node(self, node: int) -> None:
        """Start a stopped broker on its old ports. Its followers catch up. It can become the leader only of partitions that have no leader.

        Raises ConfigError for a node that does not exist, IllegalStateError for a running node, and ConnectError if a port is taken.
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
        """Make a node the coordinator of a transactional id or a group, and of all others that belong to the same partition of the internal
        topic.

        Raises ConfigError for a node that does not exist, and unless exactly one of transactional_id and group is given.
        """
        self._check_node(node)
        placement, key = self._placement(transactional_id, group)
        self._call(lambda: placement.move(key, node))

    @contextmanager
    def loading_coordinator(self, *, transactional_id: str | None = None, group: str | None = None) -> Iterator[None]:
        """Make the coordinator of a transactional id or group answer COORDINATOR_LOAD_IN_PROGRESS until the `with` block ends, also for all
        others that belong to the same partition of the internal topic.

        Raises ConfigError unless exactly one of transactional_id and group is given.
        """
        placement, key = self._placement(transactional_id, group)
        self._call(lambda: placement.begin_loading(key))
        try:
            yield
        finally:
            self._call(lambda: placement.end_loading(key))

    def time_out_transaction(self, transactional_id: str) -> None:
        """Abort an open transaction as if its timeout had passed. Raises IllegalStateError if none is open or the id is unknown."""
        self._call(lambda: self.node.time_out_transaction(transactional_id))

    def expire_transactional_id(self, transactional_id: str) -> None:
        """Remove a transactional id, as if transactional.id.expiration.ms had passed. Raises IllegalStateError if it is unknown, or if its
        transaction is open or not yet completed.
        """
        self._call(lambda: self.node.expire_transactional_id(transactional_id))

    # Telemetry

    def subscribe_metrics(self, *metrics: str, interval_ms: int = DEFAULT_INTERVAL_MS, delta: bool = True) -> None:
        """Ask all clients to push these metrics (KIP-714), in place of the metrics that they were asked for before.

        metrics: prefixes of names, such as "org.apache.kafka.producer."; "" for all metrics; no argument for no metrics. interval_ms: the
        time between two pushes. delta: True if totals are to count from the last push, False if they are to count from the start of the
        client.

        Clients push if they have enable.metrics.push=true. Raises IllegalStateError if the broker was started without the setting
        client_telemetry=True.
        """
        if not self.node.settings.client_telemetry:
            raise IllegalStateError(
                "this broker does not offer telemetry, as Kafka without a plugin; EmbeddedKafka(client_telemetry=True) does"
            )
        self._call(lambda: self.node.cluster.telemetry.subscribe(metrics, interval_ms, delta=delta))

    def pushed_metrics(self) -> list[PushedMetrics]:
        """Return all pushes of metrics that the brokers have accepted so far, in order. Raises ProtocolError if one is not in OTLP."""
        return [PushedMetrics.of(pushed) for pushed in self._call(lambda: list(self.node.cluster.telemetry.pushed))]

    def _call(self, function: Callable[[], T]) -> T:
        return self._servers[0].call(function)

    def _server(self, node: BrokerNode, endpoints: list[Endpoint]) -> BrokerServer:
        return BrokerServer(node, endpoints=endpoints, lock=self._lock)

    def _wake(self) -> None:
        for server in self._servers:
            server.wakeup()

    def _elect(self, topic: str, partition: int, node: int | None, lose_from: int | None) -> None:
        cluster, found = self.node.cluster, self._partition(topic, partition)
        if node is None:
            candidates = found.candidates(cluster.alive) if found.leader == NO_LEADER else [found.leader]
            if not candidates:
                raise IllegalStateError(f"no node that has a replica of {found.name} is up; call start_node() first")
            node = candidates[0]
        cluster.move_leader(found, node, lose_from=lose_from)

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
