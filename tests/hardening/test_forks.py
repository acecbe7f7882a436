"""fork() at any moment: the child gets a clear error and never hangs, and nothing of the process stays switched."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import levada as lv
from hardening_kit import FULL
from levada.errors import ClosedError, ForkedError
from levada.testing import EmbeddedKafka

pytestmark = [
    pytest.mark.hardening,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork() here"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
FORKS = 1_000 if FULL else 60
CHILD_LIMIT_S = 20
TP = lv.TopicPartition("read", 0)


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        # Its metadata are what takes long to decode.
        kafka.create_topic("read", 500)
        yield kafka


class Work:
    """Threads that send, poll and decode large answers for as long as the `with` block lasts."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        servers = kafka.bootstrap_servers
        self.producer = lv.KafkaProducer(bootstrap_servers=servers, linger_ms=1)
        self.consumer = lv.KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
        self.consumer.assign([TP])
        self.admin = lv.KafkaAdmin(bootstrap_servers=servers)
        self.sharer = lv.KafkaShareConsumer(bootstrap_servers=servers, group_id="sharers")
        self.sharer.subscribe(["read"])
        self.steps = (self.send, self.poll, self.describe, self.share)
        self.clients = (self.producer, self.consumer, self.admin, self.sharer)
        self._stop = False
        self._threads = [threading.Thread(target=self._run, args=(step,)) for step in self.steps]

    def send(self) -> None:
        self.producer.send("read", value=b"x" * 100, partition=0).result(20)

    def poll(self) -> None:
        self.consumer.poll(0.05)

    def describe(self) -> None:
        self.admin.describe_topics(["read"])

    def share(self) -> None:
        self.sharer.poll(0.05)
        self.sharer.commit()

    def _run(self, step: object) -> None:
        while not self._stop:
            assert callable(step)
            step()

    def __enter__(self) -> Work:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop = True
        for thread in self._threads:
            thread.join()
        for client in self.clients:
            client.close()


def in_child(work: Work) -> str:
    """Use every client as a child would; return what was wrong."""
    if not gc.isenabled():
        return "the garbage collector is off"
    for step in work.steps:
        try:
            step()
        except ForkedError:
            continue
        except BaseException as error:
            return f"{step.__name__}: {error!r}"
        return f"{step.__name__} worked"
    try:
        for client in work.clients:
            client.close()
    except BaseException as error:
        return f"close: {error!r}"
    return "fine"


def outcome_of_child(tell: Callable[[], str]) -> str:
    """Return what a child made by fork() tells, or "the child hangs"."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, tell().encode()[:4_000])
        finally:
            os._exit(0)
    os.close(writer)
    deadline = time.monotonic() + CHILD_LIMIT_S
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            os.close(reader)
            return "the child hangs"
        time.sleep(0.001)
    with os.fdopen(reader) as told:
        return told.read()


def test_M_B19_a_child_forked_at_any_moment_is_told_and_never_hangs(kafka: EmbeddedKafka) -> None:
    random = Random(int(os.environ.get("LEVADA_SEED", "1")))
    with Work(kafka) as work:
        time.sleep(0.2)
        for number in range(FORKS):
            time.sleep(random.random() * 0.003)
            assert outcome_of_child(partial(in_child, work)) == "fine", f"fork {number}"
    assert gc.isenabled()


def test_M_B19_a_child_may_have_clients_of_its_own(kafka: EmbeddedKafka) -> None:
    with Work(kafka) as work:
        time.sleep(0.1)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                del work
                with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
                    offset = producer.send("read", value=b"from the child", partition=1).result(10).offset
                os.write(writer, b"%d" % offset)
            finally:
                os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        with os.fdopen(reader) as told:
            assert told.read() == "0"


def test_clients_that_were_not_used_work_in_children_and_in_the_parent(kafka: EmbeddedKafka) -> None:
    """As where gunicorn or Celery load a program before they fork."""
    kafka.create_topic("preloaded")
    servers = kafka.bootstrap_servers
    threads = threading.active_count()
    producer = lv.KafkaProducer(bootstrap_servers=servers)
    consumer = lv.KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    admin = lv.KafkaAdmin(bootstrap_servers=servers)
    never_used = lv.KafkaProducer(bootstrap_servers=servers)
    assert threading.active_count() == threads

    def use() -> str:
        offset = producer.send("preloaded", b"v").result(20).offset
        consumer.assign([lv.TopicPartition("preloaded", 0)])
        seen = 0
        while seen <= offset:
            seen += len(consumer.poll(20))
        return f"{offset} {seen} {'preloaded' in admin.list_topics()}"

    def use_and_close() -> str:
        told = use()
        for client in (producer, consumer, admin, never_used):
            client.close()
        return told

    for number in range(5):
        assert outcome_of_child(use_and_close) == f"{number} {number + 1} True"
    assert use() == "5 6 True"
    assert outcome_of_child(lambda: refusal(lambda: producer.send("preloaded", b"v"))) == "ForkedError"
    for client in (producer, consumer, admin, never_used):
        client.close()


@pytest.mark.parametrize("kind", [lv.KafkaConsumer, lv.KafkaShareConsumer])
def test_members_with_an_id_of_their_own_belong_to_the_process_that_made_them(kafka: EmbeddedKafka, kind: Any) -> None:
    settings = {"group_protocol": "consumer"} if kind is lv.KafkaConsumer else {}
    with kind(bootstrap_servers=kafka.bootstrap_servers, group_id="ids", **settings) as member:
        assert outcome_of_child(lambda: refusal(lambda: member.subscribe(["read"]))) == "ForkedError"


def refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except ForkedError as error:
        return type(error).__name__
    return "worked"


def test_a_child_forked_while_a_client_starts_never_hangs(kafka: EmbeddedKafka) -> None:
    newest: list[lv.KafkaProducer] = []
    stop = False

    def start_clients() -> None:
        while not stop:
            with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
                newest[:] = [producer]
                producer.partitions_for("read")

    def use_newest() -> str:
        try:
            newest[0].partitions_for("read", timeout=10)
        except (ForkedError, ClosedError):
            return "refused"
        return "worked"

    thread = threading.Thread(target=start_clients)
    thread.start()
    try:
        while not newest:
            time.sleep(0.001)
        outcomes = {outcome_of_child(use_newest) for _ in range(FORKS)}
    finally:
        stop = True
        thread.join()
    assert outcomes <= {"refused", "worked"}


UNUSED = """
import gc
import sys
from pathlib import Path

import levada as lv

def open_descriptors():
    return sorted(str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())

lv.KafkaProducer(bootstrap_servers=sys.argv[1]).close()
before = open_descriptors()
for _ in range(5):
    lv.KafkaConsumer(bootstrap_servers=sys.argv[1])
closed = lv.KafkaProducer(bootstrap_servers=sys.argv[1])
closed.close()
gc.collect()
assert len(open_descriptors()) == len(before), (before, open_descriptors())
try:
    closed.send("read", b"v")
except lv.errors.ClosedError:
    print("closed")
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
def test_a_client_that_was_never_used_leaves_nothing_behind(kafka: EmbeddedKafka) -> None:
    # A process of its own: in this one brokers accept connections at any time.
    done = subprocess.run([sys.executable, "-c", UNUSED, kafka.bootstrap_servers], capture_output=True, text=True, timeout=60)
    assert done.stdout == "closed\n", done.stderr
