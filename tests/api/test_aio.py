"""What is asyncio's own: cancellation at any await, callbacks in the loop, loops of other kinds, and use from the wrong place."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from random import Random
from typing import Any

import pytest

import levada as lv
from api_kit import cancelled_soon
from levada import aio
from levada.errors import BufferExhaustedError, ClosedError, ConcurrentUseError, IllegalStateError, KafkaError, TimeoutError
from levada.testing import EmbeddedKafka

RECORDS = 5_000
TP = lv.TopicPartition("read", 0)


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("read")
        kafka.create_topic("written")
        yield kafka


def on_asyncio() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def on_uvloop() -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop = pytest.importorskip("uvloop", reason="uvloop is not installed").new_event_loop()
    return loop


Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=[on_asyncio, on_uvloop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """asyncio.run(), on each kind of loop."""
    loop = request.param()

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(main)

    return run


def fill(kafka: EmbeddedKafka) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(RECORDS):
            producer.send("read", value=b"%d" % number * 50)


@pytest.mark.parametrize(("value_bytes", "count", "in_the_loop"), [(1_000, 500, True), (10_000, 100, False)])
def test_only_a_large_poll_is_decoded_beside_the_loop(
    kafka: EmbeddedKafka, run: Run, value_bytes: int, count: int, in_the_loop: bool
) -> None:
    """A poll of usual records is not worth the way to the executor; one of large records would block the loop."""
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=60_000) as producer:
        for _ in range(count):
            producer.send("read", value=b"v" * value_bytes)
    threads: list[threading.Thread] = []

    def noted(raw: bytes | None) -> bytes | None:
        threads.append(threading.current_thread())
        return raw

    async def read() -> None:
        settings: dict[str, Any] = {"auto_offset_reset": "earliest", "value_deserializer": noted, "fetch_min_bytes": value_bytes * count}
        async with aio.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, **settings) as consumer:
            consumer.assign([TP])
            while len(threads) < count:
                await consumer.poll(timeout=10)

    run(read())
    assert {thread is threading.current_thread() for thread in threads} == {in_the_loop}


def test_M_B18_a_poll_cancelled_at_any_await_neither_skips_nor_repeats(kafka: EmbeddedKafka, run: Run) -> None:
    async def read() -> None:
        random = Random(3)
        settings: dict[str, Any] = {"auto_offset_reset": "earliest", "max_partition_fetch_bytes": 40_000}
        async with aio.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, **settings) as consumer:
            consumer.assign([TP])
            seen: list[int] = []
            while len(seen) < RECORDS:
                most = random.choice([3, 100, None])
                if random.random() < 0.5:
                    records = await cancelled_soon(consumer.poll(1.0, max_records=most), random)
                    seen += [record.offset for record in records or ()]
                else:
                    columns = await cancelled_soon(consumer.poll_arrow(1.0, max_records=most, columns=["offset", "value"]), random)
                    seen += [] if columns is None else columns.column("offset").to_pylist()
            assert seen == list(range(RECORDS))

    fill(kafka)
    run(read())


def test_a_poll_of_a_consumer_that_was_idle_asks_at_once(kafka: EmbeddedKafka, run: Run) -> None:
    """Nothing but the poll itself happens then, and a loop steps the engine only when something does."""
    fill(kafka)

    async def main() -> float:
        async with aio.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TP])
            await consumer.partitions_for("read")
            begun = time.monotonic()
            assert await consumer.poll(timeout=30)
            return time.monotonic() - begun

    assert run(main()) < 5, "the time-outs that would bring it about are of 8 seconds and more"


@pytest.mark.parametrize("goes_on", ["poll", "poll_arrow", "position", "loop"])
def test_what_a_loop_was_left_with_is_not_skipped(kafka: EmbeddedKafka, run: Run, goes_on: str) -> None:
    async def read() -> int | None:
        async with aio.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TP])
            async for record in consumer:
                if record.offset == 2:
                    break
            if goes_on == "poll":
                return (await consumer.poll(20))[0].offset
            if goes_on == "poll_arrow":
                columns = await consumer.poll_arrow(20, columns=["offset"])
                return int(columns.column("offset")[0].as_py())
            if goes_on == "position":
                return await consumer.position(TP)
            async for record in consumer:
                return record.offset
        return None

    fill(kafka)
    assert run(read()) == 3


def test_M_B18_a_send_cancelled_at_any_await_leaves_a_producer_that_works(kafka: EmbeddedKafka, run: Run) -> None:
    async def write() -> None:
        random = Random(4)
        async with aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, buffer_memory=100_000, batch_size=8_000) as producer:
            handles = []
            for _ in range(600):
                handle = await cancelled_soon(producer.send("written", value=b"x" * 5_000), random)
                handles += [] if handle is None else [handle]
                if random.random() < 0.05:
                    await cancelled_soon(producer.flush(), random)
            await producer.flush(20)
            for handle in handles:
                assert (await handle).offset >= 0
            pool = producer._producing.core.pool
            assert pool.available == pool.total
            assert not pool.queued

    run(write())


def test_B5_a_record_without_memory_in_time_fails_and_send_returns(kafka: EmbeddedKafka, run: Run) -> None:
    async def write() -> None:
        async with aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, buffer_memory=20_000, max_block_ms=300) as producer:
            await (await producer.send("full", b"x"))
            kafka.faults.delay("Produce", ms=1500)
            first = await producer.send("full", b"x" * 15_000)
            second = await producer.send("full", b"x" * 15_000)
            with pytest.raises(BufferExhaustedError, match=r"buffer\.memory=20000 .*max\.block\.ms=300"):
                await second
            assert (await first).offset == 1

    run(write())


def test_callbacks_run_in_the_loop_and_may_send(kafka: EmbeddedKafka, run: Run) -> None:
    async def write() -> list[int]:
        offsets: list[int] = []
        again: list[asyncio.Task[Any]] = []
        async with aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:

            def delivered(metadata: lv.RecordMetadata, error: KafkaError | None) -> None:
                assert asyncio.get_running_loop() is loop
                offsets.append(metadata.offset)
                if len(offsets) == 1:
                    again.append(loop.create_task(producer.send("written", value=b"again", on_delivery=delivered)))
                    raise SystemExit("callbacks end nothing")

            loop = asyncio.get_running_loop()
            await (await producer.send("written", value=b"first", on_delivery=delivered))
            await asyncio.gather(*again)
        return offsets

    assert run(write()) == [0, 1]


def test_waiting_does_not_hold_the_loop(kafka: EmbeddedKafka, run: Run) -> None:
    async def read() -> int:
        async with aio.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TP])
            turns = 0
            poll = asyncio.ensure_future(consumer.poll(0.5))
            while not poll.done():
                turns += 1
                await asyncio.sleep(0.01)
            assert not await poll
            return turns

    assert run(read()) > 20


def test_no_thread_but_for_long_pieces(kafka: EmbeddedKafka, run: Run) -> None:
    async def read() -> None:
        before = set(threading.enumerate())
        async with aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            await (await producer.send("read", value=b"x"))
            async with aio.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
                consumer.assign([TP])
                assert len(await consumer.poll(5)) == 1
                assert set(threading.enumerate()) == before

    run(read())


class LoopWithoutReaders(asyncio.SelectorEventLoop):
    """As Windows' proactor."""

    def add_reader(self, *_: Any) -> None:  # type: ignore[override]
        raise NotImplementedError


