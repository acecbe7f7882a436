"""A signal handler that raises at any moment of a call leaves a client that works, and what it raised comes out."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

import levada as lv
from hardening_kit import FULL
from levada.sync import transaction
from levada.testing import EmbeddedKafka
from share_peers import new_share_group
from signal_kit import Strike, striking

pytestmark = pytest.mark.hardening
compiled = pytest.mark.skipif(
    transaction.__file__.endswith(".py"), reason="interpreted, a handler may raise at the first instruction of a call"
)
STRIKES = 10_000 if FULL else 300
SEED = int(os.environ.get("LEVADA_SEED", "1"))
RECORDS = 20_000
LOST_S = 2.0
"""What a handler raises in a finalizer, or in a callback of the garbage collector, goes no further: then another signal is sent."""


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=2) as kafka:
        kafka.create_topic("read", 1)
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for number in range(RECORDS):
                producer.send("read", value=b"%d" % number)
        yield kafka


def struck(striker: Any, action: Callable[[], object], strikes: int, check: Callable[[], object]) -> None:
    """Repeat an action until a signal strikes, so many times; check after each."""
    for _ in range(strikes):
        striker.arm()
        armed = time.monotonic()
        try:
            while True:
                action()
                if time.monotonic() - armed > LOST_S:
                    striker.arm()
                    armed = time.monotonic()
        except Strike:
            check()


def test_strikes_around_send_and_flush(kafka: EmbeddedKafka) -> None:
    random = Random(SEED)
    confirmed: list[Any] = []
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, buffer_memory=1 << 20, batch_size=2_000) as producer:

        def act() -> None:
            chosen = random.random()
            if chosen < 0.9:
                confirmed.append(producer.send("written", value=b"x" * random.randrange(1_000), key=random.choice([None, "k"])))
            elif chosen < 0.95:
                producer.flush(10)
            else:
                confirmed[-1].result(10) if confirmed else None

        def check() -> None:
            if len(confirmed) > 2_000:
                producer.flush(20)
                assert all(delivery.exception(0) is None for delivery in confirmed)
                confirmed.clear()

        with striking(random) as striker:
            struck(striker, act, STRIKES // 3, check)
        producer.flush(20)
        assert all(delivery.exception(0) is None for delivery in confirmed)
        assert producer.send("written", value=b"last").result(10).offset >= 0


class Reading:
    """Polls in every way, and checks that nothing is skipped or repeated."""

    def __init__(self, consumer: lv.KafkaConsumer, random: Random) -> None:
        self.consumer = consumer
        self.random = random
        self.next = 0
        self.got: Any = None

    def act(self) -> None:
        if self.next >= RECORDS:
            self.next = 0
            self.consumer.seek(lv.TopicPartition("read", 0), 0)
        chosen = self.random.random()
        most = self.random.choice([1, 7, 500, None])
        # The result of a call is stored before a handler can run again, so it is either here or still to come.
        if chosen < 0.5:
            self.got = self.consumer.poll(0.5, max_records=most)
        elif chosen < 0.75:
            self.got = self.consumer.poll_arrow(0.5, max_records=most, columns=["offset"])
        else:
            self.got = self.consumer.poll_arrow(0.5, max_records=most, columns=["value", "offset"])
        self.take()

    def take(self) -> None:
        got = self.got
        if got is None:
            return
        offsets = [record.offset for record in got] if isinstance(got, list) else got.column("offset").to_pylist()
        assert offsets == list(range(self.next, self.next + len(offsets)))
        self.next, self.got = self.next + len(offsets), None

    def check(self) -> None:
        self.take()
        assert self.consumer.position(lv.TopicPartition("read", 0)) == self.next


def test_strikes_around_poll_and_poll_arrow(kafka: EmbeddedKafka) -> None:
    random = Random(SEED)
    settings: dict[str, Any] = {"auto_offset_reset": "earliest", "max_partition_fetch_bytes": 30_000}
    with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, **settings) as consumer:
        consumer.assign([lv.TopicPartition("read", 0)])
        reading = Reading(consumer, random)
        with striking(random) as striker:
            struck(striker, reading.act, STRIKES // 3, reading.check)
        before = reading.next
        reading.act()
        assert reading.next != before


class Sharing:
    """Works off a share group in every way: each record comes once, and none stays locked without the program's having it."""

    def __init__(self, consumer: lv.KafkaShareConsumer, random: Random) -> None:
        self.consumer = consumer
        self.random = random
        self.seen: list[int] = []
        self.got: Any = None

    def act(self) -> None:
        most = self.random.choice([1, 7, 200, None])
        if self.random.random() < 0.6:
            self.got = self.consumer.poll(0.3, max_records=most)
        else:
            self.got = self.consumer.poll_arrow(0.3, max_records=most, columns=["topic", "partition", "offset"])
        self.accept()
        if self.random.random() < 0.2:
            self.consumer.commit(timeout=20)

    def accept(self) -> None:
        """Take what the last call brought. What was struck is done once more: an acknowledgement may be given again until it is sent."""
        got = self.got
        if got is None:
            return
        if isinstance(got, list):
            self.consumer.acknowledge(got)
            offsets = [record.offset for record in got]
        else:
            self.consumer.acknowledge_arrow(got)
            offsets = got.column("offset").to_pylist()
        self.seen, self.got = self.seen + offsets, None


