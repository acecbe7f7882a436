"""The committed records of a topic, once no transaction is open."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import levada as lv
from levada.types import TopicPartition

PATIENCE_S = 20
"""Seconds, less than transaction.timeout.ms: a transaction that only its timeout ends must fail the test."""


def committed(kafka: Any, topic: str) -> Counter[bytes]:
    records = lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed")
    return Counter(record.value or b"" for record in records)


def is_settled(kafka: Any, topic: str) -> bool:
    """Whether each partition's last stable offset has reached its high watermark, so that no transaction is open."""
    with (
        lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as all_records,
        lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed") as readers,
    ):
        partitions = [TopicPartition(topic, info.partition) for info in readers.partitions_for(topic)]
        ends: bool = all_records.end_offsets(partitions) == readers.end_offsets(partitions)
        return ends


def settled(kafka: Any, topic: str) -> Counter[bytes]:
    """Wait until no transaction is open, and return how often each committed value occurs.

    A coordinator answers EndTxn before consumers can read the records. Fails after PATIENCE_S seconds.
    """
    until_s = time.monotonic() + PATIENCE_S
    while not is_settled(kafka, topic):
        assert time.monotonic() < until_s, "a transaction stays open"
        time.sleep(0.01)
    return committed(kafka, topic)
