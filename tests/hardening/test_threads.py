"""Threads of a program strike the same clients at once: nothing acknowledged is lost, doubled or reordered, and all memory is given back.

For a Python without a global interpreter lock: a thousand rounds with LEVADA_HARDENING=1 and PYTHON_GIL=0. It holds with the lock, too.
A round that fails prints its seed; LEVADA_SEED repeats it as the first round.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from random import Random
from typing import Any, NamedTuple

import pytest

import levada as lv
from hardening_kit import scaled
from levada.errors import AbortedError, ClosedError, IllegalStateError, KafkaError, NotAcknowledgedError, Persisted
from levada.testing import EmbeddedKafka

pytestmark = pytest.mark.hardening
ROUNDS = scaled(1_000, 10)
SEED = int(os.environ.get("LEVADA_SEED", "1"))
PATIENCE_S = 60
TOPICS = {"keys": 4, "one": 1, "columns": 3}
SEALED = "transactions"
CODECS: list[Any] = ["none", "none", "gzip", "zstd", "lz4", "snappy"]


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        for topic, partitions in {**TOPICS, SEALED: 2}.items():
            kafka.create_topic(topic, partitions)
        yield kafka


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Let threads take turns every few bytecodes, where they do not run at once anyway."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class Threads:
    """Threads that begin at the same time. join() raises the first error of any."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._begin = threading.Event()
        self._errors: list[BaseException] = []

    def add(self, action: Callable[..., object], *arguments: Any) -> None:
        def run() -> None:
            self._begin.wait()
            try:
                action(*arguments)
            except BaseException as error:
                self._errors.append(error)

        self._threads.append(threading.Thread(target=run, daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        self._begin.set()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE_S)
        if self._errors:
            raise self._errors[0]
        assert not any(thread.is_alive() for thread in self._threads), "a thread hangs"


class Sent(NamedTuple):
    """A record that send() took. told: what its callback was called with; None without a callback."""

    name: bytes
    number: int
    thread: int
    delivery: lv.Delivery
    told: list[KafkaError | None] | None


class Round:
    """Threads that send through one producer, and that poll, mark and read metrics meanwhile."""

    def __init__(self, kafka: EmbeddedKafka, seed: int) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.where: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap_servers}
        self.senders = self.random.randint(2, 5)
        self.records = self.random.randint(20, 150)
        self.ends = self.random.choice(["flush", "flush", "abort", "close"])
        self.producer = lv.KafkaProducer(
            **self.where,
            linger_ms=self.random.choice([0, 0, 1, 5]),
            batch_size=self.random.choice([200, 1_000, 8_000, 100_000]),
            buffer_memory=self.random.choice([40_000, 200_000, 8 << 20]),
            compression_type=self.random.choice(CODECS),
            max_in_flight_requests_per_connection=self.random.choice([1, 5]),
        )
        self.acks = lv.AckBuffer(self.random.choice([5, 1_000]), retain=False)
        self.put_lock = threading.Lock()
        self.ids = count(1)
        self.sent: list[list[Sent]] = [[] for _ in range(self.senders)]
        self.columns: list[tuple[int, Any]] = []
        self.starts = {tp: kafka.end_offset(*tp) for topic, parts in TOPICS.items() for tp in ((topic, n) for n in range(parts))}
        self.over = threading.Event()
        self.read: list[Counter[tuple[str, int, int, bytes]]] = []

    def run(self) -> None:
        sending, beside = Threads(), Threads()
        for thread in range(self.senders):
            sending.add(self.send, thread)
        sending.add(self.send_columns)
        beside.add(self.look)
        beside.add(self.mark)
        for _ in range(2):
            beside.add(self.consume, self.random.random() < 0.5)
        beside.start()
        sending.start()
        if self.ends == "close":
            self.over.wait(self.random.random() / 20)
            self.producer.close(PATIENCE_S)
            sending.join()
        elif self.ends == "abort":
            for _ in range(3):
                self.over.wait(self.random.random() / 50)
                self.producer.abort_pending()
            sending.join()
        else:
            sending.join()
        if self.ends != "close":
            self.producer.flush(PATIENCE_S)
            self.check_memory()
            self.check_metrics()
            self.producer.close(PATIENCE_S)
        self.over.set()
        beside.join()
        self.check()

    # In threads

    def send(self, thread: int) -> None:
        random = Random(f"{self.seed} {thread}")
        for number in range(self.records):
            name = b"%d %d %d" % (self.seed, thread, number)
            told: list[KafkaError | None] | None = [] if random.random() < 0.4 else None
            arguments: dict[str, Any] = {} if told is None else {"on_delivery": lambda metadata, error, told=told: told.append(error)}
            topic = random.choice(["keys", "one"])
            kind = random.random()
            if kind < 0.4:
                arguments["key"] = b"%d" % random.randrange(20)
            elif kind < 0.6:
                arguments["partition"] = random.randrange(TOPICS[topic])
            if random.random() < 0.1:
                arguments["headers"] = {"h": b"x"}
            value = name + b" " * random.choice([1, 10, 300, 3_000])
            try:
                if random.random() < 0.3:
                    with self.put_lock:  # Ids rise; who puts the larger one must come later.
                        arguments["ack"] = (self.acks, self.acks.put(next(self.ids), PATIENCE_S))
                delivery = self.producer.send(topic, value, **arguments)
            except ClosedError:
                assert self.ends == "close"
                return
            except NotAcknowledgedError:
                assert self.ends != "flush"
                continue
            self.sent[thread].append(Sent(name, number, thread, delivery, told))
            if random.random() < 0.01:
                with suppress(AbortedError, ClosedError):
                    delivery.result(PATIENCE_S)
            if random.random() < 0.005:
                with suppress(ClosedError):
                    self.producer.flush(PATIENCE_S)

    def send_columns(self) -> None:
        import pyarrow as pa

        random = Random(f"{self.seed} columns")
        for number in range(random.randrange(4)):
            rows = random.randint(1, 200)
            table = pa.table({"value": [b"%d c%d %d" % (self.seed, number, row) for row in range(rows)]})
            try:
                self.columns.append((rows, self.producer.send_arrow("columns", table, value="value")))
            except ClosedError:
                assert self.ends == "close"
                return

    def look(self) -> None:
        """Read what any thread may read at any time."""
        while not self.over.wait(0.001):
            with suppress(ClosedError):
                self.producer.metrics()
                self.producer.partitions_for("keys")
            assert 0 <= len(self.acks) <= self.acks.size
            assert self.acks.in_flight >= 0
            repr(self.acks)
            repr(self.acks.failure)
            for sent in list(self.sent[0])[-5:]:
                repr(sent.delivery)

    def mark(self) -> None:
        """Put, mark and take the ids of an AckBuffer in four threads."""
        buffer, ids = lv.AckBuffer(self.random.choice([1, 7, 100])), self.random.randint(50, 500)
        work: list[int] = []
        got: list[str] = []
        threads = Threads()

        def put() -> None:
            for number in range(ids):
                work.append(buffer.put(f"id {number:06}", PATIENCE_S))

        def mark(thread: int) -> None:
            random = Random(f"{self.seed} mark {thread}")
            while len(got) < ids:
                with suppress(IndexError):
                    buffer.mark(work.pop(random.choice([0, -1])))

        threads.add(put)
        threads.add(mark, 0)
        threads.add(mark, 1)

        def get() -> None:
            for _ in range(ids):
                got.append(buffer.get(PATIENCE_S))

        threads.add(get)
        threads.start()
        threads.join()
        assert got == [f"id {number:06}" for number in range(ids)]
        assert buffer.safe == f"id {ids - 1:06}"

    def consume(self, as_columns: bool) -> None:
        read: Counter[tuple[str, int, int, bytes]] = Counter()
        with lv.KafkaConsumer(**self.where, fetch_max_wait_ms=20) as consumer:
            partitions = [lv.TopicPartition(*tp) for tp in self.starts]
            consumer.assign(partitions)
            for tp in partitions:
                consumer.seek(tp, self.starts[tp])
            while not self.is_read(consumer, partitions):
                if as_columns:
                    rows = consumer.poll_arrow(0.05, columns=["topic", "partition", "offset", "value"]).to_pylist()
                    read.update((row["topic"], row["partition"], row["offset"], bytes(row["value"]).rstrip()) for row in rows)
                else:
                    read.update(
                        (found.topic, found.partition, found.offset, bytes(found.value or b"").rstrip()) for found in consumer.poll(0.05)
                    )
        self.read.append(read)

    def is_read(self, consumer: lv.KafkaConsumer[Any, Any], partitions: list[lv.TopicPartition]) -> bool:
        if not self.over.is_set():
            return False
        ends = consumer.end_offsets(partitions)
        return all(consumer.position(tp) >= end for tp, end in ends.items())

    # Afterwards

    def check_memory(self) -> None:
        """Wait until requests that abort_pending() has left in flight are answered; then no memory may be charged."""
        pool, over_s = self.producer._core.pool, time.monotonic() + PATIENCE_S
        while self.ends == "abort" and pool.available != pool.total and time.monotonic() < over_s:
            time.sleep(0.001)
        assert pool.available == pool.total, "memory was not given back"

    def check_metrics(self) -> None:
        metrics = {
            (metric.group, metric.name): value for metric, value in self.producer.metrics().items() if "topic" not in dict(metric.tags)
        }
        counted = {name: value for (group, name), value in metrics.items() if group == "producer-metrics"}
        written = sum(sent.delivery.exception(0) is None for thread in self.sent for sent in thread)
        written += sum(rows.report(0).rows - rows.report(0).failed for _, rows in self.columns)
        taken = sum(map(len, self.sent)) + sum(rows for rows, _ in self.columns)
        on_the_wire = counted["record-send-total"] - counted["record-retry-total"]
        assert written <= on_the_wire <= taken
        if self.ends == "flush":
            assert written == taken == on_the_wire
            assert counted["record-error-total"] == 0
            self.acks.wait_empty(PATIENCE_S)
            assert self.acks.safe == (next(self.ids) - 1 or None)

    def check(self) -> None:
        first, second = self.read
        assert first == second, "two consumers read different records"
        assert set(first.values()) <= {1}, "a record was returned twice"
        log: dict[bytes, list[tuple[str, int, int]]] = {}
        for topic, partition, offset, name in first:
            log.setdefault(name, []).append((topic, partition, offset))
        expected: set[bytes] = set()
        for thread in self.sent:
            latest: dict[tuple[str, int], tuple[int, int]] = {}
            for sent in thread:
                expected.add(sent.name)
                self.check_one(sent, log.get(sent.name, []))
                for topic, partition, offset in log.get(sent.name, []):
                    assert latest.get((topic, partition), (-1, -1)) < (sent.number, offset)
                    assert latest.get((topic, partition), (-1, -1))[1] < offset, f"{sent.name!r} comes before an earlier one of its thread"
                    latest[topic, partition] = sent.number, offset
        for number, (rows, delivery) in enumerate(self.columns):
            for row, (offset, error) in enumerate(
                zip(*(delivery.to_arrow(0).column(name).to_pylist() for name in ("offset", "error")), strict=True)
            ):
                name = b"%d c%d %d" % (self.seed, number, row)
                expected.add(name)
                places = log.get(name, [])
                assert len(places) <= 1, f"{name!r} was written twice"
                assert error is not None or [place[2] for place in places] == [offset], f"{name!r} was acknowledged, and is lost"
            assert rows == row + 1
        assert set(log) <= expected, "records that were not sent"

    def check_one(self, sent: Sent, places: list[tuple[str, int, int]]) -> None:
        error = sent.delivery.exception(0)
        assert sent.told is None or sent.told == [error], f"{sent.name!r}: the callback got {sent.told}, the handle {error}"
        assert len(places) <= 1, f"{sent.name!r} was written twice: {places}"
        if error is None:
            assert places == [(*sent.delivery.tp, sent.delivery.metadata().offset)], f"{sent.name!r} was acknowledged, and is lost"
        else:
            assert isinstance(error, AbortedError | ClosedError), error
            assert not places or error.persisted is not Persisted.NO, f"{sent.name!r} failed for certain, and was written"


