"""Reading records from the beginning of a filled topic until all of them have come. Checksums are verified by everybody."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from measure import Job, Sample, measured

AT_ONCE = 10_000


def levada_poll(job: Job) -> Sample:
    """KafkaConsumer.poll: every value as a Python object."""

    def read(consumer: Any) -> int:
        return sum(1 for record in consumer.poll(timeout=1.0, max_records=AT_ONCE) if record.value is not None)

    return _levada(job, read)


def levada_poll_arrow(job: Job) -> Sample:
    """KafkaConsumer.poll_arrow: all columns."""
    import pyarrow  # noqa: F401 - loading it is not part of reading

    return _levada(job, lambda consumer: consumer.poll_arrow(timeout=1.0).num_rows)


def _levada(job: Job, read: Callable[[Any], int]) -> Sample:
    import levada

    settings = {"bootstrap_servers": job.bootstrap_servers, "max_partition_fetch_bytes": 4_194_304, "auto_offset_reset": "earliest"}
    with levada.KafkaConsumer(**settings) as consumer:
        consumer.assign([levada.TopicPartition(job.topic, partition) for partition in range(job.partitions)])
        return _until_all(job, lambda: read(consumer))


def confluent_consume(job: Job) -> Sample:
    """Consumer.consume: every value as a Python object."""

    def read(consumer: Any) -> int:
        return sum(1 for message in consumer.consume(AT_ONCE, 1.0) if message.value() is not None)

    return _confluent(job, read)


def confluent_consume_to_arrow(job: Job) -> Sample:
    """Consumer.consume, and an Arrow array of the values."""
    import pyarrow as pa

    def read(consumer: Any) -> int:
        return len(pa.array([message.value() for message in consumer.consume(AT_ONCE, 1.0)], pa.binary()))

    return _confluent(job, read)


def _confluent(job: Job, read: Callable[[Any], int]) -> Sample:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": job.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            "check.crcs": True,
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 2,
        }
    )
    consumer.assign([TopicPartition(job.topic, partition, 0) for partition in range(job.partitions)])
    sample = _until_all(job, lambda: read(consumer))
    consumer.close()
    return sample


def _until_all(job: Job, read: Callable[[], int]) -> Sample:
    with measured(job.records) as sample:
        seen = 0
        while seen < job.records:
            seen += read()
    return sample
