"""Transactions while coordinators and leaders move between embedded brokers, answers are held, and brokers fall silent."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

import levada as lv
from levada.testing import EmbeddedKafka

PATIENCE_S = 20


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3) as running:
        running.create_topic("t", 3)
        yield running


def new_producer(kafka: EmbeddedKafka) -> lv.KafkaProducer:
    producer = lv.KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id="tx", request_timeout_ms=500, retry_backoff_ms=10
    )
    producer.init_transactions()
    return producer


def committed(kafka: EmbeddedKafka) -> list[bytes]:
    return sorted(
        record.value or b"" for record in lv.scan("t", bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed")
    )


def wait_for_requests(kafka: EmbeddedKafka, api: str, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while kafka.faults.requests[api] < count:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def write(producer: lv.KafkaProducer, value: bytes) -> None:
    for partition in range(3):
        producer.send("t", value, partition=partition)


def test_T3_T13_transactions_follow_their_coordinator_and_their_leaders(kafka: EmbeddedKafka) -> None:
    with new_producer(kafka) as producer:
        for node in (1, 2, 3):
            producer.begin_transaction()
            write(producer, b"%d" % node)
            kafka.move_coordinator(transactional_id="tx", node=node)
            kafka.elect_leader("t", 0, node=node)
            producer.commit_transaction(PATIENCE_S)
    assert committed(kafka) == [b"1"] * 3 + [b"2"] * 3 + [b"3"] * 3


def test_T3_a_coordinator_that_loads_is_waited_for(kafka: EmbeddedKafka) -> None:
    with new_producer(kafka) as producer:
        producer.begin_transaction()
        write(producer, b"a")
        producer.flush(PATIENCE_S)
        with kafka.loading_coordinator(transactional_id="tx"):
            ending = threading.Thread(target=producer.commit_transaction)
            asked = kafka.faults.requests["EndTxn"]
            ending.start()
            wait_for_requests(kafka, "EndTxn", asked + 3)
        ending.join(PATIENCE_S)
    assert committed(kafka) == [b"a"] * 3


def test_T7_a_held_answer_to_end_txn_is_asked_for_again(kafka: EmbeddedKafka) -> None:
    with new_producer(kafka) as producer:
        hold = kafka.faults.hold("EndTxn")
        producer.begin_transaction()
        write(producer, b"a")
        producer.commit_transaction(PATIENCE_S)
        assert kafka.faults.requests["EndTxn"] >= 2
        hold.release()
        producer.begin_transaction()
        write(producer, b"b")
        producer.commit_transaction(PATIENCE_S)
    assert committed(kafka) == [b"a"] * 3 + [b"b"] * 3


def test_T5_held_markers_let_the_next_transaction_wait(kafka: EmbeddedKafka) -> None:
    with new_producer(kafka) as producer:
        hold = kafka.faults.hold("WriteTxnMarkers")
        producer.begin_transaction()
        write(producer, b"a")
        producer.commit_transaction(PATIENCE_S)
        assert committed(kafka) == []
        producer.begin_transaction()
        write(producer, b"b")
        threading.Timer(0.05, hold.release).start()
        producer.commit_transaction(PATIENCE_S)
    assert committed(kafka) == [b"a"] * 3 + [b"b"] * 3


def test_T17_a_transaction_that_was_timed_out_leaves_nothing(kafka: EmbeddedKafka) -> None:
    with new_producer(kafka) as producer:
        producer.begin_transaction()
        write(producer, b"late")
        producer.flush(PATIENCE_S)
        kafka.time_out_transaction("tx")
        with pytest.raises(lv.errors.KafkaError, match="tx"):
            producer.commit_transaction(PATIENCE_S)
    assert committed(kafka) == []


def test_E12_a_silent_coordinator_is_left_when_another_takes_over(kafka: EmbeddedKafka) -> None:
    kafka.move_coordinator(transactional_id="tx", node=2)
    with new_producer(kafka) as producer:
        producer.begin_transaction()
        producer.send("t", b"a", partition=0)
        producer.flush(PATIENCE_S)
        kafka.faults.blackhole(node=2)
        ending = threading.Thread(target=producer.commit_transaction)
        asked = kafka.faults.requests["EndTxn"]
        ending.start()
        wait_for_requests(kafka, "EndTxn", asked + 1)
        kafka.move_coordinator(transactional_id="tx", node=3)
        ending.join(PATIENCE_S)
        kafka.faults.clear()
    assert committed(kafka) == [b"a"]
