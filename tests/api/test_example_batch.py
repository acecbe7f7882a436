"""examples/batch_job.py: killed before or after the commit and run again, it counts each payment once."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator

import pytest

import levada as lv
from example_programs import PATIENCE_S, Kafka, own_topics, running
from kafka_cluster import KafkaCluster
from levada.testing import EmbeddedKafka


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=3) as kafka:
        yield kafka


def pay(kafka: Kafka, *payments: tuple[str, str]) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send_many("payments", payments)


def run(kafka: Kafka) -> str:
    with running("batch_job", "--kafka", kafka.bootstrap_servers) as job:
        assert job.end() == 0, job.output
    return job.output


def revenue(kafka: Kafka) -> dict[str, int]:
    summed: Counter[str] = Counter()
    for record in lv.scan("revenue", bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed"):
        assert record.key and record.value
        summed[record.key.decode()] += int(record.value)
    return dict(summed)


def test_on_the_embedded_broker() -> None:
    with running("batch_job") as job:
        assert job.end() == 0, job.output
    assert job.lines[:2] == ["3 payments", "1 payments"]
    assert sorted(job.lines[2:]) == ["b'ann': b'17'", "b'bob': b'1'", "b'bob': b'5'"]


@pytest.mark.kafka
@pytest.mark.matrix
def test_on_a_real_kafka(kafka44: KafkaCluster) -> None:
    with own_topics(kafka44) as kafka:
        kafka.create_topic("payments", 3)
        pay(kafka, ("ann", "10"), ("bob", "5"), ("ann", "7"))
        assert run(kafka) == "3 payments"
        pay(kafka, ("bob", "1"))
        assert [run(kafka), run(kafka)] == ["1 payments", "0 payments"]
        assert revenue(kafka) == {"ann": 17, "bob": 6}


@pytest.mark.parametrize("commit", ["is not carried out", "is carried out, and not answered"])
def test_a_killed_run_is_repeated_without_doubling(kafka: EmbeddedKafka, commit: str) -> None:
    pay(kafka, ("ann", "10"), ("bob", "5"), ("ann", "7"))
    if commit == "is not carried out":
        kafka.faults.blackhole("EndTxn")
    else:
        kafka.faults.hold("EndTxn")
    with running("batch_job", "--kafka", kafka.bootstrap_servers) as job:
        deadline = time.monotonic() + PATIENCE_S
        while kafka.faults.requests["EndTxn"] == 0:
            assert time.monotonic() < deadline and job.process.poll() is None, job.output
            time.sleep(0.01)
        assert job.end(signal.SIGKILL) == -signal.SIGKILL
    kafka.faults.clear()
    pay(kafka, ("bob", "1"))
    assert run(kafka) == ("4 payments" if commit == "is not carried out" else "1 payments")
    assert run(kafka) == "0 payments"
    assert revenue(kafka) == {"ann": 17, "bob": 6}
