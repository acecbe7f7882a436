"""Calls that have nothing to wait for, made in a loop, keep the interpreter's lock between two switches, as any other code does.

A call that gives it up for a moment takes it again before another thread has woken up, and that one begins anew to wait for its turn: the
program's other threads would hardly run.
"""

from __future__ import annotations

import selectors
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

import levada as lv
from levada.net import short_io
from levada.testing import EmbeddedKafka

pytestmark = pytest.mark.skipif(not short_io.COMPILED, reason="interpreted code cannot keep the lock")

CALLS = 200
FEW = CALLS // 10
"""Now and then something happens to a connection, or another of the client's threads is at work and is waited for."""

Act = Callable[[], object]


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=1) as kafka:
        kafka.create_topic("quiet", 1)
        yield kafka


@pytest.fixture
def selects(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often each thread gave the lock up to look at its sockets."""
    counts: Counter[int] = Counter()

    class Counting(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            counts[threading.get_ident()] += 1
            found: list[tuple[selectors.SelectorKey, int]] = super().select(timeout)
            return found

    monkeypatch.setattr(selectors, "DefaultSelector", Counting)
    return counts


def count_of(selects: Counter[int], act: Act) -> int:
    act()
    before = selects[threading.get_ident()]
    for _ in range(CALLS):
        act()
    return selects[threading.get_ident()] - before


def test_flushes_with_nothing_to_flush(kafka: EmbeddedKafka, selects: Counter[int]) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send("quiet", b"x").result(20)
        assert count_of(selects, producer.flush) < FEW


def test_transactions_with_nothing_in_them(kafka: EmbeddedKafka, selects: Counter[int]) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="quiet") as producer:

        def act() -> None:
            with producer.transaction():
                pass

        assert count_of(selects, act) < FEW


def test_calls_of_a_consumer_that_has_nothing_to_read(kafka: EmbeddedKafka, selects: Counter[int]) -> None:
    tp = lv.TopicPartition("quiet", 0)
    with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="latest") as consumer:
        consumer.assign([tp])
        assert consumer.poll(0.1) == []
        for act in (lambda: consumer.poll(0), lambda: consumer.poll_arrow(0), lambda: consumer.position(tp)):
            assert count_of(selects, act) < FEW
        # Whatever makes an Arrow batch gives the lock up, too.
        assert consumer.poll_arrow(0) is consumer.poll_arrow(0)


def test_calls_of_a_share_consumer_that_has_nothing_to_read(kafka: EmbeddedKafka, selects: Counter[int]) -> None:
    with lv.KafkaShareConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id="quiet") as consumer:
        consumer.subscribe(["quiet"])
        assert consumer.poll(0.5) == []
        for act in (lambda: consumer.poll(0), lambda: consumer.poll_arrow(0), consumer.commit):
            assert count_of(selects, act) < FEW
        assert consumer.poll_arrow(0) is consumer.poll_arrow(0)