def test_strikes_around_a_share_consumer(kafka: EmbeddedKafka) -> None:
    random = Random(SEED)
    group = new_share_group(lv, kafka)
    settings: dict[str, Any] = {"group_id": group, "share_acknowledgement_mode": "explicit", "max_poll_records": 300}
    with lv.KafkaShareConsumer(bootstrap_servers=kafka.bootstrap_servers, **settings) as consumer:
        consumer.subscribe(["read"])
        sharing = Sharing(consumer, random)
        with striking(random) as striker:
            struck(striker, sharing.act, STRIKES // 3, sharing.accept)
        while len(sharing.seen) < RECORDS:
            before = len(sharing.seen)
            sharing.act()
            assert len(sharing.seen) > before, "nothing is locked by a call that was struck"
    assert sorted(sharing.seen) == list(range(RECORDS))


def test_strikes_around_acks(kafka: EmbeddedKafka) -> None:
    """Each record comes once, none is passed by a commit before it is done, and none is held back for ever."""
    random = Random(SEED)
    tp = lv.TopicPartition("read", 0)
    seen: list[int] = []
    got: list[Any] = []
    settings: dict[str, Any] = {"group_id": "acked", "auto_offset_reset": "earliest", "auto_commit_interval_ms": 20}
    with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, max_partition_fetch_bytes=30_000, **settings) as consumer:
        consumer.assign([tp])
        with consumer.acks(lanes=50, max_unacked=200, ordering=random.choice(["none", "key"])) as acks:

            def act() -> None:
                nonlocal got
                most = random.choice([1, 7, None])
                got = acks.poll(0.3, max_records=most)
                take()

            def take() -> None:
                """What was struck is done once more: only the first word about a record counts."""
                nonlocal seen, got
                for record in got:
                    record.ack()
                offsets = [record.offset for record in got]
                seen, got = seen + offsets, []

            with striking(random) as striker:
                struck(striker, act, STRIKES // 3, take)
            while len(seen) < RECORDS:
                before = len(seen)
                act()
                assert len(seen) > before
            acks.wait_empty(20)
            consumer.commit()
            at = consumer.committed([tp])[tp]
    assert sorted(seen) == list(range(RECORDS))
    assert at is not None and at.offset == RECORDS


@pytest.mark.parametrize("kind", ["producer", "consumer", "share consumer"])
def test_strikes_around_close(kafka: EmbeddedKafka, kind: str) -> None:
    random = Random(SEED)
    before = set(threading.enumerate())

    def act() -> None:
        if kind == "producer":
            client: Any = lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
            made.append(client)
            client.send("closed", value=b"x")
        elif kind == "share consumer":
            client = lv.KafkaShareConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id="closed")
            made.append(client)
            client.subscribe(["read"])
            client.poll(0.05)
        else:
            client = lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest")
            made.append(client)
            client.assign([lv.TopicPartition("read", 0)])
            client.poll(0.2)
        client.close(10)
        made.remove(client)

    def check() -> None:
        while made:
            made.pop().close(10)

    made: list[Any] = []
    with striking(random, longest_s=0.02) as striker:
        kept = set(threading.enumerate()) - before
        struck(striker, act, STRIKES // 30, check)
        check()
        left = set(threading.enumerate()) - before - kept
    # A constructor that was interrupted may have started a thread without an owner: it ends by itself.
    for thread in left:
        thread.join(12)
    assert not [thread for thread in left if thread.is_alive()]


@compiled
def test_strikes_around_the_blocks_of_transactions(kafka: EmbeddedKafka) -> None:
    """A block that was left in any way leaves nothing open: the next one would be refused."""
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="struck") as producer:

        def act() -> None:
            with producer.transaction():
                pass

        act()
        with striking(Random(SEED)) as striker:
            struck(striker, act, STRIKES // 3, lambda: None)


@compiled
def test_strikes_around_put_of_an_ack_buffer() -> None:
    """put() returns a sequence, or has taken nothing in: the same id may be put again, and no sequence is left out."""
    buffer = lv.AckBuffer(64, retain=False)
    sequences: list[int] = []

    def act() -> None:
        sequences.append(buffer.put(len(sequences)))
        buffer.mark(sequences[-1])

    def check() -> None:
        buffer.mark_many(sequences[-2:])
        assert (buffer.in_flight, buffer.safe) == (0, len(sequences) - 1 if sequences else None)

    with striking(Random(SEED), longest_s=0.001) as striker:
        struck(striker, act, STRIKES // 3, check)
    assert sequences == list(range(len(sequences)))
