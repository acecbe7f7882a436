"""Kafka's broker settings in snake_case, with Kafka's defaults.

The attributes are those settings that have effect here or are defaults of topic settings. Kafka's other settings are only stored and
described (kafka_settings.py, broker_config.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from levada.base.text import did_you_mean
from levada.broker.config.checks import MAX_INT64
from levada.broker.config.kafka_settings import kafka_settings
from levada.errors import ConfigError
from levada.types import setting_text

SECRETS = frozenset({"delegation_token_secret_key"})
"""Settings whose values are never shown."""
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_AT_LEAST_ONE = (
    "num_partitions",
    "default_replication_factor",
    "min_insync_replicas",
    "log_segment_bytes",
    "max_connections",
    "connections_max_login_ms",
    "sasl_server_max_receive_size",
    "socket_request_max_bytes",
    "offsets_topic_num_partitions",
    "share_coordinator_state_topic_num_partitions",
    "transaction_state_log_num_partitions",
    "telemetry_max_bytes",
    "group_share_delivery_count_limit",
    "group_share_min_record_lock_duration_ms",
    "group_share_partition_max_record_locks",
    "group_share_max_size",
    "group_share_max_share_sessions",
    "delegation_token_max_lifetime_ms",
    "delegation_token_expiry_time_ms",
    "delegation_token_expiry_check_interval_ms",
    "quota_window_num",
    "quota_window_size_seconds",
    "controller_quota_window_num",
    "controller_quota_window_size_seconds",
)


HOW_IT_IS_STARTED = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "broker.rack",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "node.id",
        "process.roles",
        "sasl.enabled.mechanisms",
    }
)
"""Settings whose values follow from how a broker is started. BrokerSettings.of() refuses them."""

_IN_OTHER_UNITS = {
    "log_retention_hours": ("log_retention_ms", 3_600_000),
    "log_retention_minutes": ("log_retention_ms", 60_000),
    "log_roll_hours": ("log_roll_ms", 3_600_000),
    "log_roll_jitter_hours": ("log_roll_jitter_ms", 3_600_000),
}
"""Settings in other units, which count unless the one in milliseconds is given. Of two for the same setting, the one that is later in this
table counts.
"""


class Layers(NamedTuple):
    """The explicit values of a broker's settings, as text by Kafka's names, in three layers. Each layer overrides the next one (KIP-226).

    own: values changed for this broker. shared: values changed for all brokers. started: values with which this broker was started.
    """

    own: Mapping[str, str] = {}
    shared: Mapping[str, str] = {}
    started: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """One attribute per broker setting that is used here; most `log_` settings are the defaults of the topic settings without that prefix.

    group_initial_rebalance_delay_ms is 0, not Kafka's 3,000, so that tests need not wait.

    transaction_version, group_version and share_version are features of the cluster in Kafka (KIP-890, KIP-848, KIP-932). With
    transaction_version 0 or 1, transactions behave as in Kafka 3.9. With group_version 0 there are no consumer groups of KIP-848, with
    share_version 0 no share groups. client_telemetry stands for a plugin in metric.reporters that receives client metrics (KIP-714).
    Without such a plugin Kafka does not offer the APIs for them.

    authorizer_class_name: with STANDARD_AUTHORIZER, ACLs decide what users may do. Without it, everybody may do everything. super_users,
    such as "User:admin;User:ops", may always do everything.

    connections_max_login_ms: time limit for the TLS handshake and the login of a connection; Kafka has only connections_max_idle_ms.
    queued_max_request_bytes: approximate memory limit for the unfinished requests of all connections, -1 for no limit as in Kafka.
    sasl_server_max_receive_size: the largest request before the login, in bytes.
    """

    num_partitions: int = 1
    default_replication_factor: int = 1
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
    min_insync_replicas: int = 1
    replica_lag_time_max_ms: int = 30_000
    replica_selector_class: str = ""
    unclean_leader_election_enable: bool = False
    message_max_bytes: int = 1_048_588
    log_segment_bytes: int = 1_073_741_824
    log_retention_ms: int = 604_800_000
    log_retention_bytes: int = -1
    log_retention_check_interval_ms: int = 300_000
    log_roll_ms: int = 604_800_000
    log_roll_jitter_ms: int = 0
    log_cleanup_policy: str = "delete"
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_delete_retention_ms: int = 86_400_000
    log_cleaner_min_cleanable_ratio: float = 0.5
    log_cleaner_min_compaction_lag_ms: int = 0
    log_cleaner_max_compaction_lag_ms: int = MAX_INT64
    log_message_timestamp_type: str = "CreateTime"
    log_message_timestamp_before_max_ms: int = MAX_INT64
    log_message_timestamp_after_max_ms: int = 3_600_000
    log_flush_interval_messages: int = MAX_INT64
    log_flush_interval_ms: int = MAX_INT64
    log_index_interval_bytes: int = 4096
    log_index_size_max_bytes: int = 10_485_760
    log_preallocate: bool = False
    log_segment_delete_delay_ms: int = 60_000
    log_local_retention_bytes: int = -2
    log_local_retention_ms: int = -2
    log_remote_copy_lag_bytes: int = -1
    log_remote_copy_lag_ms: int = 0
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    max_decompressed_message_bytes: int = 2_147_483_639
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
    client_telemetry: bool = False
    telemetry_max_bytes: int = 1_048_576
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    group_initial_rebalance_delay_ms: int = 0
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    group_version: int = 1
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_max_size: int = 2**31 - 1
    share_version: int = 2
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_session_timeout_ms: int = 45_000
    group_share_max_size: int = 200
    group_share_delivery_count_limit: int = 5
    group_share_record_lock_duration_ms: int = 30_000
    group_share_min_record_lock_duration_ms: int = 15_000
    group_share_partition_max_record_locks: int = 2_000
    group_share_max_share_sessions: int = 2_000
    quota_window_num: int = 11
    quota_window_size_seconds: int = 1
    controller_quota_window_num: int = 11
    controller_quota_window_size_seconds: int = 1
    delegation_token_secret_key: str = field(default="", repr=False)
    delegation_token_max_lifetime_ms: int = 604_800_000
    delegation_token_expiry_time_ms: int = 86_400_000
    delegation_token_expiry_check_interval_ms: int = 3_600_000
    socket_request_max_bytes: int = 104_857_600
    sasl_server_max_receive_size: int = 524_288
    queued_max_request_bytes: int = 268_435_456
    connections_max_login_ms: int = 30_000
    connections_max_idle_ms: int = 600_000
    connections_max_reauth_ms: int = 0
    max_connections: int = 1_000
    authorizer_class_name: str = ""
    super_users: str = ""
    allow_everyone_if_no_acl_found: bool = False
    layers: Layers = field(default=Layers(), repr=False, compare=False)

    @classmethod
    def of(cls, **settings: Any) -> BrokerSettings:
        """Make settings from keyword arguments: the attributes of this class, and all other settings of Kafka in snake_case.

        Raises ConfigError for an unknown setting (with the most similar name), an invalid value, or a setting that follows from how the
        broker is started.
        """
        attributes = {name: value for name, value in settings.items() if name in ATTRIBUTES}
        for name, (attribute, unit) in _IN_OTHER_UNITS.items():
            if name in settings and attribute not in settings:
                value = int(_checked(name, settings[name]))
                attributes[attribute] = value * unit if value >= 0 else -1
        started = {dotted(name): setting_text(v) if name in ATTRIBUTES else _checked(name, v) for name, v in settings.items()}
        return cls(**attributes, layers=Layers(started=started))

    def altered(self, own: Mapping[str, str], shared: Mapping[str, str]) -> BrokerSettings:
        """Return these settings with dynamic changes applied. own: the changes for this broker. shared: the changes for all brokers. Raises
        ConfigError for invalid values.
        """
        changed = {name.replace(".", "_"): text for name, text in {**shared, **own}.items()}
        values: dict[str, Any] = {name: _typed(text, ATTRIBUTES[name]) for name, text in changed.items() if name in ATTRIBUTES}
        if values.get("log_retention_ms", 0) < 0:
            # Any negative number means no limit. Topics get the usual -1.
            values["log_retention_ms"] = -1
        return replace(self, **values, layers=self.layers._replace(own=own, shared=shared))

    def beside(self, started: Mapping[str, str]) -> BrokerSettings:
        """Return these settings with additional values, which only DescribeConfigs shows. started: the values as text, by Kafka's names."""
        return replace(self, layers=self.layers._replace(started={**self.layers.started, **started}))

    def text(self, name: str) -> str:
        """Return the effective value of a setting as text, "" if it has no value. name: Kafka's name in snake_case."""
        if name in ATTRIBUTES:
            return setting_text(getattr(self, name))
        known = dotted(name)
        return next((layer[known] for layer in self.layers if known in layer), kafka_settings()[known].default or "")

    def __post_init__(self) -> None:
        for setting in fields(self):
            if setting.name not in ATTRIBUTES:
                continue
            value = getattr(self, setting.name)
            if type(value) is not type(setting.default):
                wanted, shown = type(setting.default).__name__, "" if setting.name in SECRETS else f" ({value!r})"
                raise ConfigError(f"broker setting '{setting.name}' must be of type {wanted}, not {type(value).__name__}{shown}")
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise ConfigError(f"broker setting '{name}' must be at least 1, not {getattr(self, name)}")
        if self.group_share_record_lock_duration_ms < self.group_share_min_record_lock_duration_ms:
            raise ConfigError(
                "broker setting 'group_share_record_lock_duration_ms' must be at least"
                f" group_share_min_record_lock_duration_ms={self.group_share_min_record_lock_duration_ms},"
                f" not {self.group_share_record_lock_duration_ms}; set both for shorter locks"
            )
        if self.replica_selector_class not in ("", RACK_AWARE):
            raise ConfigError(
                f"broker setting 'replica_selector_class' must be '{RACK_AWARE}' or empty, not {self.replica_selector_class!r}"
            )
        if self.authorizer_class_name not in ("", STANDARD_AUTHORIZER):
            raise ConfigError(
                f"broker setting 'authorizer_class_name' must be '{STANDARD_AUTHORIZER}' or empty, not {self.authorizer_class_name!r}"
            )
        for principal in filter(None, self.super_users.split(";")):
            if ":" not in principal:
                raise ConfigError(f"broker setting 'super_users' must be names such as 'User:admin', separated by ';', not {principal!r}")
        if self.transaction_version not in (0, 1, 2):
            raise ConfigError(f"broker setting 'transaction_version' must be 0, 1 or 2, not {self.transaction_version}")
        if self.group_version not in (0, 1):
            raise ConfigError(f"broker setting 'group_version' must be 0 or 1, not {self.group_version}")
        if self.share_version not in (0, 1, 2):
            raise ConfigError(f"broker setting 'share_version' must be 0, 1 or 2, not {self.share_version}")


