"""The program's own signal handlers while a call defers them: in a child process, and while code of the user's runs inside the call."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import levada as lv
from levada.face.signals import DeferredSignals
from levada.testing import EmbeddedKafka

TP = lv.TopicPartition("t", 0)
PATIENCE_S = 20


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        yield kafka


@contextmanager
def handled(handle: Callable[[], object]) -> Iterator[None]:
    """Handle SIGUSR1."""
    before = signal.signal(signal.SIGUSR1, lambda number, frame: handle())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def strike() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


def told_by_child(tell: Callable[[], str]) -> str:
    """Fork, and return what the child has to tell."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, tell().encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as told:
        return told.read()


FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork() here")
QUIETLY = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@FORKS
@QUIETLY
def test_M_B19_a_child_that_another_thread_forks_during_a_call_has_the_programs_handlers(kafka: EmbeddedKafka) -> None:
    seen: list[int] = []
    told: list[str] = []

    def tell() -> str:
        strike()
        return f"{len(seen)} handled, deferred by {DeferredSignals._outermost}"

    def fork() -> None:
        time.sleep(0.2)
        told.append(told_by_child(tell))
        consumer.wakeup()

    with handled(lambda: seen.append(1)), lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
        consumer.assign([TP])
        forking = threading.Thread(target=fork)
        forking.start()
        with pytest.raises(lv.errors.WakeupError):
            consumer.poll(PATIENCE_S)
        forking.join(PATIENCE_S)
    assert told == ["1 handled, deferred by None"]


@FORKS
@QUIETLY
def test_M_B19_what_was_noted_before_a_fork_is_the_parents(kafka: EmbeddedKafka) -> None:
    seen: list[int] = []

    def tell() -> str:
        signals.check()
        noted = len(seen)
        strike()
        signals.check()
        return f"{noted} noted by the parent, {len(seen)} handled"

    with handled(lambda: seen.append(1)):
        with DeferredSignals() as signals:
            strike()
            assert told_by_child(tell) == "0 noted by the parent, 1 handled"
            assert not seen
        assert len(seen) == 1
