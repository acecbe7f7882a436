"""From a configuration to an engine and the thread that drives it; the same for every client."""

from __future__ import annotations

from random import Random
from typing import Any

from penstock.client.engine import Engine
from penstock.config import ClientConfig
from penstock.net.selector import Selector
from penstock.sync.driver import Driver


def connect(config: ClientConfig, kind: str, **engine_settings: Any) -> tuple[Engine, Driver]:
    """Build an engine over real sockets, and its driver, not yet started. kind: "producer", ..., for messages and the thread's name."""
    selector = Selector(
        max_frame_bytes=config.max_response_bytes,
        max_idle_ms=config.connections_max_idle_ms,
        send_buffer_bytes=config.send_buffer_bytes,
        receive_buffer_bytes=config.receive_buffer_bytes,
    )
    engine = Engine(
        selectable=selector,
        bootstrap=config.bootstrap_servers,
        client_id=config.client_id,
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
        **engine_settings,
    )
    named = f" '{config.client_id}'" if config.client_id else ""
    return engine, Driver(engine, selector, name=f"penstock {kind}{named}")
