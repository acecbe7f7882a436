"""KafkaProducer where threads meet: callbacks that take their time, waits that somebody else ends, closing amid it all."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import levada as lv
from levada.error_codes import ErrorCode
from levada.errors import ClosedError, KafkaError
from levada.record import header
from levada.record.compression import Buffer, Codec, compress
from levada.testing import EmbeddedKafka

PATIENCE_S = 20


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=4) as kafka:
        yield kafka


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name[:60]}-{time.monotonic_ns()}".translate(str.maketrans("[]", "--"))


def started(*actions: Callable[[], Any]) -> list[threading.Thread]:
    threads = [threading.Thread(target=action, daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    return threads


def test_A25_flush_waits_for_callbacks_that_are_still_running(kafka: EmbeddedKafka, topic: str) -> None:
    began, ended = threading.Event(), threading.Event()

    def slow(metadata: lv.RecordMetadata, error: KafkaError | None) -> None:
        began.set()
        time.sleep(0.3)
        ended.set()

    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=0) as producer:
        delivery = producer.send(topic, b"v", on_delivery=slow)
        assert began.wait(PATIENCE_S)
        assert not delivery.done()
        producer.flush(PATIENCE_S)
        assert ended.is_set()
        assert delivery.done()


def test_TR39_memory_that_one_thread_gives_up_wakes_the_one_that_steps(kafka: EmbeddedKafka, topic: str) -> None:
    settings: dict[str, Any] = {"buffer_memory": 20_000, "batch_size": 1000, "max_block_ms": 2000, "linger_ms": 0}
    large = pa.table({"value": [b"x" * 15_000], "partition": pa.array([1], pa.int32())})
    at: dict[str, float] = {}
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **settings) as producer:
        producer.send(topic, b"x").result(PATIENCE_S)
        wait, pool = producer._driver.wait, producer._core.pool

        def leave_slowly(*args: Any) -> Any:
            try:
                return wait(*args)
            except lv.errors.TimeoutError:
                time.sleep(0.2)  # Time enough for the next one to take over the stepping, and fall asleep.
                raise

        def wait_in_vain() -> None:
            producer.send_arrow(topic, large, value="value", partition="partition")
            at["gave up"] = time.monotonic()

        def wait_behind() -> None:
            producer.send(topic, b"x" * 2000, partition=2)
            at["sent"] = time.monotonic()

        producer._driver.wait = leave_slowly  # type: ignore[method-assign, assignment]
        kafka.faults.delay("Produce", ms=5000)
        blocker = producer.send(topic, b"x" * 10_000, partition=0)
        in_vain = started(wait_in_vain)
        deadline = time.monotonic() + PATIENCE_S
        while not pool.queued and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(1)
        behind = started(wait_behind)
        for thread in (*in_vain, *behind):
            thread.join(PATIENCE_S)
        assert not blocker.done(), "nothing else can have woken them"
    assert at["sent"] - at["gave up"] < 0.5, "it slept although its memory was there"


def test_M_P5_close_ends_within_its_timeout_though_a_callback_does_not(kafka: EmbeddedKafka, topic: str) -> None:
    release, began = threading.Event(), threading.Event()

    def stuck(metadata: lv.RecordMetadata, error: KafkaError | None) -> None:
        began.set()
        release.wait(PATIENCE_S)

    producer = lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=0)
    producer.send(topic, b"v", on_delivery=stuck)
    assert began.wait(PATIENCE_S)
    begun = time.monotonic()
    producer.close(1.5)
    assert time.monotonic() - begun < 2.5
    release.set()


def test_A7_close_fails_every_send_that_waits_for_memory(kafka: EmbeddedKafka, topic: str) -> None:
    settings: dict[str, Any] = {"buffer_memory": 20_000, "max_block_ms": 15_000, "linger_ms": 0}
    producer = lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **settings)
    producer.send(topic, b"x").result(PATIENCE_S)
    kafka.faults.delay("Produce", ms=1000)
    first = producer.send(topic, b"x" * 15_000, partition=0)
    turned_away: list[BaseException] = []

    def wait() -> None:
        try:
            producer.send(topic, b"x" * 15_000, partition=1)
        except ClosedError as error:
            turned_away.append(error)

    threads = started(*[wait] * 4)
    time.sleep(0.3)
    begun = time.monotonic()
    producer.close(PATIENCE_S)
    for thread in threads:
        thread.join(1)
    assert time.monotonic() - begun < 5
    assert len(turned_away) == 4
    assert first.result(0).offset >= 0


def test_M_B18_ctrl_c_ends_a_send_that_waits_for_memory(kafka: EmbeddedKafka, topic: str) -> None:
    settings: dict[str, Any] = {"buffer_memory": 20_000, "max_block_ms": 15_000, "linger_ms": 0}
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **settings) as producer:
        producer.send(topic, b"x", partition=0).result(PATIENCE_S)
        held = kafka.faults.hold("Produce")
        first = producer.send(topic, b"x" * 15_000, partition=0)
        pool = producer._core.pool

        def interrupt() -> None:
            deadline = time.monotonic() + PATIENCE_S
            while not pool.queued and time.monotonic() < deadline:
                time.sleep(0.005)
            os.kill(os.getpid(), signal.SIGINT)

        (thread,) = started(interrupt)
        with pytest.raises(KeyboardInterrupt):
            producer.send(topic, b"x" * 15_000, partition=1)
        thread.join(PATIENCE_S)
        assert not pool.queued
        held.release()
        assert first.result(PATIENCE_S).offset >= 0
        assert producer.send(topic, b"x" * 15_000, partition=1).result(PATIENCE_S).offset == 0
        assert pool.available == pool.total


@pytest.mark.parametrize(
    "settings",
    [
        {"compression_type": "lz4", "linger_ms": 1},
        {"linger_ms": 0, "batch_size": 0, "max_in_flight_requests_per_connection": 1},
        {"linger_ms": 20, "enable_idempotence": False, "acks": 1},
    ],
    ids=["compressed", "one in flight", "acks=1"],
)
def test_X_K13_threads_that_send_flush_and_wait_amid_faults_all_come_home_and_all_memory_too(
    kafka: EmbeddedKafka, topic: str, settings: dict[str, Any]
) -> None:
    """Every record is reported once, every wait ends, and no byte of buffer.memory is missing in the end."""
    producer = lv.KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers,
        **{"buffer_memory": 60_000, "batch_size": 4000, "retry_backoff_ms": 10, "retry_backoff_max_ms": 50, **settings},
    )
    reported: list[int] = []
    deliveries: list[Any] = []
    faults: list[BaseException] = []
    records, workers = 300, 6

    def work(worker: int) -> None:
        try:
            for number in range(records):
                delivery = producer.send(topic, bytes(100 + 37 * number % 2000), partition=(worker + number) % 4, on_delivery=note)
                deliveries.append(delivery)
                if number % 50 == 0:
                    producer.flush(PATIENCE_S)
                if number % 70 == 0:
                    delivery.exception(PATIENCE_S)
        except BaseException as fault:
            faults.append(fault)

    def note(metadata: lv.RecordMetadata, error: KafkaError | None) -> None:
        reported.append(1)

    def disturb() -> None:
        for turn in range(12):
            time.sleep(0.05)
            kafka.faults.disconnect("Produce", nth=1 + turn % 3, applied=turn % 2 == 0)
            kafka.faults.fail_next("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, topic=topic, times=1 + turn % 4)

    producer.partitions_for(topic)
    threads = started(disturb, *[partial(work, worker) for worker in range(workers)])
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not [thread for thread in threads if thread.is_alive()], "somebody never came home"
    producer.close(PATIENCE_S)
    kafka.faults.clear()
    assert not faults
    assert [delivery.exception(0) for delivery in deliveries] == [None] * (records * workers)
    assert len(reported) == records * workers
    assert producer._core.pool.available == 60_000
    assert not producer._core.accumulator.incomplete
    assert not producer._core.accumulator.unsettled


def test_B12_slow_callbacks_do_not_let_the_producer_hold_more_than_buffer_memory(kafka: EmbeddedKafka, topic: str) -> None:
    limit, release = 8 * 2**20, threading.Event()
    taken: list[int] = []

    def stuck(metadata: lv.RecordMetadata, error: KafkaError | None) -> None:
        release.wait(PATIENCE_S)

    def send_all() -> None:
        value = bytes(1000)
        with contextlib.suppress(ClosedError):
            for _ in range(60_000):
                producer.send(topic, value, on_delivery=stuck)
                taken.append(1)

    producer = lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, buffer_memory=limit, max_block_ms=60_000)
    producer.partitions_for(topic)
    tracemalloc.start()
    try:
        (sender,) = started(send_all)
        before, deadline = -1, time.monotonic() + PATIENCE_S
        while len(taken) != before and time.monotonic() < deadline:
            before = len(taken)
            time.sleep(0.5)
        assert sender.is_alive(), "everything was taken"
        # What the broker keeps in this process is not the producer's.
        ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, "*/broker/*"), tracemalloc.Filter(False, "*/net/*")])
        held = sum(trace.size for trace in ours.traces)
    finally:
        tracemalloc.stop()
        release.set()
    producer.close(PATIENCE_S)
    sender.join(PATIENCE_S)
    assert held < 2 * limit, f"{held / 2**20:.1f} MiB for buffer.memory of 8 MiB"


def test_send_in_a_callback_while_memory_is_full_fails_instead_of_waiting_for_itself(kafka: EmbeddedKafka, topic: str) -> None:
    outcomes: list[BaseException | None] = []
    settings: dict[str, Any] = {"buffer_memory": 20_000, "batch_size": 1000, "linger_ms": 0}

    def send_on(metadata: lv.RecordMetadata, error: KafkaError | None) -> None:
        begun = time.monotonic()
        delivery = producer.send(topic, b"x" * 15_000)
        outcomes.append(delivery.exception(0) if time.monotonic() - begun < 1 else None)

    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **settings) as producer:
        producer.send(topic, b"x" * 15_000, on_delivery=send_on)
        producer.flush(PATIENCE_S)
    assert [type(outcome) for outcome in outcomes] == [lv.errors.BufferExhaustedError]


def test_A4_full_batches_are_compressed_without_the_lock_and_not_remembered(
    kafka: EmbeddedKafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compressed: list[tuple[int, bool]] = []
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, compression_type="lz4", batch_size=10_000, linger_ms=1000) as producer:

        def spy(codec: Codec, data: Buffer, level: int | None) -> Buffer:
            compressed.append((threading.get_ident(), producer._driver.lock._is_owned()))  # type: ignore[attr-defined]
            return compress(codec, data, level)

        monkeypatch.setattr(header, "compress", spy)
        random = Random(4)
        deliveries = [producer.send(topic, random.randbytes(900), partition=0) for _ in range(100)]
        producer.flush(PATIENCE_S)
        assert not producer._core.accumulator.full
    assert sorted(delivery.result(0).offset for delivery in deliveries) == list(range(100))
    mine = [owned for thread, owned in compressed if thread == threading.get_ident()]
    assert len(mine) > 3
    assert not any(mine[:-1]), "but for the last one, which was not full"
