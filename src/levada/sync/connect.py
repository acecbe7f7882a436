"""From a configuration to an engine and the thread that drives it; the same for every client."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

from levada.client.api_versions import BrokerVersions
from levada.client.engine import Engine
from levada.config import ClientConfig
from levada.net.selector import Selector
from levada.sync.driver import Driver

_numbers = count(1)


def connect(config: ClientConfig, kind: str, **engine_settings: Any) -> tuple[Engine, Driver]:
    """Build an engine over real sockets, and its driver, not yet started.

    kind: "producer", ...; with a number it is the client.id of a client that was given none (K23), which brokers log and meter by.
    """
    client_id = config.client_id or f"levada-{kind}-{next(_numbers)}"
    selector = Selector(
        max_frame_bytes=config.max_response_bytes,
        max_idle_ms=config.connections_max_idle_ms,
        send_buffer_bytes=config.send_buffer_bytes,
        receive_buffer_bytes=config.receive_buffer_bytes,
    )
    engine = Engine(
        selectable=selector,
        bootstrap=config.bootstrap_servers,
        client_id=client_id,
        random=Random(),
        request_timeout_ms=config.request_timeout_ms,
        reconnect_backoff_ms=config.reconnect_backoff_ms,
        reconnect_backoff_max_ms=config.reconnect_backoff_max_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        metadata_max_age_ms=config.metadata_max_age_ms,
        connection_setup_timeout_ms=config.socket_connection_setup_timeout_ms,
        connection_setup_timeout_max_ms=config.socket_connection_setup_timeout_max_ms,
        rebootstrap=config.metadata_recovery_strategy == "rebootstrap",
        security_protocol=config.security_protocol,
        fallback=fallback(config.broker_version_fallback),
        **engine_settings,
    )
    return engine, Driver(engine, selector, name=f"{kind} '{client_id}'")


def fallback(release: str) -> BrokerVersions | None:
    """Return what brokers of broker.version.fallback speak, None where each is asked."""
    if not release:
        return None
    # Met only with brokers that are years behind; most programs never load it.
    from levada.client.broker_fallback import versions_of

    return versions_of(release)
