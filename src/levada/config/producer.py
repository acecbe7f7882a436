"""Keys of the producer, and the rules between them (behaviour K21-K23)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from levada.config import other_clients as foreign
from levada.config.client import COMMON_NOT_YET, ClientConfig
from levada.config.option import INT32_MAX, INT64_MAX, boolean, choice, function, integer, milliseconds, objects, size_bytes, text, words
from levada.errors import ConfigError
from levada.interceptors import ProducerInterceptor
from levada.logs import Log

log = Log(__name__)

IDEMPOTENT_IN_FLIGHT_LIMIT = 5


class ProducerConfig(ClientConfig):
    """Settings of KafkaProducer."""

    WHO: ClassVar[str] = "a producer"
    NOT_YET: ClassVar[Mapping[str, str]] = {
        **COMMON_NOT_YET,
        "interceptor.classes": "class names are never looked up; give objects as 'interceptors'",
        "partitioner.class": "class names are never looked up; give a callable as 'partitioner'",
    }
    FOREIGN: ClassVar[Mapping[str, str]] = {**ClientConfig.FOREIGN, **foreign.PRODUCER}

    key_serializer: Callable[..., Any] | None = function(
        "Turns a key into bytes; without one, keys are bytes, str (as UTF-8) or None.", "Callable[[K_in], Sendable | None]"
    )
    value_serializer: Callable[..., Any] | None = function(
        "Turns a value into bytes; without one, values are bytes, str (as UTF-8) or None.", "Callable[[V_in], Sendable | None]"
    )
    interceptors: tuple[ProducerInterceptor, ...] = objects(
        "Objects that see each record before it is serialized and its outcome afterwards (KIP-42): see levada.ProducerInterceptor. "
        "send_arrow() is refused with one that has no on_send_arrow(), since it would not see the rows.",
        ProducerInterceptor,
    )
    partitioner: Callable[..., Any] | None = function(
        "Chooses a partition: partitioner(topic, key, partition_count) -> int, and for columns, if it has it, "
        "partition_rows(topic, keys, partition_count) -> integers; levada.RoundRobin() is one. "
        "Default: Java's: murmur2 of the key, sticky without one.",
        "Callable[[str, bytes | None, int], int]",
        advice="Java's partitioner is the default, so leave it out (librdkafka's murmur2_random), or give a function",
    )
    partitioner_adaptive_partitioning_enable: bool = boolean(
        True, "Send fewer keyless records to partitions whose broker is behind (KIP-794)."
    )
    partitioner_availability_timeout_ms: int = milliseconds(
        0, "Leave out partitions whose broker has taken no data for this long, for keyless records; 0 switches that off.", high=INT64_MAX
    )
    partitioner_ignore_keys: bool = boolean(False, "Spread records over partitions without looking at their keys.")
    acks: int = words(
        {"all": -1, "-1": -1, "1": 1, "0": 0},
        -1,
        "Which replicas must have a record before it counts as written: all in-sync ones, the leader, or none.",
        aliases=("request.required.acks",),
    )
    enable_idempotence: bool = boolean(True, "Write every record exactly once and in order per partition, whatever is retried (KIP-679).")
    retries: int = integer(
        INT32_MAX, "How often a batch is sent again; delivery.timeout.ms is the better bound.", aliases=("message.send.max.retries",)
    )
    max_in_flight_requests_per_connection: int = integer(
        5, "Requests under way to one broker at a time; above 5 idempotence is not possible.", low=1, aliases=("max.in.flight",)
    )
    delivery_timeout_ms: int = milliseconds(
        120_000,
        "Time from send() until a record is acknowledged or has failed, retries included (KIP-91).",
        aliases=("message.timeout.ms",),
    )
    max_block_ms: int = milliseconds(60_000, "Time send() may wait for metadata and for free memory in the buffer.", high=INT64_MAX)
    buffer_memory: int = size_bytes(
        33_554_432,
        "Memory for records that wait to be sent. While it is used up send() waits, up to max.block.ms; then the record fails.",
        high=INT64_MAX,
    )
    batch_size: int = size_bytes(
        262_144, "Largest record batch of one partition, before compression. Batches grow as they fill, so small ones cost no more memory."
    )
    linger_ms: int = milliseconds(
        5, "Wait this long for a batch to fill before it is sent.", high=INT64_MAX, aliases=("queue.buffering.max.ms",)
    )
    max_request_size: int = size_bytes(
        1_048_576, "Largest record (before compression) and largest request.", aliases=("message.max.bytes",)
    )
    compression_type: str = choice(
        "none", ("none", "gzip", "snappy", "lz4", "zstd"), "Codec for record batches.", aliases=("compression.codec",)
    )
    compression_gzip_level: int = integer(-1, "gzip level; -1 is zlib's default.", low=-1, high=9)
    compression_lz4_level: int = integer(9, "lz4 level.", low=1, high=17)
    compression_zstd_level: int = integer(3, "zstd level.", low=-131_072, high=22)
    transactional_id: str | None = text(
        None,
        "Name under which this producer's transactions are kept, the same after a restart, and of one producer at a time: a new one ends "
        "the open transaction of the one before and fences it. Needs idempotence. Default: no transactions.",
    )
    transaction_timeout_ms: int = milliseconds(
        60_000,
        "The coordinator aborts a transaction that is open for longer; at most the broker's transaction.max.timeout.ms.",
        low=1,
    )
    transaction_timeout_clamp: bool = boolean(
        False,
        "Where the brokers allow less than transaction.timeout.ms, ask for half as much until they agree, instead of failing. Not in Java.",
    )
    metadata_max_idle_ms: int = milliseconds(300_000, "Forget a topic's metadata when nothing was sent to it for this long.", low=5_000)

    @property
    def compression_level(self) -> int | None:
        """The level of the chosen codec, None for a codec without levels."""
        level: int | None = getattr(self, f"compression_{self.compression_type}_level", None)
        return level

    def _check(self) -> None:
        super()._check()
        self._check_transactional_id()
        self._check_idempotence()
        self._check_delivery_timeout()

    def _check_transactional_id(self) -> None:
        if self.transactional_id is None:
            return
        if not self.transactional_id:
            raise ConfigError("'transactional.id' must not be empty; leave it out for a producer without transactions")
        if not self.enable_idempotence:
            raise ConfigError("'transactional.id' needs 'enable.idempotence', which was switched off")
        if (conflict := self._idempotence_conflict()) is not None:
            raise ConfigError(f"'transactional.id' needs {conflict}")
        if not self.client_id:
            self._settle("client_id", f"producer-{self.transactional_id}")

    def _check_idempotence(self) -> None:
        conflict = self._idempotence_conflict()
        if conflict is None or not self.enable_idempotence:
            return
        if "enable.idempotence" in self.given:
            raise ConfigError(f"'enable.idempotence' needs {conflict}")
        log.warning("idempotence is off because it needs %s; a retried batch may be written twice", conflict)
        self._settle("enable_idempotence", False)

    def _idempotence_conflict(self) -> str | None:
        if self.acks != -1:
            return f"'acks=all', got acks={self.acks}"
        if self.retries == 0:
            return "'retries' above 0"
        if self.max_in_flight_requests_per_connection > IDEMPOTENT_IN_FLIGHT_LIMIT:
            return f"'max.in.flight.requests.per.connection' of at most 5, got {self.max_in_flight_requests_per_connection}"
        return None

    def _check_delivery_timeout(self) -> None:
        least = min(self.linger_ms + self.request_timeout_ms, INT32_MAX)
        if self.delivery_timeout_ms >= least:
            return
        if "delivery.timeout.ms" in self.given:
            shorter = "request.timeout.ms" if self.linger_ms < self.delivery_timeout_ms else "linger.ms and request.timeout.ms"
            raise ConfigError(
                f"{self._named('delivery.timeout.ms')} must be at least linger.ms + request.timeout.ms = {least}, "
                f"got {self.delivery_timeout_ms}; lower {shorter} too"
            )
        self._settle("delivery_timeout_ms", least)
