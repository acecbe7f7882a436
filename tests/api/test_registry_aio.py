"""Serializers and deserializers of a registry on an event loop: the loop goes on while the registry is asked."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

import levada as lv
from levada import aio
from levada.errors import ClosedError, ConfigError, IllegalStateError, Persisted, RecordDeserializationError, SerializationError
from levada.registry import (
    AsyncSchemaRegistryClient,
    JSONDeserializer,
    JSONSerializer,
    RegistryError,
    RegistryNotFoundError,
    Schema,
    SchemaRegistryClient,
)
from levada.testing import EmbeddedKafka, EmbeddedRegistry
from share_peers import new_share_group

SCHEMA = '{"title": "Order", "type": "object"}'
OTHER = '{"title": "Other", "type": "object"}'
TICKS = 50
LONGEST_S = 20.0
TP = lv.TopicPartition("orders", 0)


class HeldRegistry(EmbeddedRegistry):
    """A registry that answers only after release(), once hold() was called. A loop that waits for the answer would never call release()."""

    def __init__(self) -> None:
        super().__init__()
        self.was_late = False
        self._free = threading.Event()
        self._free.set()
        self._asked: Callable[[], object] = lambda: None

    def hold(self) -> asyncio.Event:
        """Hold the next answers back; return an event that is set, in the running loop, when the registry is asked."""
        asked, loop = asyncio.Event(), asyncio.get_running_loop()
        self._asked = lambda: loop.call_soon_threadsafe(asked.set)
        self._free.clear()
        return asked

    def release(self) -> None:
        self._asked = lambda: None
        self._free.set()

    def respond(self, method: str, target: str, authorization: str | None, body: bytes) -> Any:
        self._asked()
        self.was_late |= not self._free.wait(LONGEST_S)
        return super().respond(method, target, authorization, body)


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders")
        yield kafka


@pytest.fixture
def server() -> Iterator[HeldRegistry]:
    with HeldRegistry() as running:
        yield running
        assert not running.was_late


@pytest.fixture
def registry(server: HeldRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient(schema_registry_url=server.url, max_retries=0) as client:
        yield client


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(main)


async def ticks(asked: asyncio.Event, server: HeldRegistry) -> None:
    """Run TICKS times while the registry holds its answer back, then let it answer."""
    await asked.wait()
    for _ in range(TICKS):
        await asyncio.sleep(0)
    server.release()


def producer(kafka: EmbeddedKafka, serializer: Any, **settings: Any) -> aio.KafkaProducer[Any, Any]:
    return aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, value_serializer=serializer, **settings)


@pytest.fixture
def from_json(server: HeldRegistry) -> Iterator[Callable[..., JSONDeserializer[Any]]]:
    """Make deserializers that know no schema yet."""
    with SchemaRegistryClient(schema_registry_url=server.url, max_retries=0) as client:
        yield partial(JSONDeserializer, client, validate=True)


def number(record: Any) -> Any:
    return record.value["number"]


def fill(kafka: EmbeddedKafka, registry: SchemaRegistryClient, *schemas: str, count: int = 3) -> None:
    """Write records of each schema in turn: {"number": 0} and so on."""
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as plain:
        for number in range(count):
            schema = schemas[number * len(schemas) // count]
            registry.set_compatibility(None, "NONE")
            data = JSONSerializer(registry, schema, topic="orders")({"number": number})
            plain.send("orders", value=data, partition=0)


# Writing


@pytest.mark.parametrize("settings", [{}, {"auto_register_schemas": False}, {"use_latest_version": True}], ids=str)
def test_the_loop_goes_on_while_the_first_send_waits_for_the_registry(
    kafka: EmbeddedKafka, server: HeldRegistry, registry: SchemaRegistryClient, settings: dict[str, Any]
) -> None:
    with SchemaRegistryClient(schema_registry_url=server.url) as other:
        other.register_schema("orders-value", Schema(SCHEMA, "JSON"))

    async def main() -> None:
        async with producer(kafka, JSONSerializer(registry, SCHEMA, topic="orders", **settings)) as sends:
            ticking = asyncio.create_task(ticks(server.hold(), server))
            first = await sends.send("orders", value={"number": 0})
            await ticking
            asked = len(server.requests)
            second = await sends.send("orders", value={"number": 1})
            assert len(server.requests) == asked
            assert [(await first).offset, (await second).offset] == [0, 1]

    run(main())


def test_keys_are_serialized_so_too_and_null_asks_nothing(
    kafka: EmbeddedKafka, server: HeldRegistry, registry: SchemaRegistryClient
) -> None:
    key = JSONSerializer(registry, SCHEMA, topic="orders", field="key")
    value = JSONSerializer(registry, SCHEMA, topic="orders")

    async def main() -> None:
        async with producer(kafka, value, key_serializer=key) as sends:
            await (await sends.send("orders"))
            assert server.requests == []
            ticking = asyncio.create_task(ticks(server.hold(), server))
            await (await sends.send("orders", key={"number": 0}))
            await ticking
            assert registry.get_subjects() == ["orders-key"]

    run(main())


def test_tasks_that_send_at_once_ask_once_and_keep_their_order(
    kafka: EmbeddedKafka, server: HeldRegistry, registry: SchemaRegistryClient
) -> None:
    async def main() -> list[Any]:
        async with producer(kafka, JSONSerializer(registry, SCHEMA, topic="orders")) as sends:

            async def many(task: int) -> None:
                for number in range(3):
                    await sends.send("orders", value=[task, number], partition=0)

            asked = server.hold()
            tasks = [asyncio.create_task(many(task)) for task in range(20)]
            await ticks(asked, server)
            await asyncio.gather(*tasks)
        return await read(kafka)

    found = run(main())
    assert server.requests == ["POST /subjects/orders-value/versions"]
    assert len(found) == 60
    assert all([number for task, number in found if task == wanted] == [0, 1, 2] for wanted in range(20))


async def read(kafka: EmbeddedKafka) -> list[Any]:
    scan = aio.scan("orders", bootstrap_servers=kafka.bootstrap_servers, value_deserializer=JSONDeserializer())
    return [record.value async for record in scan]


def test_a_cancelled_send_ends_at_once_and_its_question_serves_the_next(
    kafka: EmbeddedKafka, server: HeldRegistry, registry: SchemaRegistryClient
) -> None:
    async def main() -> list[Any]:
        async with producer(kafka, JSONSerializer(registry, SCHEMA, topic="orders")) as sends:
            asked = server.hold()
            first = asyncio.create_task(sends.send("orders", value="cancelled"))
            await asked.wait()
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            second = asyncio.create_task(sends.send("orders", value="sent"))
            await ticks(asked, server)
            await (await second)
        return await read(kafka)

    assert run(main()) == ["sent"]
    assert server.requests == ["POST /subjects/orders-value/versions"]


def test_a_record_that_waited_for_the_registry_does_not_go_into_the_next_transaction(
    kafka: EmbeddedKafka, server: HeldRegistry, registry: SchemaRegistryClient
) -> None:
    async def main() -> list[Any]:
        async with producer(kafka, JSONSerializer(registry, SCHEMA, topic="orders"), transactional_id="shop") as sends:
            await sends.init_transactions()
            await sends.begin_transaction()
            asked = server.hold()
            late = asyncio.create_task(sends.send("orders", value="late"))
            await asked.wait()
            await sends.abort_transaction()
            async with sends.transaction():
                await ticks(asked, server)
                with pytest.raises(IllegalStateError, match="has ended") as raised:
                    await late
                assert raised.value.persisted is Persisted.NO
                await sends.send("orders", value="in time")
        return await read(kafka)

    assert run(main()) == ["in time"]


def test_a_failed_question_fails_every_send_that_waits_and_is_asked_again(
    kafka: EmbeddedKafka, server: HeldRegistry, registry: SchemaRegistryClient
) -> None:
    async def main() -> list[Any]:
        async with producer(kafka, JSONSerializer(registry, SCHEMA, topic="orders")) as sends:
            server.faults.answer(503)
            asked = server.hold()
            tasks = [asyncio.create_task(sends.send("orders", value=number)) for number in range(3)]
            await ticks(asked, server)
            for error in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(error, SerializationError)
                assert isinstance(error.__cause__, RegistryError)
            assert len(server.requests) == 1
            await (await sends.send("orders", value="sent"))
        return await read(kafka)

    assert run(main()) == ["sent"]


def test_an_error_after_the_last_waiting_task_was_cancelled_is_not_logged(
    kafka: EmbeddedKafka, server: HeldRegistry, registry: SchemaRegistryClient
) -> None:
    async def main() -> list[Any]:
        told: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        async with producer(kafka, JSONSerializer(registry, SCHEMA, topic="orders")) as sends:
            server.faults.answer(503)
            asked = server.hold()
            sending = asyncio.create_task(sends.send("orders", value=1))
            await asked.wait()
            sending.cancel()
            await asyncio.wait([sending])
            server.release()
        await asyncio.get_running_loop().shutdown_default_executor()
        await asyncio.sleep(0)  # The question's future ends in the loop.
        gc.collect()
        return told

    assert run(main()) == []


def test_a_latest_version_that_is_not_cached_is_asked_for_each_record_beside_the_loop(kafka: EmbeddedKafka, server: HeldRegistry) -> None:
    async def main(registry: SchemaRegistryClient) -> None:
        async with producer(kafka, JSONSerializer(registry, topic="orders", use_latest_version=True)) as sends:
            for number in range(3):
                ticking = asyncio.create_task(ticks(server.hold(), server))
                await sends.send("orders", value=number)
                await ticking

    with SchemaRegistryClient(schema_registry_url=server.url, cache_latest_ttl_sec=0) as registry:
        registry.register_schema("orders-value", Schema(SCHEMA, "JSON"))
        run(main(registry))


def test_a_subclass_with_a_call_of_its_own_is_called(kafka: EmbeddedKafka, registry: SchemaRegistryClient) -> None:
    class Wrapped(JSONSerializer[Any]):
        def __call__(self, value: Any) -> bytes | None:
            return super().__call__({"wrapped": value})

    class Unwrapped(JSONDeserializer[Any]):
        def __call__(self, data: bytes, header: bytes | None = None) -> Any:
            return super().__call__(data, header)["wrapped"]

    async def main() -> list[Any]:
        async with producer(kafka, Wrapped(registry, SCHEMA, topic="orders")) as sends:
            await (await sends.send("orders", value=1))
        scan = aio.scan("orders", bootstrap_servers=kafka.bootstrap_servers, value_deserializer=Unwrapped())
        return [record.value async for record in scan]

    assert run(main()) == [1]


# Reading


@asynccontextmanager
async def consumer(kafka: EmbeddedKafka, deserializer: Any, **settings: Any) -> AsyncIterator[aio.KafkaConsumer[Any, Any]]:
    servers = kafka.bootstrap_servers
    async with aio.KafkaConsumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", value_deserializer=deserializer, **settings
    ) as reads:
        reads.assign([TP])
        yield reads


async def by_poll(kafka: EmbeddedKafka, deserializer: Any) -> list[Any]:
    async with consumer(kafka, deserializer) as reads:
        return [record.value for record in await reads.poll(LONGEST_S)]


async def by_loop(kafka: EmbeddedKafka, deserializer: Any) -> list[Any]:
    async with consumer(kafka, deserializer, stop_at_end=True) as reads:
        return [record.value async for record in reads]


async def by_acks(kafka: EmbeddedKafka, deserializer: Any) -> list[Any]:
    found = []
    async with consumer(kafka, deserializer, stop_at_end=True, group_id="g", enable_auto_commit=False) as reads, reads.acks() as acks:
        async for record in acks:
            found.append(record.value)
            record.ack()
    return found


async def by_scan(kafka: EmbeddedKafka, deserializer: Any) -> list[Any]:
    scan = aio.scan("orders", bootstrap_servers=kafka.bootstrap_servers, value_deserializer=deserializer)
    return [record.value async for record in scan]


async def by_share_poll(kafka: EmbeddedKafka, deserializer: Any) -> list[Any]:
    settings = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": new_share_group(lv, kafka)}
    found: list[Any] = []
    async with aio.KafkaShareConsumer(settings, value_deserializer=deserializer) as reads:
        reads.subscribe(["orders"])
        while len(found) < 3:
            found += [record.value for record in await reads.poll(LONGEST_S)]
    return found


@pytest.mark.parametrize("schemas", [(SCHEMA,), (SCHEMA, OTHER)], ids=["one schema", "two"])
@pytest.mark.parametrize("reading", [by_poll, by_loop, by_acks, by_scan, by_share_poll])
def test_the_loop_goes_on_while_the_first_read_waits_for_the_registry(
    kafka: EmbeddedKafka,
    server: HeldRegistry,
    registry: SchemaRegistryClient,
    reading: Callable[[EmbeddedKafka, Any], Awaitable[list[Any]]],
    schemas: tuple[str, ...],
    from_json: Callable[..., Any],
) -> None:
    fill(kafka, registry, *schemas)

    async def main() -> list[Any]:
        ticking = asyncio.create_task(ticks(server.hold(), server))
        found = await reading(kafka, from_json())
        await ticking
        return found

    assert run(main()) == [{"number": number} for number in range(3)]


def test_the_blocking_consumer_returns_records_of_new_schemas_in_one_poll(
    kafka: EmbeddedKafka, server: HeldRegistry, registry: SchemaRegistryClient, from_json: Callable[..., Any]
) -> None:
    fill(kafka, registry, SCHEMA, OTHER)
    settings = {"bootstrap_servers": kafka.bootstrap_servers, "auto_offset_reset": "earliest"}
    with lv.KafkaConsumer(settings, value_deserializer=from_json()) as consumer:
        consumer.assign([TP])
        assert [number(record) for record in consumer.poll(LONGEST_S)] == [0, 1, 2]


def test_a_schema_that_is_known_is_read_in_the_loop(
    kafka: EmbeddedKafka, server: HeldRegistry, registry: SchemaRegistryClient, from_json: Callable[..., Any]
) -> None:
    """Only the records of a poll that met a new schema are deserialized in another thread."""
    fill(kafka, registry, SCHEMA)
    threads = []

    def noting(value: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return value

    async def main() -> None:
        async with consumer(kafka, from_json(from_dict=noting)) as reads:
            await reads.poll(LONGEST_S, max_records=1)
            await reads.poll(LONGEST_S)

    run(main())
    assert threads == [False, True, True]


def test_a_cancelled_poll_neither_skips_nor_repeats(
    kafka: EmbeddedKafka, server: HeldRegistry, registry: SchemaRegistryClient, from_json: Callable[..., Any]
) -> None:
    fill(kafka, registry, SCHEMA, OTHER)

    async def main() -> list[Any]:
        async with consumer(kafka, from_json()) as reads:
            asked = server.hold()
            first = asyncio.create_task(reads.poll(LONGEST_S))
            await asked.wait()
            first.cancel()
            await ticks(asked, server)
            with pytest.raises(asyncio.CancelledError):
                await first
            return [number(record) for record in await reads.poll(LONGEST_S)]

    assert run(main()) == [0, 1, 2]


def test_a_registry_that_fails_is_asked_again_by_the_next_poll(
    kafka: EmbeddedKafka, server: HeldRegistry, registry: SchemaRegistryClient, from_json: Callable[..., Any]
) -> None:
    fill(kafka, registry, SCHEMA)

    async def main() -> list[Any]:
        async with consumer(kafka, from_json()) as reads:
            server.faults.answer(503)
            ticking = asyncio.create_task(ticks(server.hold(), server))
            with pytest.raises(RecordDeserializationError) as raised:
                await reads.poll(LONGEST_S)
            await ticking
            assert isinstance(raised.value.__cause__, RegistryError)
            return [number(record) for record in await reads.poll(LONGEST_S)]

    assert run(main()) == [0, 1, 2]


def test_avro_and_protobuf_do_not_block_either(kafka: EmbeddedKafka, server: HeldRegistry, registry: SchemaRegistryClient) -> None:
    pytest.importorskip("fastavro", reason="the extra avro is not installed")
    pytest.importorskip("google.protobuf", reason="the extra protobuf is not installed")
    from google.protobuf.wrappers_pb2 import StringValue

    from levada.registry import AvroDeserializer, AvroSerializer, ProtobufSerializer

    async def main() -> list[Any]:
        key = ProtobufSerializer(registry, StringValue, topic="orders", field="key")
        value = AvroSerializer(registry, json.dumps("string"), topic="orders", to_dict=str.upper)
        async with producer(kafka, value, key_serializer=key) as sends:
            ticking = asyncio.create_task(ticks(server.hold(), server))
            for _ in range(2):
                await sends.send("orders", key=StringValue(value="k"), value="v", partition=0)
            await ticking
        async with consumer(kafka, AvroDeserializer(fresh, from_dict=str.lower)) as reads:
            ticking = asyncio.create_task(ticks(server.hold(), server))
            found = [record.value for record in await reads.poll(LONGEST_S)]
            await ticking
            return found

    with SchemaRegistryClient(schema_registry_url=server.url) as fresh:
        assert run(main()) == ["v", "v"]


# The client itself


def test_the_client_has_the_calls_of_the_blocking_one() -> None:
    def members(client: type) -> dict[str, Any]:
        return {name: found for name, found in inspect.getmembers(client, inspect.isfunction) if not name.startswith("_")}

    blocking, loops = members(SchemaRegistryClient), members(AsyncSchemaRegistryClient)
    assert {name: inspect.signature(found).parameters.keys() for name, found in loops.items()} == {
        name: inspect.signature(found).parameters.keys() for name, found in blocking.items()
    }
    assert [name for name, found in loops.items() if not inspect.iscoroutinefunction(found)] == ["clear_caches"]
    assert loops["get_versions"].__doc__ == blocking["get_versions"].__doc__


def test_the_loop_goes_on_while_the_client_asks(kafka: EmbeddedKafka, server: HeldRegistry) -> None:
    async def main() -> None:
        async with AsyncSchemaRegistryClient(schema_registry_url=server.url, max_retries=0) as registry:
            ticking = asyncio.create_task(ticks(server.hold(), server))
            schema_id = await registry.register_schema("orders-value", Schema(SCHEMA, "JSON"))
            await ticking
            assert json.loads((await registry.get_schema(schema_id)).schema_str) == json.loads(SCHEMA)
            assert await registry.get_versions("orders-value") == [1]
            with pytest.raises(RegistryNotFoundError, match="other"):
                await registry.get_latest_version("other")
            to_json = JSONSerializer(registry.blocking, SCHEMA, topic="orders", auto_register_schemas=False)
            async with producer(kafka, to_json) as sends:
                assert (await (await sends.send("orders", value={}))).offset == 0

    run(main())


def test_a_cancelled_call_of_the_client_ends_at_once(server: HeldRegistry) -> None:
    async def main() -> None:
        async with AsyncSchemaRegistryClient(schema_registry_url=server.url, max_retries=0) as registry:
            asked = server.hold()
            registering = asyncio.create_task(registry.register_schema("orders-value", Schema(SCHEMA, "JSON")))
            await asked.wait()
            registering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await registering
            server.release()
            assert await registry.register_schema("orders-value", Schema(SCHEMA, "JSON")) == 1

    run(main())


def test_close_ends_a_call_that_waits_for_its_next_attempt() -> None:
    async def main() -> None:
        registry = AsyncSchemaRegistryClient(schema_registry_url="http://127.0.0.1:1", retries_wait_ms=60_000, retries_max_wait_ms=60_000)
        asking = asyncio.create_task(registry.get_subjects())
        await asyncio.sleep(0)
        await registry.close()
        with pytest.raises(ClosedError):
            await asyncio.wait_for(asking, LONGEST_S)

    run(main())


def test_a_serializer_says_what_it_takes_of_the_client() -> None:
    registry = AsyncSchemaRegistryClient(schema_registry_url="http://127.0.0.1:1")
    wrong: Any = registry
    with pytest.raises(TypeError, match="takes the SchemaRegistryClient first, got a AsyncSchemaRegistryClient; pass its `blocking`"):
        JSONSerializer(wrong, SCHEMA, topic="orders")
    with pytest.raises(ConfigError, match=r"registry is a SchemaRegistryClient.*; pass its `blocking`"):
        aio.scan("orders", bootstrap_servers="127.0.0.1:1", value_format="confluent-avro", registry=wrong)
    with pytest.raises(AttributeError, match="use `async with`"):
        wrong.__enter__()
