"""A broker in the foreground: `levada broker`, and `python -m levada.broker`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from random import SystemRandom
from typing import Any, NamedTuple

from levada.base.text import did_you_mean
from levada.broker.access.logins import Logins
from levada.broker.cluster.cluster import Cluster
from levada.broker.cluster.storage import IN_MEMORY
from levada.broker.config.checks import MAX_INT32, integer
from levada.broker.config.kafka_settings import kafka_settings
from levada.broker.config.settings import ATTRIBUTES, HOW_IT_IS_STARTED, BrokerSettings, dotted
from levada.broker.disk.data_dir import DataDir
from levada.broker.disk.properties_file import read_properties
from levada.broker.network.connection import PROTOCOLS, Listener
from levada.broker.network.server import BrokerServer, Endpoint
from levada.broker.network.server import InsecureListenError as InsecureListenError
from levada.broker.node.node import BrokerNode
from levada.errors import ConfigError
from levada.net.tls.errors import TlsFileError as TlsFileError
from levada.net.transport import PlaintextTransport, TransportLayer

_NODE_ID, _RACK = "node_id", "broker_rack"
_INSTEAD = {
    "advertised.listeners": "--host and --port",
    "broker.id": "node.id",
    "listener.security.protocol.map": "--certificate and --users",
    "listeners": "--host and --port",
    "log.dir": "--data-dir",
    "log.dirs": "--data-dir",
    "sasl.enabled.mechanisms": "--users",
}
"""What to give instead of a setting that follows from how a broker is started, if there is something."""
_WORDS: Mapping[str, bool] = {"true": True, "false": False}


class Listening(NamedTuple):
    """The address of a broker and the rules for its clients.

    certificate, key: PEM files with the broker's certificate and private key, for TLS. client_authorities: a PEM file with CAs; clients
    need a certificate of one of them. Without `certificate` there is no TLS, and these have no effect. users: passwords by user name; if
    given, clients have to log in. insecure: whether other machines may reach the broker even if its clients need neither a certificate nor
    a login over TLS.
    """

    host: str = "127.0.0.1"
    port: int = 9092
    certificate: str | None = None
    key: str | None = None
    client_authorities: str | None = None
    users: Mapping[str, str] | None = None
    insecure: bool = False


def serve(listening: Listening, data_dir: str | None, settings: Mapping[str, Any], tell: Callable[[str], None]) -> None:
    """Run a broker until Ctrl-C or SIGTERM, both of which raise KeyboardInterrupt.

    data_dir: the folder for all data; None keeps all data in memory. settings: broker settings by Kafka's names in snake_case, including
    node_id (as text) and broker_rack. tell: called with the broker's address when it accepts connections.

    Raises ConfigError, ConnectError if the broker cannot listen at the address, IllegalStateError if another broker uses the folder or its
    content cannot be read, and BrokerError if the disk fails. A TlsFileError (ConfigError) names the file that cannot be used; an
    InsecureListenError (ConfigError) says that the host is not allowed.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    others = {name: value for name, value in settings.items() if name not in (_NODE_ID, _RACK)}
    node_id = _node_id(settings.get(_NODE_ID, "1"))
    broker_settings = BrokerSettings.of(**others)
    kept = None if data_dir is None else DataDir(data_dir, broker_settings)
    server: BrokerServer | None = None
    try:
        if kept is not None:
            _check_home(kept, node_id)
        cluster = Cluster(broker_settings, SystemRandom(), kept or IN_MEMORY)
        listener = _listener(listening, cluster)
        node = BrokerNode(node_id=node_id, rack=settings.get(_RACK), cluster=cluster, listeners=(listener,), **others)
        endpoint = Endpoint(port=listening.port, transport=_transport(listening))
        server = BrokerServer(node, host=listening.host, endpoints=[endpoint], insecure_listen=_may_be_reached(listening))
        cluster.restore()
        server.start()
        where = "everything in memory" if kept is None else f"everything in {kept.path}"
        tell(f"listening on {server.address}, {where}, security.protocol={listener.protocol}; Ctrl-C ends it")
        server.wait()
    finally:
        if server is not None:
            server.close()
        if kept is not None:
            kept.close()


