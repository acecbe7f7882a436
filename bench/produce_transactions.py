"""Transactions per second, by the number of records of each, and the time of a commit."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from engine_bench import CONFLUENT, LEVADA, Case, worker
from engine_pace import percentiles
from engine_process import Figures
from measure import measured
from payloads import DISTINCT, values
from produce_bench import CONFLUENT_QUEUE, PARTITIONS, ProduceBench

SECTION = "transactions"
TRANSACTIONS = {1: 500, 100: 300, 1000: 100}
PER_SECOND, CPU = "transactions/s", "client CPU us per transaction"
WARM = 20


def run(bench: ProduceBench) -> Iterator[Case]:
    """Measure transactions of one, a hundred and a thousand records."""
    for records, count in TRANSACTIONS.items():
        with bench.topic(PARTITIONS) as topic:
            job = bench.job(topic, count=bench.scaled(count), records=records)
            systems = {LEVADA: worker("produce_transactions:levada", job), CONFLUENT: worker("produce_transactions:confluent", job)}
            case = bench.run(Case(SECTION, f"transactions of {records} records of 100 B"), systems)
        if records == 1:
            case.hold(LEVADA, PER_SECOND, CONFLUENT, 1, at_least=True)
        yield case


def levada(bootstrap_servers: str, topic: str, count: int, records: int) -> Figures:
    """KafkaProducer with begin_transaction and commit_transaction."""
    from levada import KafkaProducer

    with KafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=f"bench-{uuid.uuid4()}", linger_ms=0) as producer:
        producer.init_transactions()
        return _run(producer, producer.send, topic, count, records)


def confluent(bootstrap_servers: str, topic: str, count: int, records: int) -> Figures:
    """The same calls of confluent-kafka's Producer."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap_servers, "transactional.id": f"bench-{uuid.uuid4()}", "linger.ms": 0, **CONFLUENT_QUEUE}
    producer = Producer(settings)
    producer.init_transactions()
    return _run(producer, producer.produce, topic, count, records)


def _run(producer: Any, send: Callable[..., Any], topic: str, count: int, records: int) -> Figures:
    payload = values(100)

    def transaction() -> int:
        producer.begin_transaction()
        for number in range(records):
            send(topic, payload[number % DISTINCT])
        start = time.monotonic_ns()
        producer.commit_transaction()
        return time.monotonic_ns() - start

    for _ in range(WARM):
        transaction()
    with measured(count) as sample:
        commits = [transaction() for _ in range(count)]
    told = {f"commit {name}": value for name, value in percentiles(commits).items()}
    return {PER_SECOND: count / sample.seconds, CPU: sample.cpu_seconds / count * 1e6, **told}