@contextmanager
def told_its_seed(seed: int) -> Iterator[None]:
    try:
        yield
    except BaseException:
        print(f"LEVADA_SEED={seed} repeats this round")
        raise


def test_threads_that_send_poll_and_mark_at_once(kafka: EmbeddedKafka) -> None:
    for seed in range(SEED, SEED + ROUNDS):
        with told_its_seed(seed):
            Round(kafka, seed).run()


def test_threads_within_transactions(kafka: EmbeddedKafka) -> None:
    """Several threads send in each transaction; readers of committed records see all of it, or nothing."""
    written: list[bytes] = []
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="threads", linger_ms=1, batch_size=500) as producer:
        for seed in range(SEED, SEED + ROUNDS):
            with told_its_seed(seed):
                written += in_a_transaction(producer, Random(seed), seed)
    assert sorted(all_committed(kafka)) == sorted(written)


def in_a_transaction(producer: lv.KafkaProducer[Any, Any], random: Random, seed: int) -> list[bytes]:
    values = [[b"%d %d %d" % (seed, thread, number) for number in range(random.randint(1, 60))] for thread in range(3)]
    aborts, early = random.random() < 0.4, random.random() < 0.3
    threads = Threads()

    def send(values: list[bytes]) -> None:
        for value in values:
            try:
                producer.send(SEALED, value, key=random.choice([None, b"a", b"b"]))
            except (IllegalStateError, AbortedError):
                assert aborts
                return

    for part in values:
        threads.add(send, part)
    producer.begin_transaction(PATIENCE_S) if seed > SEED else begin_first(producer)
    threads.start()
    if not (aborts and early):
        threads.join()
    producer.abort_transaction(PATIENCE_S) if aborts else producer.commit_transaction(PATIENCE_S)
    threads.join()
    return [] if aborts else [value for part in values for value in part]


def begin_first(producer: lv.KafkaProducer[Any, Any]) -> None:
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction(PATIENCE_S)


def all_committed(kafka: EmbeddedKafka) -> Iterator[bytes]:
    with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed") as consumer:
        partitions = [lv.TopicPartition(SEALED, number) for number in range(2)]
        consumer.assign(partitions, consumer.end_offsets(partitions))
        consumer.seek_to_beginning()
        while consumer.finished() != set(partitions):
            yield from (record.value or b"" for record in consumer.poll(1.0))
