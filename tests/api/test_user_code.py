"""User code that Python or the client runs: it never runs under the client's lock, and what it raises ends nothing."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import levada as lv
from levada import aio
from levada.errors import CrashedError, IllegalStateError, KafkaError, Persisted
from levada.testing import EmbeddedKafka

TP = lv.TopicPartition("t", 0)


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        yield kafka


class Broken:
    """A poller with a bug."""

    def poll(self, now_ms: int) -> int:
        raise ZeroDivisionError("broken poller")


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, RuntimeError])
def test_a_callback_that_raises_ends_nothing(kafka: EmbeddedKafka, error: type[BaseException]) -> None:
    def delivered(metadata: lv.RecordMetadata, failure: KafkaError | None) -> None:
        raise error("from a callback")

    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for offset in range(3):
            assert producer.send("t", value=b"x", on_delivery=delivered).result(10).offset == offset
        too_large = producer.send("t", value=b"x" * 2_000_000, on_delivery=delivered)
        assert too_large.exception(10) is not None
        assert producer.send("t", value=b"x").result(10).offset == 3


def test_a_reset_callback_that_raises_ends_nothing(kafka: EmbeddedKafka) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send("t", value=b"x").result(10)
    called = threading.Event()

    def moved(reset: lv.PositionReset) -> None:
        called.set()
        raise SystemExit

    settings: dict[str, Any] = {"auto_offset_reset": "earliest", "on_reset": moved}
    with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, **settings) as consumer:
        consumer.assign([TP])
        consumer.seek(TP, 500)
        while not (records := consumer.poll(5)):
            pass
        assert records[0].offset == 0
        assert called.wait(5)


CALLS: dict[str, Callable[[lv.KafkaProducer, lv.KafkaConsumer, lv.KafkaAdmin], object]] = {
    "send to a new topic": lambda producer, consumer, admin: producer.send("new", value=b"x"),
    "flush": lambda producer, consumer, admin: producer.flush(5),
    "poll": lambda producer, consumer, admin: consumer.poll(0.1),
    "seek": lambda producer, consumer, admin: consumer.seek(TP, 0),
    "request": lambda producer, consumer, admin: admin.list_topics(timeout=5),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("within", ["the lock", "a step"])
def test_a_finalizer_within_the_clients_own_work_gets_an_error_and_does_not_wait(kafka: EmbeddedKafka, call: str, within: str) -> None:
    servers = kafka.bootstrap_servers
    with (
        lv.KafkaProducer(bootstrap_servers=servers) as producer,
        lv.KafkaConsumer(bootstrap_servers=servers) as consumer,
        lv.KafkaAdmin(bootstrap_servers=servers) as admin,
    ):
        consumer.assign([TP])
        for driver in (producer._driver, consumer._driver, admin._driver):
            if within == "the lock":
                driver.lock.acquire()
            else:
                driver._stepper.user_thread = threading.get_ident()
        try:
            with pytest.raises(IllegalStateError, match="finalizer"):
                CALLS[call](producer, consumer, admin)
        finally:
            for driver in (producer._driver, consumer._driver, admin._driver):
                driver._stepper.user_thread = 0
                if within == "the lock":
                    driver.lock.release()


def test_a_bug_ends_every_record_and_runs_its_callback(kafka: EmbeddedKafka) -> None:
    called: list[KafkaError | None] = []
    producer = lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=60_000)
    taken = [producer.send("t", value=b"x", on_delivery=lambda _, error: called.append(error)) for _ in range(10)]
    taken += [producer.send("t", value=b"x", partition=0) for _ in range(10)]
    producer._core._engine.add_poller(Broken())
    producer._driver.wakeup()
    assert producer._driver.join(5)
    for error in (*called, *(handle.exception(0) for handle in taken)):
        assert isinstance(error, CrashedError)
        assert error.persisted is Persisted.UNKNOWN
    assert len(called) == 10
    producer.close()


def test_a_bug_ends_a_send_that_waits_for_memory(kafka: EmbeddedKafka) -> None:
    raised: list[BaseException] = []
    producer = lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=60_000, buffer_memory=100_000)
    kafka.faults.delay("Produce", 60_000, times=10)
    producer.send("t", value=bytes(90_000))

    def send() -> None:
        try:
            producer.send("t", value=bytes(90_000))
        except KafkaError as error:
            raised.append(error)

    sender = threading.Thread(target=send)
    sender.start()
    while not producer._core.pool.queued:
        sender.join(0.01)
    producer._core._engine.add_poller(Broken())
    producer._driver.wakeup()
    sender.join(5)
    assert isinstance(raised[0], CrashedError)
    assert raised[0].persisted is Persisted.NO
    producer.close()


def test_a_bug_while_positions_are_looked_up_ends_the_consumer_in_order(kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture) -> None:
    kafka.faults.delay("ListOffsets", 60_000, times=10)
    with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TP])
        consumer.poll(0.3)
        consumer._engine.add_poller(Broken())
        consumer._driver.wakeup()
        with pytest.raises(CrashedError):
            consumer.poll(5)
        assert consumer._driver.join(5)
    assert "stops because of a bug in levada" in caplog.text
    assert "could not be closed in order" not in caplog.text


def test_a_bug_ends_every_record_on_asyncio(kafka: EmbeddedKafka) -> None:
    called: list[KafkaError | None] = []

    async def use() -> None:
        producer = aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=60_000)
        handle = await producer.send("t", value=b"x", on_delivery=lambda _, error: called.append(error))
        producer._driver._engine.add_poller(Broken())
        producer._driver.look()
        while not handle.done():
            await asyncio.sleep(0.01)
        error = await handle.exception()
        assert called == [error]
        assert isinstance(error, CrashedError)
        await producer.close()

    asyncio.run(asyncio.wait_for(use(), 5))


def test_a_bug_is_raised_to_every_task_on_asyncio_and_logged_without_the_lock(kafka: EmbeddedKafka) -> None:
    owned: list[bool] = []
    producer: Any = None

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            owned.append(producer._driver.lock._is_owned())

    async def use() -> None:
        nonlocal producer
        producer = aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=60_000)
        handle = await producer.send("t", value=b"x")
        waiting = asyncio.create_task(handle.result(20))
        await asyncio.sleep(0.05)
        producer._driver._engine.add_poller(Broken())
        producer._driver.look()
        with pytest.raises(KafkaError, match="broken poller"):
            await asyncio.wait_for(waiting, 5)
        with pytest.raises(KafkaError, match="broken poller"):
            await producer.send("t", value=b"x")

    handler = Handler()
    logger = logging.getLogger("levada.aio.driver")
    logger.addHandler(handler)
    try:
        asyncio.run(use())
    finally:
        logger.removeHandler(handler)
    assert owned == [False]
