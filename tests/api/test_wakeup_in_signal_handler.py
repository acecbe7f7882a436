"""KafkaConsumer.wakeup() in signal handlers, which interrupt the main thread wherever it is, whatever it holds."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

import levada as lv
from levada.errors import WakeupError
from levada.testing import EmbeddedKafka

TP = lv.TopicPartition("orders", 0)
EVERY_S = 0.002
FOR_S = 1.5


@pytest.fixture
def consumer() -> Iterator[lv.KafkaConsumer]:
    with EmbeddedKafka() as kafka, lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
        kafka.create_topic("orders")
        consumer.assign([TP])
        consumer.poll(timeout=0.1)
        yield consumer


@contextmanager
def alarms(handle: Callable[[], None]) -> Iterator[None]:
    def on_alarm(number: int, frame: FrameType | None) -> None:
        handle()

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, EVERY_S, EVERY_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "use", [lambda consumer: consumer.poll(timeout=5), lambda consumer: consumer.end_offsets([TP])], ids=["poll", "end_offsets"]
)
@pytest.mark.timeout(60)
def test_F1_a_storm_of_signals_ends_every_wait_and_blocks_none(
    consumer: lv.KafkaConsumer, use: Callable[[lv.KafkaConsumer], object]
) -> None:
    woken = longest_s = 0.0
    over = time.monotonic() + FOR_S
    with alarms(consumer.wakeup):
        while time.monotonic() < over:
            began = time.monotonic()
            try:
                use(consumer)
            except WakeupError:
                woken += 1
            longest_s = max(longest_s, time.monotonic() - began)
    assert woken > 20
    assert longest_s < 1
    try:
        consumer.poll(timeout=0)
    except WakeupError:
        assert consumer.poll(timeout=0) == []


def test_F1_wakeup_does_not_wait(consumer: lv.KafkaConsumer) -> None:
    locked, done = threading.Event(), threading.Event()

    def hold_the_engine() -> None:
        with consumer._driver.lock:
            locked.set()
            done.wait(10)

    thread = threading.Thread(target=hold_the_engine)
    thread.start()
    locked.wait()
    began = time.monotonic()
    consumer.wakeup()
    assert time.monotonic() - began < 1
    done.set()
    thread.join()
    with pytest.raises(WakeupError):
        consumer.poll(timeout=5)
