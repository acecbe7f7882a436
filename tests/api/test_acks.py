"""An AckBuffer behind a producer of each API, on every broker."""

from __future__ import annotations

import asyncio
import threading
import time  # noqa: F401 - the kit of the APIs gives a test in virtual time another one
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import levada as lv
from api_kit import BOTH_APIS, EVERYWHERE, api_and_broker
from levada import aio
from levada.errors import IllegalStateError, RecordTooLargeError
from levada.testing import EmbeddedKafka

NewTopicName = Callable[..., str]
PATIENCE_S = 30


@pytest.fixture(params=EVERYWHERE)
def any_kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    """Every broker, through every API: `lv` is levada, its asyncio clients, or its clients in virtual time."""
    yield from api_and_broker(request, monkeypatch)


def test_Q1_Q4_what_is_acknowledged_in_any_order_is_safe_in_order(any_kafka: Any, new_topic: NewTopicName) -> None:
    topics = [new_topic(any_kafka, partitions=2) for _ in range(3)]
    buffer = lv.AckBuffer(2000)
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers) as producer:
        for number in range(1000):
            producer.send(topics[number % 3], str(number), partition=number % 2, ack=(buffer, buffer.put(number)))
        producer.send_arrow(topics[0], pa.table({"value": ["a", "b", "c"]}), value="value", ack=(buffer, buffer.put(1002)))
        producer.send_many(topics[1], ["d", "e"], ack=(buffer, buffer.put(1002.5)))
        producer.flush()
        assert buffer.safe == 1002.5
        assert [buffer.get() for _ in range(1002)] == [*range(1000), 1002, 1002.5]

        refused = producer.send(topics[0], b"x" * 2_000_000, ack=(buffer, buffer.put(1003)))
        producer.send(topics[0], "behind it", ack=(buffer, buffer.put(1004)))
        producer.flush()
        assert isinstance(refused.exception(), RecordTooLargeError)
        assert buffer.failure is not None
        assert buffer.failure.__cause__ is refused.exception()
        producer.send(topics[0], "again", partition=1, ack=(buffer, buffer.put(1003)))
        producer.flush()
        assert buffer.drain() == 1004


def of_orders(value: Any) -> bytes:
    raise LookupError("no such order")