def test_a_loop_without_add_reader_gets_a_thread(kafka: EmbeddedKafka) -> None:
    async def both() -> list[bytes | None]:
        async with aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for number in range(50):
                await (await producer.send("read", value=b"%d" % number))
        async with aio.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TP])
            return [record.value for record in await consumer.poll(5)]

    with asyncio.Runner(loop_factory=LoopWithoutReaders) as runner:
        # asyncio itself watches its own wake-up pipe with a reader, through the private name.
        assert runner.run(both())[:2] == [b"0", b"1"]


@pytest.mark.parametrize("loop_factory", [on_asyncio, on_uvloop, LoopWithoutReaders])
def test_N23_a_broker_is_reached_by_a_name_that_takes_time_to_look_up(
    kafka: EmbeddedKafka, loop_factory: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up = socket.getaddrinfo

    def slow(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:
        if host == "slow.example" and not flags:
            time.sleep(0.05)
            host = "127.0.0.1"
        return look_up(host, port, family, type, proto, flags)

    async def ask() -> list[str]:
        servers = kafka.bootstrap_servers.replace("127.0.0.1", "slow.example")
        async with aio.KafkaAdmin(bootstrap_servers=servers) as admin:
            return await admin.list_topics(timeout=5)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert "read" in runner.run(ask())


def test_a_client_belongs_to_its_loop(kafka: EmbeddedKafka) -> None:
    with pytest.raises(IllegalStateError, match="needs a running event loop"):
        aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

    async def make() -> aio.KafkaProducer:
        return aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

    with asyncio.Runner() as runner:
        producer = runner.run(make())
        with pytest.raises(IllegalStateError, match="another event loop"):
            asyncio.run(producer.flush())
        runner.run(producer.close())


MADE: dict[str, Callable[[str], Any]] = {
    "producer": lambda servers: aio.KafkaProducer(bootstrap_servers=servers, linger_ms=60_000),
    "consumer": lambda servers: aio.KafkaConsumer(bootstrap_servers=servers),
    "client": lambda servers: aio.KafkaClient(bootstrap_servers=servers),
    "admin": lambda servers: aio.KafkaAdmin(bootstrap_servers=servers),
}


@pytest.mark.parametrize("kind", MADE)
def test_close_in_another_loop_is_refused_and_leaves_the_client_as_it_was(kafka: EmbeddedKafka, kind: str) -> None:
    async def make() -> Any:
        made = MADE[kind](kafka.bootstrap_servers)
        if kind == "producer":
            await made.send("written", value=b"x")
        return made

    with asyncio.Runner() as runner:
        made = runner.run(make())
        with pytest.raises(IllegalStateError, match="another event loop"):
            asyncio.run(made.close())
        runner.run(made.close())
        asyncio.run(made.close())
    assert kind != "producer" or kafka.end_offset("written") == 1


def test_one_task_at_a_time(kafka: EmbeddedKafka, run: Run) -> None:
    async def read() -> None:
        async with aio.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TP])
            first = asyncio.create_task(consumer.poll(0.3), name="the first")
            await asyncio.sleep(0.05)
            with pytest.raises(ConcurrentUseError, match="the first"):
                await consumer.poll(0.1)
            assert not await first

    run(read())


