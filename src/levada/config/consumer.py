"""Keys of the consumer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
"""The assignors that have names, by theirs and by Java's classes."""

BROKERS_DECIDE: Mapping[str, str] = {
    "session.timeout.ms": "it is the group's consumer.session.timeout.ms, which kafka-configs.sh changes",
    "heartbeat.interval.ms": "it is the group's consumer.heartbeat.interval.ms, which kafka-configs.sh changes",
    "partition.assignment.strategy": "the brokers share out partitions, as group.remote.assignor says",
}
"""Options of members of classic groups, and whose they are where the brokers share out partitions (KIP-848)."""


class ConsumerConfig(ClientConfig):
    """Settings of KafkaConsumer."""

    WHO: ClassVar[str] = "a consumer"
    ADVICE_ON_TEXT: ClassVar[str] = (
        "; a topic is read after consumer.subscribe([topic]), or consumer.assign(consumer.partitions_for(topic)) without a group"
    )
    NOT_YET: ClassVar[Mapping[str, str]] = {
        **COMMON_NOT_YET,
        "interceptor.classes": "class names are never looked up; give objects as 'interceptors'",
    }
    FOREIGN: ClassVar[Mapping[str, str]] = {**ClientConfig.FOREIGN, **foreign.CONSUMER}

    key_deserializer: Callable[..., Any] | None = function(
        "Turns a key's bytes into an object; without one, keys are bytes or None.", "Callable[[bytes], K]"
    )
    value_deserializer: Callable[..., Any] | None = function(
        "Turns a value's bytes into an object; without one, values are bytes or None.", "Callable[[bytes], V]"
    )
    on_decode_error: str | DeadLetter = on_decode_error(
        "What is done about a record whose key or value does not deserialize: raise an error with its bytes, again until seek() moves "
        "past it; skip it with a warning; hand it out with null in place of what failed; or write it to a dead-letter topic, and go on "
        "once that is acknowledged. In poll_arrow() it is about the columns given as text. Not a Kafka setting."
    )
    interceptors: tuple[ConsumerInterceptor, ...] = objects(
        "Objects that see the records of each poll() before the program does, and what was committed, in this order. "
        "poll_arrow() is refused with one that has no on_consume_arrow(), since it would not see the rows.",
        ConsumerInterceptor,
    )
    group_id: str | None = text(
        None,
        "Group that subscribe() makes the consumer a member of, and for which offsets are committed. Assigned partitions without a "
        "position begin at what it has committed.",
    )
    group_instance_id: str | None = text(
        None,
        "Makes a member of the group static (KIP-345): it does not leave with close(), and a consumer with the same id that comes back "
        "within session.timeout.ms gets its partitions again without a rebalance. Each member needs one of its own.",
    )
    group_protocol: str = choice(
        "classic",
        ("classic", "consumer"),
        "How a group comes to its assignment. consumer (KIP-848, Kafka since 4.0): the brokers share out partitions, and only those that "
        "move are given up; session.timeout.ms, heartbeat.interval.ms and partition.assignment.strategy are the brokers' settings then. "
        "A group goes from one to the other member by member.",
    )
    group_remote_assignor: str | None = text(
        None, "The brokers' assignor, with group.protocol=consumer: uniform or range; without it they choose, which is uniform by default."
    )
    partition_assignment_strategy: tuple[str | PartitionAssignor, ...] = named_objects(
        ("range", "cooperative-sticky"),
        "How a group shares out partitions, in order of preference; the members agree on one that all of them have. The group is "
        "cooperative (KIP-429) where every one supports that, so leave out range to be so. Objects: see levada.PartitionAssignor.",
        ASSIGNORS,
        PartitionAssignor,
    )
    session_timeout_ms: int = milliseconds(
        45_000, "A member of which the group's coordinator hears nothing for so long is taken for dead; brokers bound it.", low=1
    )
    heartbeat_interval_ms: int = milliseconds(3_000, "Time between heartbeats to the coordinator; below session.timeout.ms.", low=1)
    max_poll_interval_ms: int = milliseconds(
        300_000,
        "A member that does not ask for records for so long leaves its group, and joins again with its next call. It also bounds how long "
        "the others wait for it in a rebalance.",
        low=1,
    )
    exclude_internal_topics: bool = boolean(True, "Whether a subscription by pattern leaves out topics such as __consumer_offsets.")
    enable_auto_commit: bool = boolean(
        True,
        "Whether positions are committed by calls for records, every auto.commit.interval.ms, and at close(). Never more than was handed "
        "out by earlier calls. Without a group.id it is off.",
        aliases=("auto.commit.enable",),
    )
    auto_commit_interval_ms: int = milliseconds(5_000, "Time between automatic commits.")
    auto_offset_reset: str = reset_policy(
        "latest",
        "Where to begin without a position and without a committed offset, or when the position is out of range or of a deleted topic. "
        "by_duration: and an ISO 8601 duration, as by_duration:PT6H: at the first record of the last six hours, at the end without one "
        "(KIP-1106). none raises.",
        other_words={"smallest": "earliest", "beginning": "earliest", "largest": "latest", "end": "latest", "error": "none"},
    )
    stop_at_end: bool = boolean(
        False,
        "Whether a loop over the consumer ends once all partitions are read to where they ended when it began. Not a Kafka setting.",
    )
    consumer_timeout_ms: int = milliseconds(
        -1,
        "A loop over the consumer ends when no record came for this long; -1: never. Java's consumer does not have it; the one before it "
        "had, and kafka-python has.",
        low=-1,
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
