"""The settings of a client's engine, made from the configuration in one place (levada.api.engine_setup)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from levada.client.metadata.metadata_source import MetadataSource
from levada.client.network.api_versions import BrokerVersions


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The settings of an Engine. Most fields are named after their options; times are in milliseconds."""

    bootstrap: Sequence[tuple[str, int]]
    source: MetadataSource
    client_id: str
    request_timeout_ms: int
    max_in_flight: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    metadata_max_idle_ms: int
    connection_setup_timeout_ms: int
    connection_setup_timeout_max_ms: int
    allow_auto_create_topics: bool
    rebootstrap: bool
    rebootstrap_trigger_ms: int
    bootstrap_wait: bool
    security_protocol: str
    proxy: str
    """The proxy of all connections, for error messages; "" for none."""
    fallback: BrokerVersions | None
    """The API versions of broker.version.fallback; None where each broker is asked."""
