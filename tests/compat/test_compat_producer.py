"""levada.compat.confluent_kafka.Producer: what it promises beyond the programs."""

from __future__ import annotations

import json
import logging
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import confluent_kafka as theirs
import pytest

import levada as lv
from levada.compat import confluent_kafka as ours
from levada.compat.confluent_kafka import KafkaError, KafkaException, Message, Producer
from levada.testing import EmbeddedKafka

NOWHERE = "127.0.0.1:1"
KEYS = [b"customer-%d" % number for number in range(199)] + [b"k"]


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=6) as kafka:
        yield kafka


def settings(kafka: EmbeddedKafka, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": kafka.bootstrap_servers} | {name.replace("_", "."): value for name, value in more.items()}


def name_of(error: KafkaError | None) -> str:
    return "delivered" if error is None else error.name()


def eventually(true: Any, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("partitioner", ["consistent_random", "consistent", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random"])
def test_keys_go_where_librdkafka_sends_them(kafka: EmbeddedKafka, partitioner: str) -> None:
    placed = []
    for name, kind in (("theirs", theirs.Producer), ("ours", Producer)):
        topic = f"{name}-{partitioner}"
        producer: Any = kind(settings(kafka, partitioner=partitioner))
        for key in KEYS:
            producer.produce(topic, b"v", key)
        assert producer.flush(20) == 0
        placed.append({record.key: record.partition for record in lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers)})
        del producer
    assert len(placed[0]) == len(KEYS)
    assert placed[0] == placed[1]


@pytest.mark.parametrize("name", ["consistent", "murmur2", "fnv1a"])
def test_the_functions_of_the_partitioners_are_the_same(name: str) -> None:
    for key in (b"", b"a", b"\xff\x00" * 9, *KEYS):
        assert [getattr(ours, name)(key, count) for count in (1, 3, 100)] == [getattr(theirs, name)(key, count) for count in (1, 3, 100)]
    with pytest.raises(ValueError):
        getattr(ours, name)(b"", 0)


def test_a_full_queue_raises_buffer_error_until_poll_has_served_reports(kafka: EmbeddedKafka) -> None:
    with Producer(settings(kafka, queue_buffering_max_messages=2)) as producer:
        producer.produce("full", b"1")
        producer.produce("full", b"2")
        with pytest.raises(BufferError):
            producer.produce("full", b"3")
        eventually(lambda: producer.poll(0.1) and len(producer) == 0)
        producer.produce("full", b"3")
        assert len(producer) == 1
        assert producer.flush() == 0


def test_the_bytes_of_a_queue_are_limited_too() -> None:
    producer = Producer({"bootstrap.servers": NOWHERE, "queue.buffering.max.kbytes": 1, "message.timeout.ms": 200})
    producer.produce("t", b"x" * 800)
    with pytest.raises(BufferError):
        producer.produce("t", b"x" * 800)
    assert producer.flush(5) == 0


def test_callbacks_run_within_poll_and_flush_only(kafka: EmbeddedKafka) -> None:
    threads: list[str] = []
    with Producer(settings(kafka)) as producer:
        producer.produce("callbacks", b"1", callback=lambda error, message: threads.append(threading.current_thread().name))
        time.sleep(0.3)
        assert not threads
        assert producer.poll(5) == 1
        producer.produce("callbacks", b"2", callback=lambda error, message: threads.append(threading.current_thread().name))
        assert producer.flush(5) == 0
    assert threads == [threading.current_thread().name] * 2


def test_a_callback_that_raises_raises_from_poll_and_the_next_ones_still_run(kafka: EmbeddedKafka) -> None:
    seen: list[bytes] = []

    def fail(error: KafkaError | None, message: Message) -> None:
        raise ZeroDivisionError

    with Producer(settings(kafka)) as producer:
        producer.produce("raising", b"1", callback=fail)
        producer.produce("raising", b"2", callback=lambda error, message: seen.append(message.value()))
        with pytest.raises(ZeroDivisionError):
            producer.flush(5)
        assert producer.flush(5) == 0
    assert seen == [b"2"]


def test_produce_waits_for_nothing_and_messages_time_out() -> None:
    reports: list[str] = []
    producer = Producer({"bootstrap.servers": NOWHERE, "message.timeout.ms": 2000, "linger.ms": 0})
    began = time.monotonic()
    for number in range(100):
        producer.produce(f"t{number % 3}", b"v", callback=lambda error, message: reports.append(name_of(error)))
    assert time.monotonic() - began < 1
    assert producer.flush(0.05) == 100
    assert producer.flush(10) == 0
    assert reports == ["_MSG_TIMED_OUT"] * 100


def test_messages_of_a_new_topic_stay_in_order(kafka: EmbeddedKafka) -> None:
    with Producer(settings(kafka, partitioner="consistent")) as producer:
        for number in range(200):
            producer.produce("new-one", b"%d" % number, b"key")
            if number == 100:
                assert producer.flush(10) == 0
        assert producer.flush(10) == 0
    found = lv.scan("new-one", bootstrap_servers=kafka.bootstrap_servers)
    assert [record.value for record in found] == [b"%d" % number for number in range(200)]


def test_a_topic_that_does_not_exist_fails_after_a_time_while_others_are_delivered() -> None:
    reports: dict[str | None, str] = {}
    with EmbeddedKafka(num_partitions=1, auto_create_topics_enable=False) as kafka:
        lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers).create_topics([lv.NewTopic("there", 1, 1)])
        with Producer(settings(kafka, topic_metadata_propagation_max_ms=500)) as producer:
            for topic in ("nowhere", "there"):
                producer.produce(topic, b"v", callback=lambda error, message: reports.update({message.topic(): name_of(error)}))
            assert producer.flush(10) == 0
    assert reports == {"there": "delivered", "nowhere": "UNKNOWN_TOPIC_OR_PART"}


def test_purge_fails_what_is_not_delivered() -> None:
    reports: list[str] = []
    producer = Producer({"bootstrap.servers": NOWHERE})
    producer.produce("t", b"v", on_delivery=lambda error, message: reports.append(name_of(error)))
    producer.purge()
    assert producer.flush(5) == 0
    assert reports == ["_PURGE_QUEUE"]
    with pytest.raises(KafkaException) as refused:
        producer.purge(in_flight=False)
    assert refused.value.args[0].code() == KafkaError._NOT_IMPLEMENTED


def test_reports_of_the_configuration(kafka: EmbeddedKafka) -> None:
    reports: list[Any] = []
    more = {"on_delivery": lambda error, message: reports.append(error and error.name()), "delivery.report.only.error": True}
    with Producer({**settings(kafka), **more}) as producer:
        producer.produce("reported", b"v")
        producer.produce("reported-2", b"v", partition=77)
        assert producer.flush(10) == 0
        assert len(producer) == 0
    assert reports == ["_UNKNOWN_PARTITION"]


def test_a_batch_is_taken_up_to_the_limit_of_the_queue(kafka: EmbeddedKafka) -> None:
    messages: list[dict[str, Any]] = [{"value": b"%d" % number} for number in range(3)] + [{"value": 5}]
    with Producer(settings(kafka, queue_buffering_max_messages=2)) as producer:
        assert producer.produce_batch("batch", messages) == 2
        assert [error and error.name() for error in (message.get("_error") for message in messages)] == [None, None, "_QUEUE_FULL", "_FAIL"]


def test_errors_and_statistics_reach_their_callbacks_within_poll() -> None:
    errors: list[str] = []
    statistics: list[dict[str, Any]] = []
    config = {
        "bootstrap.servers": NOWHERE,
        "error_cb": lambda error: errors.append(error.name()),
        "stats_cb": lambda text: statistics.append(json.loads(text)),
        "statistics.interval.ms": 50,
    }
    producer = Producer(config)
    producer.produce("t", b"value")
    time.sleep(0.3)
    assert not errors and not statistics
    deadline = time.monotonic() + 5
    while not (errors and statistics) and time.monotonic() < deadline:
        producer.poll(0.1)
    assert errors[:2] == ["_TRANSPORT", "_ALL_BROKERS_DOWN"]
    assert (statistics[0]["type"], statistics[0]["msg_cnt"], statistics[0]["msg_size"]) == ("producer", 1, 5)
    producer.purge()


def test_a_closed_producer_raises(kafka: EmbeddedKafka) -> None:
    producer = Producer(settings(kafka))
    assert producer.close() and producer.close()
    for call in (lambda: producer.produce("t"), producer.poll, producer.flush):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_an_aborted_transaction_purges_and_offsets_are_not_committed(kafka: EmbeddedKafka) -> None:
    reports: list[Any] = []
    with Producer(settings(kafka, transactional_id="aborting")) as producer:
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce("aborted", b"v", on_delivery=lambda error, message: reports.append(error and error.name()))
        producer.abort_transaction(10)
        assert len(producer) == 0
        with pytest.raises(KafkaException) as refused:
            producer.commit_transaction(10)
        assert refused.value.args[0].code() == KafkaError._STATE
        producer.begin_transaction()
        producer.produce("aborted", b"committed")
        producer.commit_transaction(10)
    assert reports in ([None], ["_PURGE_QUEUE"])
    found = lv.scan("aborted", bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed")
    assert [record.value for record in found] == [b"committed"]


@pytest.mark.parametrize("callbacks", [{}, {"error_cb": print, "logger": logging.getLogger("program")}], ids=["plain", "with callbacks"])
def test_a_dropped_producer_is_collected(kafka: EmbeddedKafka, callbacks: dict[str, Any]) -> None:
    handlers = len(logging.getLogger("levada").handlers)
    producer = Producer({**settings(kafka), **callbacks})
    producer.produce("dropped", b"v")
    assert producer.flush(10) == 0
    dropped = weakref.ref(producer)
    del producer
    eventually(lambda: dropped() is None)
    assert len(logging.getLogger("levada").handlers) == handlers
