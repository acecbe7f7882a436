"""A broker in the foreground: `levada broker`, and `python -m levada.broker`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import fields
from random import SystemRandom
from typing import Any, NamedTuple

from levada.broker.cluster import Cluster
from levada.broker.disk.data_dir import DataDir
from levada.broker.listeners import PROTOCOLS, Listener
from levada.broker.logins import Logins
from levada.broker.node import BrokerNode
from levada.broker.server import BrokerServer, Endpoint
from levada.broker.server import InsecureListenError as InsecureListenError
from levada.broker.settings import BrokerSettings
from levada.broker.storage import IN_MEMORY
from levada.errors import ConfigError
from levada.net.tls.file_error import TlsFileError as TlsFileError
from levada.net.transport import PlaintextTransport, TransportLayer
from levada.suggestion import did_you_mean

_DEFAULTS: Mapping[str, object] = {field.name: field.default for field in fields(BrokerSettings)}
_WORDS: Mapping[str, bool] = {"true": True, "false": False}


class Listening(NamedTuple):
    """Where a broker listens, and for whom.

    certificate, key: files in PEM; with them it speaks TLS. client_authorities: a file in PEM; with it clients have to show a certificate
    of one of these. users: names with their passwords; with them clients have to log in. insecure: allow a host that other machines reach
    even if clients need not log in.
    """

    host: str = "127.0.0.1"
    port: int = 9092
    certificate: str | None = None
    key: str | None = None
    client_authorities: str | None = None
    users: Mapping[str, str] | None = None
    insecure: bool = False


def serve(listening: Listening, data_dir: str | None, settings: Mapping[str, Any], tell: Callable[[str], None]) -> None:
    """Serve until Ctrl-C or SIGTERM, which come out as KeyboardInterrupt.

    data_dir: a folder to keep everything in, None for in memory. settings: of the broker, with Kafka's names in snake_case. tell: is told
    where it listens. Raises ConfigError, ConnectError when the port is taken, IllegalStateError when another broker uses the folder. Of the
    kinds of ConfigError a TlsFileError tells which file cannot be used, an InsecureListenError that the host may not be.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    broker_settings = BrokerSettings.of(**settings)
    kept = None if data_dir is None else DataDir(data_dir, broker_settings)
    server: BrokerServer | None = None
    try:
        cluster = Cluster(broker_settings, SystemRandom(), kept or IN_MEMORY)
        listener = _listener(listening, cluster)
        node = BrokerNode(cluster=cluster, listeners=(listener,), **settings)
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
    """Read NAME=VALUE: a broker setting by Kafka's name, and its value as the setting has it.

    Raises ConfigError for no number, and for a name that is none, in the spelling that was typed.
    """
    name, _, value = text.partition("=")
    field = name.strip().replace(".", "_")
    if field not in _DEFAULTS:
        typed = name.strip()
        known = [known.replace("_", ".") if "." in typed else known for known in _DEFAULTS]
        raise ConfigError(f"unknown broker setting '{typed}'{did_you_mean(typed, known)}")
    default = _DEFAULTS[field]
    if isinstance(default, bool):
        return field, _WORDS.get(value.lower(), value)
    if isinstance(default, int | float):
        try:
            return field, type(default)(value)
        except ValueError:
            raise ConfigError(f"{name.strip()}={value}: expected a number") from None
    return field, value


def _may_be_reached(listening: Listening) -> bool:
    # Who has to log in, or to show a certificate, is somebody; a password that crosses a network in the clear is no login.
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
    from levada.net.tls.connector import TlsAcceptor
    from levada.net.tls.context import TlsSettings, server_context

    ours = TlsSettings(
        certificate_location=listening.certificate, key_location=listening.key, truststore_location=listening.client_authorities
    )
    return TlsAcceptor(server_context(ours, client_auth="none" if listening.client_authorities is None else "required")).accept
