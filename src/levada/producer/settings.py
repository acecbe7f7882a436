"""The settings of a ProducerCore, made from the producer's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from levada.producer.append.record_accumulator import AccumulatorSettings
from levada.producer.send.sender import SenderSettings
from levada.record.compression import Codec


class TransactionalSettings(NamedTuple):
    """The transaction settings. timeout_ms: transaction.timeout.ms. clamps_timeout: transaction.timeout.clamp."""

    transactional_id: str
    timeout_ms: int
    clamps_timeout: bool


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """The settings of a ProducerCore. Fields have the names of the options. Times are in milliseconds, buffer_memory is in bytes."""

    accumulator: AccumulatorSettings
    sender: SenderSettings
    enable_idempotence: bool
    buffer_memory: int
    max_block_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    transactional: TransactionalSettings | None
    """None without a transactional.id."""

    @classmethod
    def of(cls, config: Any) -> ProducerSettings:
        """Read the settings from a ProducerConfig, or from an object with the same attributes."""
        codec, level = Codec.parse(config.compression_type), config.compression_level
        return cls(
            accumulator=AccumulatorSettings(
                batch_size=config.batch_size,
                linger_ms=config.linger_ms,
                max_request_size=config.max_request_size,
                delivery_timeout_ms=config.delivery_timeout_ms,
                codec=codec,
                level=level,
                adaptive_partitioning=config.partitioner_adaptive_partitioning_enable,
                availability_timeout_ms=config.partitioner_availability_timeout_ms,
            ),
            sender=SenderSettings(
                acks=config.acks,
                retries=config.retries,
                request_timeout_ms=config.request_timeout_ms,
                batch_size=config.batch_size,
                codec=codec,
                level=level,
                max_in_flight=config.max_in_flight_requests_per_connection,
            ),
            enable_idempotence=config.enable_idempotence,
            buffer_memory=config.buffer_memory,
            max_block_ms=config.max_block_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            transactional=_transactional(config),
        )


def _transactional(config: Any) -> TransactionalSettings | None:
    if config.transactional_id is None:
        return None
    return TransactionalSettings(config.transactional_id, config.transaction_timeout_ms, config.transaction_timeout_clamp)
