"""Kafka's rule for topic names, and the settings of topics.

A setting with a broker counterpart takes its default from there. Settings of features that this broker lacks (replication throttles,
tiered storage) are accepted, checked and described, and have no effect. remote.storage.enable itself cannot be switched on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from levada.broker.config.checks import MAX_INT32, Check, Kind, boolean, gzip_level, integer, list_of, number, one_of
from levada.broker.config.resource_config import ResourceConfig, Setting
from levada.broker.config.settings import BrokerSettings
from levada.errors import InvalidTopicError
from levada.record.compression import Codec
from levada.types import is_topic_name


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicError with the reason if Kafka does not allow this topic name."""
    if not name:
        raise InvalidTopicError("the topic name is empty")
    if name in (".", ".."):
        raise InvalidTopicError(f"the topic name '{name}' is reserved")
    if len(name) > 249:
        raise InvalidTopicError(f"the topic name has {len(name)} characters, more than 249")
    if not is_topic_name(name):
        raise InvalidTopicError(f"the topic name '{name}' has a character other than a-z, A-Z, 0-9, '.', '_' and '-'")


COMPRESSION_TYPES = ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer")


class Compression(NamedTuple):
    """The codec to which the broker converts a topic's batches (compression.type). level: the compression level, None for codecs without
    levels.
    """

    codec: Codec
    level: int | None


def _no_tiered_storage() -> Check:
    def check(text: str) -> bool:
        if boolean().parse(text):
            raise ValueError("this broker has no tiered storage; in Kafka it needs remote.log.storage.system.enable=true")
        return False

    return Check(Kind.BOOLEAN, check)


TOPIC_SETTINGS: Mapping[str, Setting] = {
    "cleanup.policy": Setting(list_of("compact", "delete"), broker_setting="log_cleanup_policy"),
    "compression.gzip.level": Setting(gzip_level(), broker_setting="compression_gzip_level"),
    "compression.lz4.level": Setting(integer(1, 17), broker_setting="compression_lz4_level"),
    "compression.type": Setting(one_of(*COMPRESSION_TYPES), broker_setting="compression_type"),
    "compression.zstd.level": Setting(integer(-131_072, 22), broker_setting="compression_zstd_level"),
    "delete.retention.ms": Setting(integer(0), broker_setting="log_cleaner_delete_retention_ms"),
    "errors.deadletterqueue.group.enable": Setting(boolean(), "false"),
    "file.delete.delay.ms": Setting(integer(0), broker_setting="log_segment_delete_delay_ms"),
    "flush.messages": Setting(integer(1), broker_setting="log_flush_interval_messages"),
    "flush.ms": Setting(integer(0), broker_setting="log_flush_interval_ms"),
    "follower.replication.throttled.replicas": Setting(list_of()),
    "index.interval.bytes": Setting(integer(0, MAX_INT32), broker_setting="log_index_interval_bytes"),
    "leader.replication.throttled.replicas": Setting(list_of()),
    "local.retention.bytes": Setting(integer(-2), broker_setting="log_local_retention_bytes"),
    "local.retention.ms": Setting(integer(-2), broker_setting="log_local_retention_ms"),
    "max.compaction.lag.ms": Setting(integer(1), broker_setting="log_cleaner_max_compaction_lag_ms"),
    "max.decompressed.message.bytes": Setting(integer(1, 2_147_483_639), broker_setting="max_decompressed_message_bytes"),
    "max.message.bytes": Setting(integer(0, MAX_INT32), broker_setting="message_max_bytes"),
    "message.timestamp.after.max.ms": Setting(integer(0), broker_setting="log_message_timestamp_after_max_ms"),
    "message.timestamp.before.max.ms": Setting(integer(0), broker_setting="log_message_timestamp_before_max_ms"),
    "message.timestamp.type": Setting(one_of("CreateTime", "LogAppendTime"), broker_setting="log_message_timestamp_type"),
    "min.cleanable.dirty.ratio": Setting(number(0, 1), broker_setting="log_cleaner_min_cleanable_ratio"),
    "min.compaction.lag.ms": Setting(integer(0), broker_setting="log_cleaner_min_compaction_lag_ms"),
    "min.insync.replicas": Setting(integer(1, MAX_INT32), broker_setting="min_insync_replicas"),
    "preallocate": Setting(boolean(), broker_setting="log_preallocate"),
    "remote.copy.lag.bytes": Setting(integer(-1), broker_setting="log_remote_copy_lag_bytes"),
    "remote.copy.lag.ms": Setting(integer(-1), broker_setting="log_remote_copy_lag_ms"),
    "remote.log.copy.disable": Setting(boolean(), "false"),
    "remote.log.delete.on.disable": Setting(boolean(), "false"),
    "remote.storage.enable": Setting(_no_tiered_storage(), "false"),
    "retention.bytes": Setting(integer(-1), broker_setting="log_retention_bytes"),
    "retention.ms": Setting(integer(-1), broker_setting="log_retention_ms"),
    "segment.bytes": Setting(integer(14, MAX_INT32), broker_setting="log_segment_bytes"),
    "segment.index.bytes": Setting(integer(4, MAX_INT32), broker_setting="log_index_size_max_bytes"),
    "segment.jitter.ms": Setting(integer(0), broker_setting="log_roll_jitter_ms"),
    "segment.ms": Setting(integer(1), broker_setting="log_roll_ms"),
    "unclean.leader.election.enable": Setting(boolean(), broker_setting="unclean_leader_election_enable"),
}