def test_poll_reads_what_another_task_assigns_while_it_waits(kafka: EmbeddedKafka, run: Run) -> None:
    async def read() -> None:
        async with aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            await (await producer.send("written", value=b"x"))
        async with aio.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TP])
            assert not await consumer.poll(0.1)
            waiting = asyncio.create_task(consumer.poll(30))
            # The task begins to wait.
            await asyncio.sleep(0.05)
            consumer.assign([lv.TopicPartition("written", 0)])
            assert [record.value for record in await asyncio.wait_for(waiting, 20)] == [b"x"]

    run(read())


def test_close_ends_what_waits(kafka: EmbeddedKafka, run: Run) -> None:
    async def wait() -> None:
        client = aio.KafkaClient(bootstrap_servers=kafka.bootstrap_servers)
        kafka.faults.delay("ApiVersions", 60_000, times=10)
        asked = asyncio.create_task(client.api_versions(timeout=30))
        await asyncio.sleep(0.1)
        await client.close()
        with pytest.raises(ClosedError):
            await asked
        with pytest.raises(ClosedError):
            await client.api_versions()

    run(wait())


def test_a_wait_that_is_over_says_so(kafka: EmbeddedKafka, run: Run) -> None:
    async def write() -> None:
        async with aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=300) as producer:
            handle = await producer.send("written", value=b"x")
            with pytest.raises(TimeoutError) as late:
                await handle.result(timeout=0.01)
            assert not late.value.retriable
            assert (await handle).offset == 0

    run(write())


def test_a_dropped_producer_still_sends(kafka: EmbeddedKafka, run: Run) -> None:
    async def write() -> None:
        producer = aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=1_000)
        await producer.send("written", value=b"x")
        del producer
        gc.collect()
        for _ in range(100):
            await asyncio.sleep(0.02)
            if kafka.end_offset("written"):
                return

    run(write())
    assert kafka.end_offset("written") == 1


@pytest.mark.drops_clients
def test_M_B18_a_producer_dropped_as_its_loop_ends_counts_what_is_lost(
    kafka: EmbeddedKafka, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[KafkaError | None] = []

    async def write() -> aio.Delivery:
        producer = aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=10_000)
        deliveries = [await producer.send("written", value=b"x", on_delivery=lambda _, error: called.append(error)) for _ in range(10)]
        return deliveries[0]

    kafka.faults.delay("Produce", 60_000, times=10)
    with caplog.at_level(logging.WARNING):
        first = run(write())
    assert "was not closed: 10 records were not acknowledged" in caplog.text
    assert first.done()
    assert len(called) == 10
    assert all(isinstance(error, ClosedError) for error in called)


def test_a_dropped_producer_is_a_task_until_all_is_sent(kafka: EmbeddedKafka, run: Run) -> None:
    async def write() -> None:
        producer = aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=60_000)
        await producer.send("written", value=b"x")
        del producer
        gc.collect()
        await asyncio.sleep(0)
        (ending,) = asyncio.all_tasks() - {asyncio.current_task()}
        assert ending.get_name().startswith("the end of producer 'levada-producer-")
        await asyncio.wait_for(ending, 5)

    run(write())
    assert kafka.end_offset("written") == 1


def test_a_producer_whose_loop_has_ended_says_what_is_lost(kafka: EmbeddedKafka, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def write() -> tuple[aio.KafkaProducer, aio.Delivery]:
        producer = aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=10_000)
        return producer, await producer.send("written", value=b"x")

    with caplog.at_level(logging.WARNING):
        producer, delivery = run(write())
        del producer
        gc.collect()
    assert "was not closed before its event loop ended" in caplog.text
    assert "closed before the record was acknowledged; persisted: no" in repr(delivery)
