"""Keys of the consumer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from levada.config import foreign
from levada.config.client import COMMON_NOT_YET, ClientConfig
from levada.config.option import boolean, choice, function, integer, milliseconds, size_bytes, text
from levada.errors import ConfigError


class ConsumerConfig(ClientConfig):
    """Settings of KafkaConsumer."""

    WHO: ClassVar[str] = "a consumer"
    ADVICE_ON_TEXT: ClassVar[str] = "; a topic is read after consumer.assign(consumer.partitions_for(topic))"
    NOT_YET: ClassVar[Mapping[str, str]] = {
        **COMMON_NOT_YET,
        **dict.fromkeys(
            (
                "group.instance.id",
                "group.protocol",
                "group.remote.assignor",
                "session.timeout.ms",
                "heartbeat.interval.ms",
                "max.poll.interval.ms",
                "partition.assignment.strategy",
            ),
            foreign.GROUPS,
        ),
    }
    FOREIGN: ClassVar[Mapping[str, str]] = {**ClientConfig.FOREIGN, **foreign.CONSUMER}

    key_deserializer: Callable[..., Any] | None = function(
        "Turns a key's bytes into an object; without one, keys are bytes or None.", "Callable[[bytes], K]"
    )
    value_deserializer: Callable[..., Any] | None = function(
        "Turns a value's bytes into an object; without one, values are bytes or None.", "Callable[[bytes], V]"
    )
    group_id: str | None = text(
        None,
        "Group for which offsets are committed. Assigned partitions without a position begin at what it has committed. The consumer is no "
        "member of it: what it reads is for assign() to say.",
    )
    enable_auto_commit: bool = boolean(
        True,
        "Whether positions are committed by calls for records, every auto.commit.interval.ms, and at close(). Never more than was handed "
        "out by earlier calls. Without a group.id it is off.",
        aliases=("auto.commit.enable",),
    )
    auto_commit_interval_ms: int = milliseconds(5_000, "Time between automatic commits.")
    auto_offset_reset: str = choice(
        "latest",
        ("latest", "earliest", "none"),
        "Where to begin without a position and without a committed offset, or when the position is out of range or of a deleted topic; "
        "none raises.",
        advice="to begin at a time, look its offsets up with offsets_for_times() and seek() there",
        other_words={"smallest": "earliest", "beginning": "earliest", "largest": "latest", "end": "latest", "error": "none"},
    )
    max_poll_records: int = integer(500, "Records one poll() returns at most.", low=1)
    fetch_min_bytes: int = size_bytes(1, "The broker answers a fetch once it has this much, or fetch.max.wait.ms has passed.")
    fetch_max_bytes: int = size_bytes(52_428_800, "Soft limit of one fetch response; the first batch always passes.")
    fetch_max_wait_ms: int = milliseconds(500, "How long the broker may wait for fetch.min.bytes.", aliases=("fetch.wait.max.ms",))
    max_partition_fetch_bytes: int = size_bytes(
        1_048_576, "Soft limit of one partition's share of a fetch response.", aliases=("fetch.message.max.bytes",)
    )
    fetch_buffer_bytes: int = size_bytes(
        64 << 20,
        "Fetched data, of paused partitions too, that may be held before nothing more is fetched but what is needed to go on. A response "
        "that is on its way then still comes in. Not a Kafka setting; librdkafka's is queued.max.messages.kbytes.",
    )
    isolation_level: str = choice(
        "read_uncommitted", ("read_uncommitted", "read_committed"), "Whether records of open and aborted transactions are seen."
    )
    check_crcs: bool = boolean(True, "Verify each batch's checksum before it is read.")
    max_decompressed_bytes: int = size_bytes(
        64 << 20, "Largest size one batch may decompress to. Not a Kafka setting: it bounds the harm of a hostile batch.", low=1024
    )
    client_rack: str = text("", "Rack of this client; brokers may point to a replica in the same one (KIP-392).")
    allow_auto_create_topics: bool = boolean(True, "Whether asking for an unknown topic may create it, where the broker allows that.")

    def _check(self) -> None:
        super()._check()
        if self.group_id is None:
            if self.enable_auto_commit and "enable.auto.commit" in self.given:
                raise ConfigError(f"{self._named('enable.auto.commit')} commits offsets for a group; give a group.id, or leave it out")
            self._settle("enable_auto_commit", False)
        elif not self.group_id.strip():
            raise ConfigError("'group.id' must not be empty; leave it out to read without a group")
