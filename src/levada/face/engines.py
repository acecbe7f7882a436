"""From a configuration to an engine, the same for every client and every driver."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any, Protocol, TypeVar

from levada.client.api_versions import BrokerVersions
from levada.client.engine import Engine
from levada.client.host import Host
from levada.config import ClientConfig
from levada.flow import Flow
from levada.net.selectable import Selectable
from levada.net.selector import Selector

D = TypeVar("D", bound=Host, covariant=True)

_numbers = count(1)


class Connector(Protocol[D]):
    """What gives a client its engine and the driver that runs it; one per kind of driver."""

    def __call__(self, config: ClientConfig, kind: str, **engine_settings: Any) -> tuple[Engine, D]:
        """Build both, the driver not yet started. kind: "producer", ...: names the client."""
        ...


WhenDropped = Callable[[], Flow[Any]]


def client_name(config: ClientConfig, kind: str) -> str:
    """Return the client.id of a client: the kind with a number where none was given (K23); brokers log and meter by it."""
    return config.client_id or f"levada-{kind}-{next(_numbers)}"


def selector_for(config: ClientConfig) -> Selector:
    """Return the sockets of one client."""
    return Selector(
        max_frame_bytes=config.max_response_bytes,
        max_idle_ms=config.connections_max_idle_ms,
        send_buffer_bytes=config.send_buffer_bytes,
        receive_buffer_bytes=config.receive_buffer_bytes,
    )


def engine_for(config: ClientConfig, client_id: str, selectable: Selectable, random: Random, **engine_settings: Any) -> Engine:
    """Build an engine over sockets, or over a simulated network."""
    return Engine(
        selectable=selectable,
        bootstrap=config.bootstrap_servers,
        client_id=client_id,
        random=random,
        request_timeout_ms=config.request_timeout_ms,
        reconnect_backoff_ms=config.reconnect_backoff_ms,
        reconnect_backoff_max_ms=config.reconnect_backoff_max_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        metadata_max_age_ms=config.metadata_max_age_ms,
        connection_setup_timeout_ms=config.socket_connection_setup_timeout_ms,
        connection_setup_timeout_max_ms=config.socket_connection_setup_timeout_max_ms,
        rebootstrap=config.metadata_recovery_strategy == "rebootstrap",
        rebootstrap_trigger_ms=config.metadata_recovery_rebootstrap_trigger_ms,
        security_protocol=config.security_protocol,
        fallback=fallback(config.broker_version_fallback),
        **engine_settings,
    )


def fallback(release: str) -> BrokerVersions | None:
    """Return what brokers of broker.version.fallback speak, None where each is asked."""
    if not release:
        return None
    # Met only with brokers that are years behind; most programs never load it.
    from levada.client.broker_fallback import versions_of

    return versions_of(release)
