"""Writing records. Every producer is idempotent and waits for all replicas; each has the batching that suits it best."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from measure import Job, Sample, measured
from payloads import DISTINCT, values

PATIENCE_S = 120


def levada_send(job: Job) -> Sample:
    """KafkaProducer.send, record by record."""
    with _levada(job) as producer:
        payload = values(job.value_bytes)
        producer.send(job.topic, value=b"warm").result(timeout=PATIENCE_S)
        with measured(job.records) as sample:
            for n in range(job.records):
                producer.send(job.topic, value=payload[n % DISTINCT])
            producer.flush(PATIENCE_S)
    return sample


def levada_send_arrow(job: Job) -> Sample:
    """KafkaProducer.send_arrow, in tables of DISTINCT rows."""
    import pyarrow as pa

    with _levada(job) as producer:
        table = pa.table({"value": pa.array(values(job.value_bytes), pa.binary())})
        producer.send_arrow(job.topic, table.slice(0, 1), value="value").result(timeout=PATIENCE_S)
        with measured(job.records) as sample:
            reports = [producer.send_arrow(job.topic, table, value="value") for _ in range(job.records // DISTINCT)]
            producer.flush(PATIENCE_S)
            for report in reports:
                report.result(timeout=PATIENCE_S)
    return sample


def _levada(job: Job) -> Any:
    import levada

    return levada.KafkaProducer(
        bootstrap_servers=job.bootstrap_servers,
        compression_type=job.codec,
        linger_ms=20,
        batch_size=262_144,
        buffer_memory=134_217_728,
        max_request_size=4_194_304,
    )


def confluent_produce(job: Job) -> Sample:
    """Producer.produce, record by record."""
    payload = values(job.value_bytes)

    def write(producer: Any) -> None:
        for n in range(job.records):
            producer.produce(job.topic, payload[n % DISTINCT])
            if n % 10_000 == 0:
                producer.poll(0)

    return _confluent(job, write)


def confluent_produce_batch(job: Job) -> Sample:
    """Producer.produce_batch, in lists of DISTINCT messages built beforehand."""
    messages = [{"value": value} for value in values(job.value_bytes)]

    def write(producer: Any) -> None:
        for _ in range(job.records // DISTINCT):
            assert producer.produce_batch(job.topic, messages) == DISTINCT
            producer.poll(0)

    return _confluent(job, write)


def _confluent(job: Job, write: Callable[[Any], None]) -> Sample:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": job.bootstrap_servers,
            "compression.type": job.codec,
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 10_000_000,
            "queue.buffering.max.kbytes": 2_097_151,
        }
    )
    producer.produce(job.topic, b"warm")
    assert producer.flush(PATIENCE_S) == 0
    with measured(job.records) as sample:
        write(producer)
        assert producer.flush(PATIENCE_S) == 0
    return sample