class TornRows:
    """Columns whose reading fails at the second batch."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        schema = pa.schema([("value", pa.string())])

        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_pydict({"value": ["a"]}, schema)
            raise LookupError("torn")

        return pa.RecordBatchReader.from_batches(schema, batches()).__arrow_c_stream__(requested_schema)


def torn() -> Iterator[str]:
    yield "a"
    raise LookupError("torn")


@pytest.fixture(params=BOTH_APIS)
def cheap_kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


def test_Q1_a_call_that_raises_fails_its_sequence(cheap_kafka: Any, new_topic: NewTopicName) -> None:
    """Nothing is on its way that could ever settle it: `safe` would stand still, and nobody would know why."""
    topic, servers = new_topic(cheap_kafka), cheap_kafka.bootstrap_servers
    producer: Any = lv.KafkaProducer(bootstrap_servers=servers)
    strict: Any = lv.KafkaProducer(bootstrap_servers=servers, value_serializer=of_orders)
    closed: Any = lv.KafkaProducer(bootstrap_servers=servers)
    closed.close()
    rows = pa.table({"value": ["a"]})
    calls: list[Callable[[Any], Any]] = [
        lambda ack: strict.send(topic, "a", ack=ack),
        lambda ack: closed.send(topic, "a", ack=ack),
        lambda ack: producer.send(topic, 5, ack=ack),
        lambda ack: producer.send(topic, "a", headers=[("h", 5)], ack=ack),
        lambda ack: producer.send(topic, "a", partition=-1, ack=ack),
        lambda ack: producer.send(topic, "a", on_delivery="no function", ack=ack),
        lambda ack: producer.send(topic, "a", timestamp_ms=1, ack=ack),
        lambda ack: producer.send_many(topic, torn(), ack=ack),
        lambda ack: producer.send_many(topic, ["a", 5], ack=ack),
        lambda ack: producer.send_many(topic, ["a"], timestamp_ms=1, ack=ack),
        lambda ack: strict.send_many(topic, ["a"], ack=ack),
        lambda ack: closed.send_many(topic, ["a"], ack=ack),
        lambda ack: producer.send_arrow(topic, rows, value="no column", ack=ack),
        lambda ack: producer.send_arrow(topic, TornRows(), value="value", ack=ack),
        lambda ack: closed.send_arrow(topic, rows, value="value", ack=ack),
    ]
    buffer = lv.AckBuffer(100)
    for number, call in enumerate(calls):
        with pytest.raises(Exception) as raised:
            call((buffer, buffer.put(number)))
        assert buffer.failure is not None, f"call {number}"
        assert buffer.failure.__cause__ is raised.value
        producer.send(topic, "again", ack=(buffer, buffer.put(number)))
        producer.flush()
        assert buffer.safe == number
    with pytest.raises(TypeError, match="ack is a pair"):
        producer.send(topic, "a", ack=buffer)
    producer.close()
    strict.close()


def test_Q1_ctrl_c_fails_the_sequence_of_a_send_that_waits(embedded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(flow: Any) -> Any:
        raise KeyboardInterrupt

    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        buffer = lv.AckBuffer(10)
        monkeypatch.setattr(producer._driver, "call", interrupted)
        calls: list[Callable[[Any], Any]] = [
            lambda ack: producer.send("not-known-yet", "a", ack=ack),
            lambda ack: producer.send_many("not-known-yet", ["a"], ack=ack),
        ]
        for number, call in enumerate(calls):
            with pytest.raises(KeyboardInterrupt):
                call((buffer, buffer.put(number)))
            assert buffer.failure is not None
            assert isinstance(buffer.failure.__cause__, KeyboardInterrupt)
            assert buffer.put(number) == number
        monkeypatch.undo()


def test_Q1_a_cancelled_send_fails_its_sequence(embedded: Any) -> None:
    async def main() -> None:
        buffer = aio.AckBuffer(10)
        async with aio.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
            waiting = asyncio.create_task(producer.send("not-known-yet-either", "a", ack=(buffer, await buffer.put(1))))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert buffer.failure is not None
            assert isinstance(buffer.failure.__cause__, asyncio.CancelledError)

    asyncio.run(main())


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=3) as kafka:
        yield kafka


def test_Q5_Q7_a_reader_and_a_keeper_of_positions_run_beside_each_other(kafka: EmbeddedKafka) -> None:
    count = 3000
    kept: list[int] = []
    with lv.AckBuffer(50) as buffer, lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=1) as producer:

        def keep() -> None:
            kept.extend(buffer.get(timeout=PATIENCE_S) for _ in range(count))

        keeper = threading.Thread(target=keep)
        keeper.start()
        for number in range(count):
            producer.send("followed", str(number), ack=(buffer, buffer.put(number, timeout=PATIENCE_S)))
        buffer.wait_empty(PATIENCE_S)
        keeper.join()
    assert kept == list(range(count))
    assert buffer.blocked_time > 0


def test_Q5_Q7_tasks_do_so_as_well(kafka: EmbeddedKafka) -> None:
    count = 3000

    async def keep(buffer: aio.AckBuffer) -> list[int]:
        return [await buffer.get(timeout=PATIENCE_S) for _ in range(count)]

    async def main() -> list[int]:
        buffer = aio.AckBuffer(50)
        async with buffer, aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=1) as producer:
            keeper = asyncio.create_task(keep(buffer))
            for number in range(count):
                await producer.send("followed-by-tasks", str(number), ack=(buffer, await buffer.put(number, timeout=PATIENCE_S)))
            await buffer.wait_empty(PATIENCE_S)
            return await keeper

    assert asyncio.run(main()) == list(range(count))


def test_Q10_put_in_a_callback_is_refused(kafka: EmbeddedKafka) -> None:
    buffer = lv.AckBuffer(5)
    told: list[Any] = []

    def written(*_: Any) -> None:
        try:
            buffer.put(1)
        except IllegalStateError as error:
            told.append((str(error), buffer.mark(0)))

    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        buffer.put(0)
        producer.send("called-back", on_delivery=written)
    assert told == [("AckBuffer.put() in a callback could wait for acknowledgements that come after it", True)]


def test_Q10_a_wait_in_a_callback_of_an_event_loop_is_refused(kafka: EmbeddedKafka) -> None:
    buffer = lv.AckBuffer(1)
    buffer.put(0)
    told: list[str] = []

    def written(*_: Any) -> None:
        try:
            buffer.put(1)
        except IllegalStateError as error:
            told.append(str(error))

    async def main() -> None:
        async with aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            await producer.send("called-back", on_delivery=written)

    asyncio.run(main())
    assert [text for text in told if "levada.aio.AckBuffer" in text] == told != []
