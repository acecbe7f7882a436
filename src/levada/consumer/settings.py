"""The settings of a consumer's core, made from a configuration in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from levada.consumer.decode import Deserializer
from levada.consumer.fetch_cursor import ReadOptions
from levada.consumer.fetch_request import FetchSettings
from levada.types import IsolationLevel


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """What a ConsumerCore is made with; fields are named as the options they come from, times are in milliseconds."""

    fetch: FetchSettings
    read: ReadOptions
    auto_offset_reset: str
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    default_api_timeout_ms: int
    allow_auto_create_topics: bool
    group_id: str | None
    auto_commit_interval_ms: int | None
    """None: nothing is committed automatically."""

    @classmethod
    def of(cls, config: Any) -> ConsumerSettings:
        """Read the settings from a ConsumerConfig, or from anything with its attributes."""
        isolation_level = IsolationLevel[config.isolation_level.upper()]
        return cls(
            fetch=FetchSettings(
                min_bytes=config.fetch_min_bytes,
                max_bytes=config.fetch_max_bytes,
                max_wait_ms=config.fetch_max_wait_ms,
                max_partition_bytes=config.max_partition_fetch_bytes,
                isolation_level=isolation_level,
                rack=config.client_rack,
                replica_lease_ms=config.metadata_max_age_ms,
                buffer_bytes=config.fetch_buffer_bytes,
                request_timeout_ms=config.request_timeout_ms,
            ),
            read=ReadOptions(isolation_level, config.check_crcs, config.max_decompressed_bytes),
            auto_offset_reset=config.auto_offset_reset,
            key_deserializer=config.key_deserializer,
            value_deserializer=config.value_deserializer,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            default_api_timeout_ms=config.default_api_timeout_ms,
            allow_auto_create_topics=config.allow_auto_create_topics,
            group_id=config.group_id,
            auto_commit_interval_ms=config.auto_commit_interval_ms if config.enable_auto_commit else None,
        )
