"""Keys of the consumer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from levada.config import other_clients as foreign
from levada.config.client import COMMON_NOT_YET, ClientConfig
from levada.config.option import (
    boolean,
    choice,
    function,
    integer,
    milliseconds,
    named_objects,
    objects,
    on_decode_error,
    reset_policy,
    size_bytes,
    text,
)
from levada.dead_letter import DeadLetter
from levada.errors import ConfigError
from levada.groups import PartitionAssignor
from levada.interceptors import ConsumerInterceptor
from levada.types import is_topic_name

_JAVA = "org.apache.kafka.clients.consumer."
ASSIGNORS: Mapping[str, str] = {
    "range": "range",
    f"{_JAVA}RangeAssignor": "range",
    "roundrobin": "roundrobin",
    f"{_JAVA}RoundRobinAssignor": "roundrobin",
    "sticky": "sticky",
    f"{_JAVA}StickyAssignor": "sticky",
    "cooperative-sticky": "cooperative-sticky",
    f"{_JAVA}CooperativeStickyAssignor": "cooperative-sticky",
}
"""The built-in assignors: their own names and the names of Java's classes, each with levada's name."""

BROKERS_DECIDE: Mapping[str, str] = {
    "session.timeout.ms": "it is the group's consumer.session.timeout.ms, which kafka-configs.sh changes",
    "heartbeat.interval.ms": "it is the group's consumer.heartbeat.interval.ms, which kafka-configs.sh changes",
    "partition.assignment.strategy": "the brokers share out partitions, as group.remote.assignor says",
}
"""Options of members of classic groups, each with the setting that replaces it with group.protocol=consumer (KIP-848)."""


class ConsumerConfig(ClientConfig):
    """Settings of KafkaConsumer."""

    WHO: ClassVar[str] = "a consumer"
    NOT_YET: ClassVar[Mapping[str, str]] = {
        **COMMON_NOT_YET,
        "interceptor.classes": "class names are never looked up; give objects as 'interceptors'",
    }
    FOREIGN: ClassVar[Mapping[str, str]] = {**ClientConfig.FOREIGN, **foreign.CONSUMER}

    key_deserializer: Callable[..., Any] | None = function(
        "Function that turns a key's bytes into an object. Without it, keys are bytes or None.", "Callable[[bytes], K]"
    )
    value_deserializer: Callable[..., Any] | None = function(
        "Function that turns a value's bytes into an object. Without it, values are bytes or None.", "Callable[[bytes], V]"
    )
    on_decode_error: str | DeadLetter = on_decode_error(
        "Reaction to a record whose key or value cannot be deserialized. raise: raise an error with its bytes, on every poll until seek() "
        "moves past the record. skip: skip it with a warning. null: return it with None in place of the key or value. DeadLetter: write it "
        "to a dead-letter topic, and continue once that is acknowledged. For poll_arrow() it applies to text columns. Not a Kafka setting."
    )
    interceptors: tuple[ConsumerInterceptor, ...] = objects(
        "Objects that see the records of each poll() before the program, and the committed offsets; called in this order (KIP-42). "
        "poll_arrow() raises an error if an interceptor has no on_consume_arrow(), because that interceptor would not see the records.",
        ConsumerInterceptor,
    )
    group_id: str | None = text(
        None,
        "Group that the consumer joins with subscribe(), and that it commits offsets for. A partition without a position begins at the "
        "group's committed offset.",
    )
    group_instance_id: str | None = text(
        None,
        "Makes the consumer a static member of the group (KIP-345): it does not leave with close(), and a consumer with the same id that "
        "joins within session.timeout.ms gets the same partitions without a rebalance. Each member needs a different id.",
    )
    group_protocol: str = choice(
        "classic",
        ("classic", "consumer"),
        "Rebalance protocol of the group. consumer (KIP-848, since Kafka 4.0): the brokers assign partitions, and members give up only the "
        "partitions that move; session.timeout.ms, heartbeat.interval.ms and partition.assignment.strategy are then settings of the "
        "brokers. A group can change its protocol member by member.",
    )
    group_remote_assignor: str | None = text(
        None, "For group.protocol=consumer: the brokers' assignor, uniform or range. Default: the brokers choose, by default uniform."
    )
    partition_assignment_strategy: tuple[str | PartitionAssignor, ...] = named_objects(
        ("range", "cooperative-sticky"),
        "Assignors in order of preference. The group uses one that all members have. Rebalances are cooperative (KIP-429) only if all "
        "assignors in the list support that, so leave out range for cooperative rebalances. For assignors of your own see "
        "levada.PartitionAssignor.",
        ASSIGNORS,
        PartitionAssignor,
    )
    session_timeout_ms: int = milliseconds(
        45_000,
        "The coordinator removes a member from which it received no heartbeat for this long. Brokers set its minimum and maximum.",
        low=1,
    )
    heartbeat_interval_ms: int = milliseconds(3_000, "Time between heartbeats to the coordinator. Must be below session.timeout.ms.", low=1)
    max_poll_interval_ms: int = milliseconds(
        300_000,
        "A member that does not poll for this long leaves its group, and joins again with its next poll. It also limits how long the "
        "other members wait for this one in a rebalance.",
        low=1,
    )
    exclude_internal_topics: bool = boolean(
        True, "Whether a subscription by pattern leaves out internal topics such as __consumer_offsets."
    )
    enable_auto_commit: bool = boolean(
        True,
        "Whether positions are committed: by poll(), every auto.commit.interval.ms, before partitions are given up, and by close(). Only "
        "records that earlier polls returned count as read. Off without a group.id.",
        aliases=("auto.commit.enable",),
    )
    auto_commit_interval_ms: int = milliseconds(5_000, "Time between automatic commits.")
    auto_offset_reset: str = reset_policy(
        "latest",
        "Where to begin if there is no committed offset, or if the position is out of range or belongs to a deleted topic. "
        "by_duration:PT6H, or another ISO 8601 duration, begins at the first record of the last six hours, or at the end if there is none "
        "(KIP-1106). none raises an error.",
        other_words={"smallest": "earliest", "beginning": "earliest", "largest": "latest", "end": "latest", "error": "none"},
    )
    stop_at_end: bool = boolean(
        False,
        "Whether a loop over the consumer ends once it has read all partitions to their end offsets at the start of the loop. Not a Kafka "
        "setting.",
    )
    consumer_timeout_ms: int = milliseconds(
        -1,
        "A loop over the consumer ends if no record came for this long; -1: never. kafka-python has this setting, Java's consumer has not.",
        low=-1,
    )
    max_poll_records: int = integer(500, "Maximum number of records that one poll() returns.", low=1)
    fetch_min_bytes: int = size_bytes(1, "The broker answers a fetch once it has this much data, or after fetch.max.wait.ms.")
    fetch_max_bytes: int = size_bytes(52_428_800, "Soft limit of one fetch response. The first batch is returned even if it is larger.")
    fetch_max_wait_ms: int = milliseconds(500, "How long the broker waits for fetch.min.bytes.", aliases=("fetch.wait.max.ms",))
    max_partition_fetch_bytes: int = size_bytes(
        1_048_576,
        "Soft limit of one partition's data in a fetch response. If it is not set, up to 4 MiB are requested of a partition while its "
        "responses exceed half of the default, responses are quick, and fetch.buffer.bytes has room for two of each partition.",
        aliases=("fetch.message.max.bytes",),
    )
    fetch_buffer_bytes: int = size_bytes(
        64 << 20,
        "Limit of fetched data that the program has not read yet, including that of paused partitions. Above it the consumer fetches only "
        "what the next poll() needs. Fetches in flight may exceed the limit. Not a Kafka setting; librdkafka has "
        "queued.max.messages.kbytes.",
    )
    isolation_level: str = choice(
        "read_uncommitted", ("read_uncommitted", "read_committed"), "read_committed hides the records of open and aborted transactions."
    )
    check_crcs: bool = boolean(True, "Verify the checksum of each record batch.")
    max_decompressed_bytes: int = size_bytes(
        64 << 20, "Largest decompressed size of a record batch. Not a Kafka setting; it protects against malicious batches.", low=1024
    )
    client_rack: str = text("", "Rack of this client. Brokers may let it fetch from a replica in the same rack (KIP-392).")
    allow_auto_create_topics: bool = boolean(True, "Whether a metadata request may create an unknown topic, if the broker allows that.")

    def check_may_subscribe(self, topics: Sequence[str]) -> None:
        """Raise ConfigError if topics are given, but no group. topics: those that are given to the consumer's constructor."""
        if topics and self.group_id is None:
            raise ConfigError(
                f"a group shares the topics that are given to a consumer: give a group.id; or, to read without one, leave them out and "
                f"call consumer.assign(consumer.partitions_for({topics[0]!r}))"
            )

    def _check(self) -> None:
        super()._check()
        self._check_protocol()
        self._check_membership()
        if self.group_id is None:
            if self.enable_auto_commit and "enable.auto.commit" in self.given:
                raise ConfigError(f"{self._named('enable.auto.commit')} commits offsets for a group; give a group.id, or leave it out")
            self._settle("enable_auto_commit", False)
        elif not self.group_id.strip():
            raise ConfigError("'group.id' must not be empty; leave it out to read without a group")

    def _check_protocol(self) -> None:
        if self.group_protocol == "classic":
            if self.group_remote_assignor is not None:
                raise ConfigError(
                    f"{self._named('group.remote.assignor')} goes with group.protocol=consumer; set that, or name the group's assignors in "
                    "partition.assignment.strategy"
                )
            return
        for name, instead in BROKERS_DECIDE.items():
            if name in self.given:
                raise ConfigError(f"{self._named(name)} does not go with group.protocol=consumer: {instead}; leave it out")

    def _check_membership(self) -> None:
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"{self._named('heartbeat.interval.ms')} must be below session.timeout.ms ({self.session_timeout_ms}), usually a third of "
                f"it; got {self.heartbeat_interval_ms}"
            )
        if self.group_instance_id is None:
            return
        if self.group_id is None:
            raise ConfigError(f"{self._named('group.instance.id')} names a member of a group; give a group.id, or leave it out")
        if not is_topic_name(self.group_instance_id):
            raise ConfigError(
                f"{self._named('group.instance.id')}: must be 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', but not '.' or '..'; "
                f"got {self.group_instance_id!r}"
            )
