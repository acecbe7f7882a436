"""Keys of the share consumer. Keys that have the same meaning for KafkaConsumer are copied from ConsumerConfig."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from levada.config import other_clients as foreign
from levada.config.client import COMMON_NOT_YET, ClientConfig
from levada.config.consumer import ConsumerConfig
from levada.config.option import choice, integer, milliseconds, text
from levada.errors import ConfigError

_BROKERS_DECIDE = "it is a setting of the group, {}, which kafka-configs.sh changes"
_NO_OFFSETS = "a share group has no committed offsets; records are acknowledged, see share.acknowledgement.mode"


def _as_consumer(name: str) -> Any:
    """Declare a key in the same way as ConsumerConfig does."""
    return ConsumerConfig.OPTIONS[name]


class ShareConsumerConfig(ClientConfig):
    """Settings of KafkaShareConsumer."""

    WHO: ClassVar[str] = "a share consumer"
    NOT_YET: ClassVar[Mapping[str, str]] = {name: reason for name, reason in COMMON_NOT_YET.items() if name != "interceptor.classes"}
    FOREIGN: ClassVar[Mapping[str, str]] = {**ClientConfig.FOREIGN, **foreign.CONSUMER}
    REFUSED: ClassVar[Mapping[str, str]] = {
        "auto.offset.reset": _BROKERS_DECIDE.format("share.auto.offset.reset"),
        "isolation.level": _BROKERS_DECIDE.format("share.isolation.level"),
        "session.timeout.ms": _BROKERS_DECIDE.format("share.session.timeout.ms"),
        "heartbeat.interval.ms": _BROKERS_DECIDE.format("share.heartbeat.interval.ms"),
        "enable.auto.commit": _NO_OFFSETS,
        "auto.commit.interval.ms": _NO_OFFSETS,
        "group.instance.id": "members of share groups are never static",
        "group.protocol": "share groups have only one protocol",
        "group.remote.assignor": "the brokers have only one assignor for share groups",
        "partition.assignment.strategy": "the brokers assign the partitions, and may assign a partition to several members",
        "interceptor.classes": "share consumers have no interceptors, like in Java",
        "interceptors": "share consumers have no interceptors, like in Java",
        "stop.at.end": "a member of a share group cannot know when the group has read all records",
        "max.partition.fetch.bytes": "brokers limit a share fetch by max.poll.records and fetch.max.bytes",
        "fetch.buffer.bytes": "the consumer fetches again only after poll() has returned all fetched records; see max.poll.records",
        "exclude.internal.topics": "topics are subscribed to by name",
    }

    key_deserializer: Callable[..., Any] | None = _as_consumer("key.deserializer")
    value_deserializer: Callable[..., Any] | None = _as_consumer("value.deserializer")
    on_decode_error: str = choice(
        "raise",
        ("raise", "skip", "null"),
        "Reaction to a record whose key or value cannot be deserialized. raise: raise an error with its bytes, and release the record "
        "unless the program acknowledges it otherwise. skip: skip it with a warning, and reject it. null: return it with None in place of "
        "the key or value. For poll_arrow() it applies to text columns. Not a Kafka setting.",
        advice="for a dead-letter topic: take null, send what has a decode_error there, and acknowledge it as rejected",
    )
    group_id: str | None = text(None, "Share group that the consumer joins with subscribe().")
    share_acknowledgement_mode: str = choice(
        "implicit",
        ("implicit", "explicit"),
        "implicit: the next poll, commit() and close() accept all records that were returned. explicit: the program calls acknowledge() "
        "for every record before the next poll.",
    )
    share_acquire_mode: str = choice(
        "batch_optimized",
        ("batch_optimized", "record_limit"),
        "Meaning of max.poll.records. batch_optimized: brokers acquire whole record batches, so a fetch may acquire more records. "
        "record_limit: brokers never acquire more for this consumer, and it fetches from one broker after the other (KIP-1206, Kafka 4.2).",
    )
    max_poll_interval_ms: int = milliseconds(
        300_000, "A member that does not poll for this long leaves its group, and joins again with its next poll.", low=1
    )
    max_poll_records: int = integer(
        500, "Maximum number of records that one poll() returns, and roughly the number that brokers acquire per fetch.", low=1
    )
    consumer_timeout_ms: int = _as_consumer("consumer.timeout.ms")
    fetch_min_bytes: int = _as_consumer("fetch.min.bytes")
    fetch_max_bytes: int = _as_consumer("fetch.max.bytes")
    fetch_max_wait_ms: int = _as_consumer("fetch.max.wait.ms")
    check_crcs: bool = _as_consumer("check.crcs")
    max_decompressed_bytes: int = _as_consumer("max.decompressed.bytes")
    client_rack: str = text("", "Rack of this client, for the brokers' assignor.")
    allow_auto_create_topics: bool = _as_consumer("allow.auto.create.topics")

    def _check(self) -> None:
        super()._check()
        if self.group_id is None or not self.group_id.strip():
            raise ConfigError("'group.id' is required: it names the share group")