def setting(text: str) -> tuple[str, object]:
    """Split NAME=VALUE into a setting's name in snake_case and its value. NAME is Kafka's name. The value is converted to the type of the
    attribute of BrokerSettings; without such an attribute, or if it is neither true nor false for a boolean, it stays text.

    Raises ConfigError for an unknown name, for a setting that follows from how the broker is started, and for a value that is no number if
    one is needed.
    """
    name, _, value = text.partition("=")
    return _setting(name.strip(), value)


def properties(path: str) -> dict[str, object]:
    """Read broker settings from a Java properties file; return them like setting(). Raises ConfigError."""
    try:
        # Java keeps blanks at the end of a value. Kafka drops them when it parses numbers and the like.
        return dict(_setting(name, value.strip()) for name, value in read_properties(path))
    except ConfigError as wrong:
        raise ConfigError(f"{path}: {wrong}") from None


def _setting(name: str, value: str) -> tuple[str, object]:
    field = name.replace(".", "_")
    if dotted(field) in HOW_IT_IS_STARTED and field not in (_NODE_ID, _RACK):
        instead = _INSTEAD.get(dotted(field))
        raise ConfigError(f"broker setting '{name}' cannot be given; {f'give {instead}' if instead else 'leave it out'}")
    if field not in ATTRIBUTES:
        if dotted(field) not in kafka_settings():
            names = [*kafka_settings(), *map(dotted, ATTRIBUTES)]
            known = names if "." in name else [one.replace(".", "_") for one in names]
            raise ConfigError(f"unknown broker setting '{name}'{did_you_mean(name, known)}")
        return field, value
    default = ATTRIBUTES[field]
    if isinstance(default, bool):
        return field, _WORDS.get(value.lower(), value)
    if isinstance(default, int | float):
        try:
            return field, type(default)(value)
        except ValueError:
            raise ConfigError(f"{name}={value}: expected a number") from None
    return field, value


def _node_id(text: str) -> int:
    try:
        return int(integer(0, MAX_INT32).parse(text))
    except ValueError as fault:
        raise ConfigError(f"broker setting 'node.id' {fault}, not {text!r}") from None


def _check_home(kept: DataDir, node_id: int) -> None:
    """Raise ConfigError if a data folder has replicas of other nodes, but none of this node."""
    nodes = sorted({node for topic in kept.topics() for replicas in topic.assignment for node in replicas})
    if nodes and node_id not in nodes:
        raise ConfigError(
            f"{kept.path} is the folder of node {nodes[0]}: start the broker with node.id={nodes[0]}, or give it another folder"
        )


def _may_be_reached(listening: Listening) -> bool:
    # A client has to prove who it is by a certificate, or by a login over TLS; a password in the clear does not count.
    return listening.insecure or (
        listening.certificate is not None and (listening.users is not None or listening.client_authorities is not None)
    )


def _listener(listening: Listening, cluster: Cluster) -> Listener:
    protocol = PROTOCOLS[bool(listening.certificate) + 2 * (listening.users is not None)]
    if listening.users is None:
        return Listener(protocol, protocol)
    access = cluster.access
    access.scram_users.set_passwords(listening.users)
    return Listener(protocol, protocol, Logins(listening.users, access.scram_users, access.delegation_tokens))


def _transport(listening: Listening) -> Callable[[Any], TransportLayer]:
    if listening.certificate is None:
        return PlaintextTransport
    # OpenSSL takes a while to load.
    from levada.net.tls.context import TlsSettings, server_context
    from levada.net.tls.transport import TlsAcceptor

    ours = TlsSettings(
        certificate_location=listening.certificate, key_location=listening.key, truststore_location=listening.client_authorities
    )
    return TlsAcceptor(server_context(ours, client_auth="none" if listening.client_authorities is None else "required")).accept
