"""Keys of the producer, and the rules between them."""

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
_OTHER_PARTITIONERS: Mapping[str, str] = {
    "murmur2_random": "leave it out: levada's default puts keys where murmur2_random does",
    "murmur2": "leave it out: levada's default puts keys where murmur2 does",
    **dict.fromkeys(
        ("consistent_random", "consistent"),
        "give a function, such as lambda topic, key, count: zlib.crc32(key) % count; the default would put keys into other partitions",
    ),
    "random": "give a function, such as lambda topic, key, count: random.randrange(count)",
}
"""Partitioners of librdkafka, each with what to write instead."""


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
        "Function that turns a key into bytes. Without it, keys are bytes, str (sent as UTF-8) or None.",
        "Callable[[K_in], Sendable | None]",
    )
    value_serializer: Callable[..., Any] | None = function(
        "Function that turns a value into bytes. Without it, values are bytes, str (sent as UTF-8) or None.",
        "Callable[[V_in], Sendable | None]",
    )
    interceptors: tuple[ProducerInterceptor, ...] = objects(
        "Objects that see each record before serialization, and its outcome (KIP-42): see levada.ProducerInterceptor. send_arrow() raises "
        "an error if an interceptor has no on_send_arrow(), because that interceptor would not see the records.",
        ProducerInterceptor,
    )
    partitioner: Callable[..., Any] | None = function(
        "Function that chooses a partition: partitioner(topic, key, partition_count) -> int. For Arrow columns its method "
        "partition_rows(topic, keys, partition_count) -> integers is called, if it has one. An example is levada.RoundRobin(). Default: "
        "Java's partitioner: murmur2 of the key, or sticky for records without a key.",
        "Callable[[str, bytes | None, int], int]",
        advice_by_name=_OTHER_PARTITIONERS,
    )
    partitioner_adaptive_partitioning_enable: bool = boolean(
        True, "Send fewer keyless records to partitions with a longer queue of unsent batches (KIP-794)."
    )
    partitioner_availability_timeout_ms: int = milliseconds(
        0,
        "Send no keyless records to partitions whose broker could take no request for this long, if there are others. 0 switches that off.",
        high=INT64_MAX,
    )
    partitioner_ignore_keys: bool = boolean(
        False, "Spread records over partitions without looking at their keys. Has no effect if partitioner is set."
    )
    acks: int = words(
        {"all": -1, "-1": -1, "1": 1, "0": 0},
        -1,
        "Replicas that must have a record before it is acknowledged: all in-sync replicas (all), the leader (1), or none (0).",
        aliases=("request.required.acks",),
    )
    enable_idempotence: bool = boolean(
        True,
        "Retries write no record twice, and keep the order in each partition (KIP-679). Needs acks=all, retries above 0, and at most 5 "
        "requests in flight. If one of these settings is another, idempotence is off, with a warning, unless it was switched on "
        "explicitly: then that is an error.",
    )
    retries: int = integer(
        INT32_MAX, "Maximum retries of a batch. Prefer delivery.timeout.ms as limit.", aliases=("message.send.max.retries",)
    )
    max_in_flight_requests_per_connection: int = integer(
        5, "Maximum number of requests in flight to one broker. Idempotence allows at most 5.", low=1, aliases=("max.in.flight",)
    )
    delivery_timeout_ms: int = milliseconds(
        120_000,
        "Maximum time from send() until a record is acknowledged or fails, including retries (KIP-91). Must be at least linger.ms + "
        "request.timeout.ms; if it is not set, it is raised to that.",
        aliases=("message.timeout.ms",),
    )
    max_block_ms: int = milliseconds(
        60_000,
        "Maximum time that send() waits for metadata and for free buffer memory. Also the default timeout of calls about transactions.",
        high=INT64_MAX,
    )
    buffer_memory: int = size_bytes(
        33_554_432,
        "Memory for records that are not yet acknowledged. While it is full, send() waits up to max.block.ms; then the record fails.",
        high=INT64_MAX,
    )
    batch_size: int = size_bytes(
        262_144,
        "Size at which a record batch of one partition is full. With compression it is the expected compressed size. A larger record has a "
        "batch of its own. A batch takes only as much memory as its records need.",
    )
    linger_ms: int = milliseconds(
        5, "Time that a batch waits for more records before it is sent.", high=INT64_MAX, aliases=("queue.buffering.max.ms",)
    )
    max_request_size: int = size_bytes(
        1_048_576, "Largest record, before compression, and largest request.", aliases=("message.max.bytes",)
    )
    compression_type: str = choice(
        "none", ("none", "gzip", "snappy", "lz4", "zstd"), "Codec for record batches.", aliases=("compression.codec",)
    )
    compression_gzip_level: int = integer(-1, "gzip level; -1 is zlib's default.", low=-1, high=9)
    compression_lz4_level: int = integer(9, "lz4 level.", low=1, high=17)
    compression_zstd_level: int = integer(3, "zstd level.", low=-131_072, high=22)
    transactional_id: str | None = text(
        None,
        "Id of this producer's transactions. Use the same id after a restart, and only one producer per id at a time: a new producer "
        "aborts the open transaction of the one before and fences it. Needs idempotence. Default: no transactions.",
    )
    transaction_timeout_ms: int = milliseconds(
        60_000,
        "The coordinator aborts a transaction that is open for longer than this. At most the brokers' transaction.max.timeout.ms.",
        low=1,
    )
    transaction_timeout_clamp: bool = boolean(
        False,
        "If transaction.timeout.ms is above the brokers' maximum, halve it until the brokers accept it, instead of failing. Not in Java's "
        "client.",
    )
    metadata_max_idle_ms: int = milliseconds(300_000, "Drop a topic's metadata if no record was sent to it for this long.", low=5_000)

    @property
    def compression_level(self) -> int | None:
        """The compression level of the chosen codec, or None if the codec has no levels."""
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
