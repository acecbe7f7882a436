"""A client that is dropped without close(): its records are sent, its thread and sockets end, and what was lost is logged."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import levada as lv
from levada.errors import ClosedError, UnknownTopicOrPartitionError
from levada.testing import EmbeddedKafka

COUNT = 2_000

EXITS = {
    "end of the program": "send_all()",
    "sys.exit in a function": "def f():\n    send_all()\n    sys.exit(0)\nf()",
    "the last reference": "producer_that_is_dropped()\nimport gc; gc.collect()\ntime.sleep(0.5)",
    "an error": "send_all()\nraise SystemExit(3)",
    "a child of multiprocessing": (
        "import multiprocessing\n"
        "if __name__ == '__main__':\n"
        "    child = multiprocessing.get_context(sys.argv[2]).Process(target=send_all)\n"
        "    child.start(); child.join(); assert child.exitcode == 0, child.exitcode\n"
    ),
}
PROGRAM = """
import sys, time, threading
import levada as lv

def begin(**settings):
    return lv.KafkaProducer(bootstrap_servers=sys.argv[1], linger_ms=1000, **settings)

def send_all():
    global producer
    producer = begin()
    for number in range({count}):
        producer.send("t", value=str(number))

def producer_that_is_dropped():
    producer = begin()
    for number in range({count}):
        producer.send("t", value=str(number))

"""


def run(tmp_path: Any, kafka: EmbeddedKafka, body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(count=COUNT) + body)
    return subprocess.run([sys.executable, path, kafka.bootstrap_servers, *arguments], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("how", EXITS)
def test_records_are_flushed_without_close(tmp_path: Any, how: str) -> None:
    with EmbeddedKafka() as kafka:
        done = run(tmp_path, kafka, EXITS[how], "fork")
        assert done.returncode == (3 if how == "an error" else 0), done.stderr
        assert kafka.end_offset("t") == COUNT


def test_a_spawned_child_flushes_too(tmp_path: Any) -> None:
    with EmbeddedKafka() as kafka:
        done = run(tmp_path, kafka, EXITS["a child of multiprocessing"], "spawn")
        assert done.returncode == 0, done.stderr
        assert kafka.end_offset("t") == COUNT


def test_what_could_not_be_sent_is_counted_in_a_warning(tmp_path: Any) -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        kafka.faults.delay("Produce", 60_000, times=1000)
        body = "producer = begin(delivery_timeout_ms=1500, request_timeout_ms=400)\nfor n in range(50): producer.send('t', value=b'x')\n"
        started = time.monotonic()
        done = run(tmp_path, kafka, body)
        assert time.monotonic() - started < 10
        assert done.returncode == 0
        assert "50 records were not acknowledged" in done.stderr


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("kind", ["KafkaProducer", "KafkaConsumer", "KafkaShareConsumer", "KafkaAdmin", "KafkaClient"])
def test_a_dropped_client_leaves_no_thread_and_no_socket(kind: str) -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t", 2)
        before = set(threading.enumerate())
        settings = {"group_id": "g"} if kind == "KafkaShareConsumer" else {}
        client = getattr(lv, kind)(bootstrap_servers=kafka.bootstrap_servers, **settings)
        if kind == "KafkaProducer":
            handle = client.send("t", value=b"1", on_delivery=lambda *_: None)
        elif kind == "KafkaConsumer":
            client.assign([lv.TopicPartition("t", 0)])
            client.poll(0.05)
        elif kind == "KafkaShareConsumer":
            client.subscribe(["t"])
            client.poll(0.05)
        else:
            client.api_versions()
        reference = weakref.ref(client)
        assert set(threading.enumerate()) - before
        del client
        gc.collect()
        assert reference() is None
        wait_until(lambda: not set(threading.enumerate()) - before)
        if kind == "KafkaProducer":
            assert handle.result(5).offset == 0


def test_a_finalizer_does_not_block(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedKafka() as kafka, caplog.at_level(logging.WARNING):
        kafka.create_topic("t")
        kafka.faults.delay("Produce", 60_000, times=1000)
        before = set(threading.enumerate())
        producer = lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, delivery_timeout_ms=700, request_timeout_ms=200, linger_ms=0)
        producer.send("t", value=b"x")
        started = time.monotonic()
        del producer
        assert time.monotonic() - started < 0.2
        gc.collect()
        wait_until(lambda: not set(threading.enumerate()) - before)


class Holder:
    """What closes its producer when the garbage collector finds it, which may be between any two lines of levada."""

    def __init__(self, producer: lv.KafkaProducer, end: str) -> None:
        self.producer = producer
        self.end = end
        self.me = self

    def __del__(self) -> None:
        if self.end == "close":
            self.producer.close()
        else:
            self.producer.__exit__(ValueError, ValueError(), None)


@pytest.mark.parametrize("end", ["close", "leave by an exception"])
@pytest.mark.parametrize("within", ["a step", "a select", "a call of a user"])
def test_close_in_a_finalizer_within_the_clients_own_work_sends_what_is_left(
    within: str, end: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedKafka() as kafka, caplog.at_level(logging.WARNING):
        kafka.create_topic("t")
        before = set(threading.enumerate())
        producer = lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=60_000)
        handles = [producer.send("t", value=b"x") for _ in range(10)]
        where, name = (producer._driver._stepper._selectable, "select") if within == "a select" else (producer._driver._engine, "advance")
        interrupted, collected = getattr(where, name), threading.Event()

        def collecting(*arguments: Any) -> Any:
            if not collected.is_set() and (within == "a call of a user") == (threading.current_thread() is threading.main_thread()):
                collected.set()
                Holder(producer, end)
                gc.collect()
            return interrupted(*arguments)

        monkeypatch.setattr(where, name, collecting)
        producer._driver.look() if within == "a call of a user" else producer._driver.wakeup()
        assert collected.wait(5)
        assert [handle.result(5).offset for handle in handles] == list(range(10))
        wait_until(lambda: not set(threading.enumerate()) - before)
        with pytest.raises(ClosedError):
            producer.send("t", value=b"x")
    assert not caplog.records


def test_a_client_is_dropped_although_a_call_of_it_failed_a_moment_ago(embedded: EmbeddedKafka) -> None:
    """The error's traceback refers to the caller, and the caller to the client: nothing that outlives the call may keep the error."""

    def fail() -> weakref.ref[lv.KafkaAdmin]:
        admin = lv.KafkaAdmin(bootstrap_servers=embedded.bootstrap_servers)
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.delete_topics(["no-such-topic"])
        return weakref.ref(admin)

    dropped = fail()
    gc.collect()
    assert dropped() is None


class Committing(lv.RebalanceListener):
    """Refers to its consumer, as listeners do."""

    def __init__(self, consumer: Any) -> None:
        self.consumer = consumer

    def on_partitions_revoked(self, partitions: list[lv.TopicPartition]) -> None:
        self.consumer.commit()


def test_G15_a_member_is_dropped_although_its_listener_refers_to_it(embedded: EmbeddedKafka, new_topic: Callable[..., str]) -> None:
    topic = new_topic(embedded)
    consumer = lv.KafkaConsumer(bootstrap_servers=embedded.bootstrap_servers, group_id=topic)
    consumer.subscribe([topic], Committing(consumer))
    while not consumer.assignment():
        consumer.poll(0.1)
    dropped = weakref.ref(consumer)
    del consumer
    gc.collect()
    assert dropped() is None
