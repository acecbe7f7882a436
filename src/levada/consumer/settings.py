"""The settings of a consumer's core, made from the configuration in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from levada.consumer.fetch.decode import Deserializer
from levada.consumer.fetch.fetch_cursor import ReadOptions
from levada.consumer.fetch.fetch_request import MOST_PARTITION_BYTES, FetchSettings
from levada.consumer.group.assignors import assignors_of
from levada.consumer.group.requests import GroupSettings
from levada.dead_letter import DeadLetter
from levada.types import AnyRecord, IsolationLevel


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """The settings of a ConsumerCore. Most fields have the names of options; times are in milliseconds."""

    fetch: FetchSettings
    read: ReadOptions
    auto_offset_reset: str
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    on_decode_error: str | DeadLetter
    keeps: Callable[[AnyRecord], bool] | None
    """Which records are returned; None for all."""
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    default_api_timeout_ms: int
    allow_auto_create_topics: bool
    group: GroupSettings | None
    """None without a group.id."""
    auto_commit_interval_ms: int | None
    """None without auto-commit."""
    notes_committed: bool
    """Whether commits are reported, to an interceptor."""

    @classmethod
    def of(cls, config: Any, keeps: Callable[[AnyRecord], bool] | None = None) -> ConsumerSettings:
        """Read the settings from a ConsumerConfig, or an object with the same attributes. keeps: selects the records to return; None
        returns all.
        """
        isolation_level = IsolationLevel[config.isolation_level.upper()]
        return cls(
            fetch=FetchSettings(
                min_bytes=config.fetch_min_bytes,
                max_bytes=config.fetch_max_bytes,
                max_wait_ms=config.fetch_max_wait_ms,
                max_partition_bytes=config.max_partition_fetch_bytes,
                most_partition_bytes=_most_partition_bytes(config),
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
            on_decode_error=config.on_decode_error,
            keeps=keeps,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            default_api_timeout_ms=config.default_api_timeout_ms,
            allow_auto_create_topics=config.allow_auto_create_topics,
            group=None if config.group_id is None else _group_settings(config),
            auto_commit_interval_ms=config.auto_commit_interval_ms if config.enable_auto_commit else None,
            notes_committed=bool(config.interceptors),
        )


def _most_partition_bytes(config: Any) -> int:
    is_set = "max.partition.fetch.bytes" in config.given
    return int(config.max_partition_fetch_bytes) if is_set else MOST_PARTITION_BYTES


def _group_settings(config: Any) -> GroupSettings:
    return GroupSettings(
        group_id=config.group_id,
        group_instance_id=config.group_instance_id,
        group_protocol=config.group_protocol,
        group_remote_assignor=config.group_remote_assignor,
        assignors=assignors_of(config.partition_assignment_strategy),
        session_timeout_ms=config.session_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        max_poll_interval_ms=config.max_poll_interval_ms,
        request_timeout_ms=config.request_timeout_ms,
        exclude_internal_topics=config.exclude_internal_topics,
        client_rack=config.client_rack,
    )
