"""Keys of the share consumer. Those that mean the same for KafkaConsumer are declared there."""

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
    """Declare a key as KafkaConsumer has it."""
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
        "group.instance.id": "members of share groups are never static: nobody waits for one to come back",
        "group.protocol": "share groups have one protocol only",
        "group.remote.assignor": "the brokers have one assignor for share groups",
        "partition.assignment.strategy": "the brokers share out partitions, and several members may have the same one",
        "interceptor.classes": "share consumers have no interceptors, in Java neither",
        "interceptors": "share consumers have no interceptors, in Java neither",
        "stop.at.end": "what a share group reads has no end that one member could know",
        "max.partition.fetch.bytes": "brokers bound a share fetch by max.poll.records and fetch.max.bytes",
        "fetch.buffer.bytes": "no more is fetched before all of it was handed out; see max.poll.records",
        "exclude.internal.topics": "topics are subscribed to by name",
    }

    key_deserializer: Callable[..., Any] | None = _as_consumer("key.deserializer")
    value_deserializer: Callable[..., Any] | None = _as_consumer("value.deserializer")
    on_decode_error: str = choice(
        "raise",
        ("raise", "skip", "null"),
        "What is done about a record whose key or value does not deserialize: raise an error with its bytes, and release the record unless "
        "it is acknowledged otherwise; skip it with a warning, and reject it; or hand it out with null in place of what failed. In "
        "poll_arrow() it is about the columns given as text. Not a Kafka setting.",
        advice="a dead-letter topic: take null, send what has a decode_error there, and acknowledge it as rejected",
    )
    group_id: str | None = text(None, "Share group that subscribe() makes the consumer a member of.")
    share_acknowledgement_mode: str = choice(
        "implicit",
        ("implicit", "explicit"),
        "implicit: the next call for records, commit() and close() accept everything that was handed out. explicit: acknowledge() says "
        "of every record what became of it, before more are asked for.",
    )
    share_acquire_mode: str = choice(
        "batch_optimized",
        ("batch_optimized", "record_limit"),
        "What max.poll.records bounds. batch_optimized: brokers acquire whole record batches, so it may be more. record_limit: never more "
        "is locked for this consumer, and one broker is asked after the other (KIP-1206, Kafka 4.2).",
    )
    max_poll_interval_ms: int = milliseconds(
        300_000, "A member that does not ask for records for so long leaves its group, and joins again with its next call.", low=1
    )
    max_poll_records: int = integer(500, "Records one poll() returns at most, and about how many brokers acquire for one fetch.", low=1)
    consumer_timeout_ms: int = _as_consumer("consumer.timeout.ms")
    fetch_min_bytes: int = _as_consumer("fetch.min.bytes")
    fetch_max_bytes: int = _as_consumer("fetch.max.bytes")
    fetch_max_wait_ms: int = _as_consumer("fetch.max.wait.ms")
    check_crcs: bool = _as_consumer("check.crcs")
    max_decompressed_bytes: int = _as_consumer("max.decompressed.bytes")
    client_rack: str = text("", "Rack of this client, which the brokers' assignor is told.")
    allow_auto_create_topics: bool = _as_consumer("allow.auto.create.topics")

    def _check(self) -> None:
        super()._check()
        if self.group_id is None or not self.group_id.strip():
            raise ConfigError("'group.id' is required: it names the share group")
