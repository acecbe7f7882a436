"""A topic for the readers, written by a client that is not under test, in batches as its defaults make them."""

from __future__ import annotations

from confluent_kafka import Producer

from measure import Job, Sample
from payloads import DISTINCT, values

PATIENCE_S = 120


def fill(job: Job) -> Sample:
    """Write the job's records, spread evenly over the partitions."""
    producer = Producer(
        {
            "bootstrap.servers": job.bootstrap_servers,
            "compression.type": job.codec,
            "linger.ms": 20,
            "queue.buffering.max.messages": 10_000_000,
            "queue.buffering.max.kbytes": 2_097_151,
        }
    )
    payload = values(job.value_bytes)
    for n in range(job.records):
        producer.produce(job.topic, payload[n % DISTINCT], partition=n % job.partitions)
        if n % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    return Sample(job.records)