ATTRIBUTES: Mapping[str, Any] = {setting.name: setting.default for setting in fields(BrokerSettings) if setting.name != "layers"}
"""The settings that have an attribute, with their defaults."""


def dotted(name: str) -> str:
    """Convert a setting's name in snake_case to Kafka's name, which has dots."""
    return name.replace("_", ".")


def _checked(name: str, value: object) -> str:
    """Return the text of a setting that is not an attribute of BrokerSettings. Raises ConfigError if the value is invalid, if the setting
    is unknown, or if it follows from how the broker is started.
    """
    known = kafka_settings()
    if dotted(name) not in known:
        names = [*ATTRIBUTES, *(one.replace(".", "_") for one in known)]
        raise ConfigError(f"unknown broker setting '{name}'{did_you_mean(name, names)}")
    if dotted(name) in HOW_IT_IS_STARTED:
        raise ConfigError(f"broker setting '{name}' follows from how the broker is started, and cannot be given as a setting")
    text = setting_text(value)
    setting = known[dotted(name)]
    try:
        setting.check.parse(text)
    except ValueError as fault:
        raise ConfigError(f"broker setting '{name}' {fault}, not {text!r}") from None
    return text


def _typed(text: str, default: Any) -> Any:
    if isinstance(default, bool):
        return text.strip().lower() == "true"
    return type(default)(text)