class TopicConfig(ResourceConfig):
    """The settings of one topic. Settings without an override have a default that comes from the broker settings."""

    SETTINGS = TOPIC_SETTINGS
    WHAT = "topic"
    SOURCE = 1

    def __init__(self, settings: BrokerSettings, overrides: Mapping[str, str | None] | None = None) -> None:
        super().__init__(settings, overrides)
        self.max_message_bytes = self.integer("max.message.bytes")
        self.segment_bytes = self.integer("segment.bytes")
        self.retention_ms = self.integer("retention.ms")
        self.retention_bytes = self.integer("retention.bytes")
        self.min_insync_replicas = self.integer("min.insync.replicas")
        self.timestamp_before_max_ms = self.integer("message.timestamp.before.max.ms")
        self.timestamp_after_max_ms = self.integer("message.timestamp.after.max.ms")
        self.uses_append_time = self.text("message.timestamp.type") == "LogAppendTime"
        self.is_compacted = "compact" in self.text("cleanup.policy")
        self.deletes = "delete" in self.text("cleanup.policy")
        self.delete_retention_ms = self.integer("delete.retention.ms")
        self.min_compaction_lag_ms = self.integer("min.compaction.lag.ms")
        self.max_compaction_lag_ms = self.integer("max.compaction.lag.ms")
        self.min_cleanable_dirty_ratio = float(self.text("min.cleanable.dirty.ratio"))
        self.flush_messages = self.integer("flush.messages")
        self.index_interval_bytes = self.integer("index.interval.bytes")
        self.compression = self._compression()
        self.max_decompressed_bytes = self.integer("max.decompressed.message.bytes")
        self.may_elect_unclean = self.text("unclean.leader.election.enable").lower() == "true"

    @property
    def roll_ms(self) -> int:
        """The time after which a new segment begins, in ms. For a compacted topic it is at most max.compaction.lag.ms, because the active
        segment is not compacted.
        """
        segment_ms = self.integer("segment.ms")
        return min(segment_ms, self.max_compaction_lag_ms) if self.is_compacted else segment_ms

    def _compression(self) -> Compression | None:
        """Return the codec of compression.type; None if batches keep the codec of their producers."""
        name = self.text("compression.type")
        if name in ("producer", "uncompressed"):
            return None if name == "producer" else Compression(Codec.NONE, None)
        level = f"compression.{name}.level"
        return Compression(Codec.parse(name), self.integer(level) if level in self.SETTINGS else None)
