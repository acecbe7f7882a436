"""Builds the engine of a client from its configuration: the same for every client and every driver."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeVar

from levada import _pure
from levada.base.flow import Flow
from levada.client.driver_interface import Host
from levada.client.engine import Engine, EngineSettings
from levada.client.metadata.metadata_source import Brokers, Controllers
from levada.client.network.api_versions import BrokerVersions
from levada.config import AdminConfig, ClientConfig, ProducerConfig
from levada.config.security import TLS_PROTOCOLS
from levada.errors import ConfigError
from levada.logs import Log, of_a_client
from levada.net import short_io
from levada.net.resolver import canonical_addresses
from levada.net.selectable import Selectable
from levada.net.selector import Selector
from levada.net.transport import SocketLike, TransportLayer, plaintext

D = TypeVar("D", bound=Host, covariant=True)

log = Log(__name__)

CANONICAL = "resolve_canonical_bootstrap_servers_only"

_numbers = count(1)


class Connector(Protocol[D]):
    """Makes the engine and the driver of a client. Each API has its own."""

    def __call__(self, config: ClientConfig, kind: str) -> tuple[Engine, D]:
        """Return an engine and its driver, which is not started. kind: for example "producer"; part of the default client.id."""
        ...


WhenDropped = Callable[[], Flow[Any]]


def client_name(config: ClientConfig, kind: str) -> str:
    """Return the client.id of a client. If it is not set, it is made of the kind and a number."""
    return config.client_id or f"levada-{kind}-{next(_numbers)}"


def selector_for(config: ClientConfig) -> Selector:
    """Return a Selector for one client. If levada is not compiled, log a warning, once in a process."""
    if not (short_io.COMPILED or _pure.is_wanted()):
        _tell_of_interpreted_modules()
    return Selector(**settings_for_selector(config))


@cache
def _tell_of_interpreted_modules() -> None:
    """Log a warning, once in a process."""
    log.warning(
        "levada is not compiled, and several times slower than it could be: install a wheel (pip install --only-binary levada levada), or "
        "install a C compiler before it; LEVADA_PURE=1 says that it is meant to be so"
    )


def settings_for_selector(config: ClientConfig) -> dict[str, Any]:
    """Return the arguments for a Selector, by parameter name."""
    return {
        "max_frame_bytes": config.max_response_bytes,
        "max_idle_ms": config.connections_max_idle_ms,
        "send_buffer_bytes": config.send_buffer_bytes,
        "receive_buffer_bytes": config.receive_buffer_bytes,
        "keepalive_idle_ms": config.socket_keepalive_idle_ms,
        "user_timeout_ms": config.socket_user_timeout_ms,
        "transport": transport_for(config),
        "proxy": config.proxy_url,
    }


def transport_for(config: ClientConfig) -> Callable[[SocketLike, str], TransportLayer]:
    """Return the function that makes the transport, plaintext or TLS, of a connection. Raises ConfigError for certificates that cannot be
    used.

    With TLS it loads OpenSSL and the certificates, and logs warnings, for example for private keys that others can read.
    """
    if config.security_protocol not in TLS_PROTOCOLS:
        return plaintext
    # OpenSSL takes a while to load, and plaintext connections never need it.
    from levada.net.tls.context import TlsSettings
    from levada.net.tls.transport import TlsConnector

    warn_of_readable({"ssl.keystore.location": config.ssl_keystore_location, "ssl.key.location": config.ssl_key_location})
    if config.ssl_dangerously_accept_any_host_name:
        log.warning("ssl.dangerously.accept.any.host.name=true: whoever has a certificate of a trusted authority can pass for a broker")
    return TlsConnector(TlsSettings(**{field.name: getattr(config, f"ssl_{field.name}") for field in fields(TlsSettings)})).connect


def engine_for(config: ClientConfig, client_id: str, selectable: Selectable, random: Random) -> Engine:
    """Return an engine that sends its requests through `selectable`: sockets, or a simulated network."""
    ids = {name: getattr(config, name, None) for name in ("group_id", "transactional_id")}
    settings = settings_for_engine(config, client_id)
    return Engine(settings, selectable=selectable, random=random, log_fields=of_a_client(client_id, **ids))


def bootstrap_of(config: ClientConfig) -> Sequence[tuple[str, int]]:
    """Return the bootstrap addresses, each as (host, port). If client.dns.lookup requests canonical names, they are looked up now.

    Raises ConfigError if no address has such a name then.
    """
    addresses = _controllers(config) or config.bootstrap_servers
    if config.client_dns_lookup != CANONICAL:
        return addresses
    found, failed = canonical_addresses(addresses)
    listed = "; ".join(f"{host}:{port}: {why}" for (host, port), why in failed.items())
    if not found:
        raise ConfigError(f"'client.dns.lookup={CANONICAL}': no name in bootstrap.servers can be resolved: {listed}")
    if failed:
        log.warning("bootstrap.servers that cannot be resolved are left out: %s", listed)
    return found


def _controllers(config: ClientConfig) -> Sequence[tuple[str, int]]:
    """Return the addresses (host, port) in bootstrap.controllers; empty for all clients but an admin client."""
    return config.bootstrap_controllers if isinstance(config, AdminConfig) else ()


_MAX_IN_FLIGHT: int = ProducerConfig.OPTIONS["max.in.flight.requests.per.connection"].default
_METADATA_MAX_IDLE_MS: int = ProducerConfig.OPTIONS["metadata.max.idle.ms"].default
"""Only producers have these settings; other clients have their defaults."""


def settings_for_engine(config: ClientConfig, client_id: str) -> EngineSettings:
    """Return the settings for an Engine."""
    producer = config if isinstance(config, ProducerConfig) else None
    return EngineSettings(
        bootstrap=bootstrap_of(config),
        source=Controllers() if _controllers(config) else Brokers(),
        client_id=client_id,
        request_timeout_ms=config.request_timeout_ms,
        max_in_flight=producer.max_in_flight_requests_per_connection if producer else _MAX_IN_FLIGHT,
        reconnect_backoff_ms=config.reconnect_backoff_ms,
        reconnect_backoff_max_ms=config.reconnect_backoff_max_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        metadata_max_age_ms=config.metadata_max_age_ms,
        metadata_max_idle_ms=producer.metadata_max_idle_ms if producer else _METADATA_MAX_IDLE_MS,
        connection_setup_timeout_ms=config.socket_connection_setup_timeout_ms,
        connection_setup_timeout_max_ms=config.socket_connection_setup_timeout_max_ms,
        # Only consumers have the setting.
        allow_auto_create_topics=getattr(config, "allow_auto_create_topics", producer is not None),
        rebootstrap=config.metadata_recovery_strategy == "rebootstrap",
        rebootstrap_trigger_ms=config.metadata_recovery_rebootstrap_trigger_ms,
        bootstrap_wait=config.bootstrap_wait,
        security_protocol=config.security_protocol,
        proxy=str(config.proxy_url or ""),
        fallback=fallback(config.broker_version_fallback),
    )


def fallback(release: str) -> BrokerVersions | None:
    """Return the API versions of brokers of a release, for broker.version.fallback; None if each broker is asked for its versions."""
    if not release:
        return None
    # Only for very old brokers; most programs never load it.
    from levada.client.network.broker_fallback import versions_of

    return versions_of(release)


_OF_OTHERS = stat.S_IRGRP | stat.S_IROTH
_HAS_MODES = os.name == "posix"


def warn_of_readable(named: dict[str, str | None]) -> None:
    """Log a warning for each file with a private key that other users may read. named: for each option, its file; None if there is none."""
    for option, file in named.items():
        if file is not None and _HAS_MODES and _mode(file) & _OF_OTHERS:
            log.warning("%s: other users of this machine can read %s, and a private key in it is theirs then: chmod 600", option, file)


def _mode(file: str) -> int:
    try:
        return Path(file).stat().st_mode
    except (OSError, ValueError):
        # A ValueError means a zero byte in the name. The code that reads the file reports either fault.
        return 0
