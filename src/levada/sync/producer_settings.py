"""From a ProducerConfig to a producer's core and its driver."""

from __future__ import annotations

from random import Random

from levada.config import ProducerConfig
from levada.producer.core import ProducerCore
from levada.producer.partitioning import Partitioning
from levada.producer.sender import SenderSettings
from levada.record.compression import Codec
from levada.sync.connect import connect
from levada.sync.driver import Driver

LONGEST_END_MS = 10_000
"""How long a producer that was dropped without close(), or met by the interpreter's exit, goes on sending."""


def build(config: ProducerConfig) -> tuple[ProducerCore, Driver]:
    """Wire the parts; the driver is not started yet."""
    engine, driver = connect(
        config,
        "producer",
        max_in_flight=config.max_in_flight_requests_per_connection,
        metadata_max_idle_ms=config.metadata_max_idle_ms,
    )
    core = ProducerCore(
        engine,
        host=driver,
        random=Random(),
        sending=_sending(config),
        enable_idempotence=config.enable_idempotence,
        buffer_memory=config.buffer_memory,
        linger_ms=config.linger_ms,
        max_request_size=config.max_request_size,
        delivery_timeout_ms=config.delivery_timeout_ms,
        max_block_ms=config.max_block_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        adaptive_partitioning=config.partitioner_adaptive_partitioning_enable,
        availability_timeout_ms=config.partitioner_availability_timeout_ms,
        partitioning=Partitioning(config.partitioner, ignore_keys=config.partitioner_ignore_keys),
    )
    core.plain(keys=config.key_serializer is None, values=config.value_serializer is None)
    limit_ms = min(config.delivery_timeout_ms, LONGEST_END_MS)
    driver.when_dropped = lambda: core.end_by_itself(limit_ms, driver.name)
    return core, driver


def _sending(config: ProducerConfig) -> SenderSettings:
    return SenderSettings(
        acks=config.acks,
        retries=config.retries,
        request_timeout_ms=config.request_timeout_ms,
        batch_size=config.batch_size,
        codec=Codec.parse(config.compression_type),
        level=config.compression_level,
        max_in_flight=config.max_in_flight_requests_per_connection,
    )
