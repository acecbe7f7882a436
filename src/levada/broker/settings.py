"""What a broker can be told: Kafka's broker settings in snake_case, with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from levada.errors import ConfigError
from levada.suggestion import did_you_mean

MAX_INT64 = (1 << 63) - 1

_AT_LEAST_ONE = (
    "num_partitions",
    "default_replication_factor",
    "min_insync_replicas",
    "log_segment_bytes",
    "max_connections",
    "offsets_topic_num_partitions",
    "share_coordinator_state_topic_num_partitions",
    "transaction_state_log_num_partitions",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """One attribute per Kafka broker setting; `log_` settings are the defaults of the topic settings without that prefix.

    transaction_version is a feature of a cluster in Kafka (KIP-890). Below 2 transactions are served as by Kafka 3.9, which has level 0.
    """

    num_partitions: int = 1
    default_replication_factor: int = 1
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
    min_insync_replicas: int = 1
    replica_lag_time_max_ms: int = 30_000
    unclean_leader_election_enable: bool = False
    message_max_bytes: int = 1_048_588
    log_segment_bytes: int = 1_073_741_824
    log_retention_ms: int = 604_800_000
    log_retention_bytes: int = -1
    log_retention_check_interval_ms: int = 300_000
    log_cleanup_policy: str = "delete"
    log_message_timestamp_type: str = "CreateTime"
    log_message_timestamp_before_max_ms: int = MAX_INT64
    log_message_timestamp_after_max_ms: int = 3_600_000
    fetch_max_bytes: int = 57_671_680
    max_incremental_fetch_session_cache_slots: int = 1000
    producer_id_expiration_ms: int = 86_400_000
    offsets_topic_num_partitions: int = 50
    share_coordinator_state_topic_num_partitions: int = 50
    transaction_state_log_num_partitions: int = 50
    transaction_max_timeout_ms: int = 900_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_version: int = 2
    offset_metadata_max_bytes: int = 4096
    socket_request_max_bytes: int = 104_857_600
    connections_max_idle_ms: int = 600_000
    max_connections: int = 2**31 - 1

    @classmethod
    def of(cls, **settings: Any) -> BrokerSettings:
        """Build from keyword arguments; ConfigError names an unknown one and the nearest known one."""
        known = [field.name for field in fields(cls)]
        for name in settings:
            if name not in known:
                raise ConfigError(f"unknown broker setting '{name}'{did_you_mean(name, known)}")
        return cls(**settings)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not type(field.default):
                wanted = type(field.default).__name__
                raise ConfigError(f"broker setting '{field.name}' must be of type {wanted}, not {type(value).__name__} ({value!r})")
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise ConfigError(f"broker setting '{name}' must be at least 1, not {getattr(self, name)}")
        if self.transaction_version not in (0, 1, 2):
            raise ConfigError(f"broker setting 'transaction_version' must be 0, 1 or 2, not {self.transaction_version}")
