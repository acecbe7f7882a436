"""All APIs of levada in the blocking style, so that one test covers each of them.

The blocking API is levada itself. AsyncioApi runs the asyncio clients on an event loop in the test's thread. SimulatedApi makes the
blocking clients in a Simulation: a call that waits advances the virtual time.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import wraps
from random import Random
from typing import Any

import pytest

import levada as lv
from levada import aio
from levada.broker.cluster.cluster import Cluster
from levada.broker.config.settings import BrokerSettings
from levada.broker.node.node import BrokerNode
from levada.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError
from levada.record.batch import RecordBatch
from levada.testing.simulation import EPOCH_MS, Simulation

RECREATE_ATTEMPTS = 100


async def cancelled_soon(action: Any, random: Random) -> Any:
    """Start an awaitable, and cancel it after at most 3 ms. Returns its result, or None if it was cancelled before its end."""
    task = asyncio.ensure_future(action)
    await asyncio.sleep(random.random() ** 3 * 0.003)
    task.cancel()
    with suppress(asyncio.CancelledError):
        return await task
    return None


def recreate(admin: Any, topic: str) -> None:
    """Delete a topic of one partition and create it again.

    If a client's Metadata request makes the broker create the topic in between, that topic is deleted as well. Fails the test after
    RECREATE_ATTEMPTS attempts.
    """
    for _ in range(RECREATE_ATTEMPTS):
        with suppress(UnknownTopicOrPartitionError):
            admin.delete_topics([topic])
        try:
            admin.create_topics([lv.NewTopic(topic, 1)])
            return
        except TopicAlreadyExistsError:
            time.sleep(0.1)
    pytest.fail(f"{topic} does not go away")


def _inner(argument: Any) -> Any:
    """Return the asyncio object behind an argument in blocking style: a client, or a method of a client."""
    return argument._inner if isinstance(argument, Blocking) else getattr(argument, "__wrapped__", argument)


class Blocking:
    """Wraps an asyncio client or result: its coroutines become blocking calls, and its async iterators become iterators."""

    def __init__(self, loop: asyncio.AbstractEventLoop, inner: Any) -> None:
        self._loop = loop
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if not callable(attribute):
            return attribute

        def call(*arguments: Any, **keywords: Any) -> Any:
            async def invoke() -> Any:
                found = attribute(*(_inner(one) for one in arguments), **keywords)
                return await found if inspect.iscoroutine(found) else found

            return self._result(self._loop.run_until_complete(invoke()))

        return wraps(attribute)(call)

    def _result(self, found: Any) -> Any:
        if inspect.isasyncgen(found):
            return self._iterate(found)
        if type(found) is list:
            return [self._result(item) for item in found]
        awaited = aio.Acks | aio.Delivery | aio.ArrowDelivery | aio.Scan | aio.Transaction
        return Blocking(self._loop, found) if isinstance(found, awaited) else found

    def _iterate(self, generator: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self._loop.run_until_complete(anext(generator))
                except StopAsyncIteration:
                    return
        finally:
            self._loop.run_until_complete(generator.aclose())

    def __iter__(self) -> Iterator[Any]:
        return self._iterate(aiter(self._inner))

    def __enter__(self) -> Blocking:
        self._loop.run_until_complete(self._inner.__aenter__())
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._loop.run_until_complete(self._inner.__aexit__(kind, error, trace))

    def __repr__(self) -> str:
        return repr(self._inner)


class Api:
    """The names of the package levada. A subclass replaces the clients."""

    def __getattr__(self, name: str) -> Any:
        return getattr(lv, name)


class AsyncioApi(Api):
    """The asyncio clients in blocking style. close() closes their event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def _make(self, kind: Any, *arguments: Any, **keywords: Any) -> Blocking:
        async def make() -> Any:
            return kind(*arguments, **keywords)

        return Blocking(self._loop, self._loop.run_until_complete(make()))

    def KafkaProducer(self, *arguments: Any, **keywords: Any) -> Blocking:
        return self._make(aio.KafkaProducer, *arguments, **keywords)

    def KafkaConsumer(self, *arguments: Any, **keywords: Any) -> Blocking:
        return self._make(aio.KafkaConsumer, *arguments, **keywords)

    def KafkaShareConsumer(self, *arguments: Any, **keywords: Any) -> Blocking:
        return self._make(aio.KafkaShareConsumer, *arguments, **keywords)

    def KafkaAdmin(self, *arguments: Any, **keywords: Any) -> Blocking:
        return self._make(aio.KafkaAdmin, *arguments, **keywords)

    def KafkaClient(self, *arguments: Any, **keywords: Any) -> Blocking:
        return self._make(aio.KafkaClient, *arguments, **keywords)

    def scan(self, *arguments: Any, **keywords: Any) -> Blocking:
        return Blocking(self._loop, aio.scan(*arguments, **keywords))

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class SimulatedKafka:
    """A broker in virtual time, with the interface of the fixture any_kafka."""

    bootstrap_servers = "kafka:9092"

    def __init__(self, simulation: Simulation) -> None:
        settings: dict[str, Any] = {"log_retention_ms": -1, "num_partitions": 1}
        self.cluster = Cluster(BrokerSettings.of(**settings), Random(1))
        node = BrokerNode(node_id=1, host="kafka", port=9092, wall_offset_ms=EPOCH_MS, cluster=self.cluster, **settings)
        simulation.network.add_server(node, "kafka", 9092)
        self.node = node

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, Any] | None = None) -> None:
        self.node.create_topic(name, partitions, config)

    def batches(self, topic: str, partition: int = 0) -> list[RecordBatch]:
        return list(self.node.log(topic, partition).batches())


class SimulatedTime:
    """Replaces the module `time` in a test: virtual time, which sleep() advances."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def time(self) -> float:
        return self.time_ns() / 1e9

    def time_ns(self) -> int:
        return (EPOCH_MS + self._simulation.now_ms) * 1_000_000

    def monotonic(self) -> float:
        return self._simulation.now_ms / 1000

    def sleep(self, seconds: float) -> None:
        self._simulation.advance(int(seconds * 1000))


class SimulatedApi(Api):
    """The blocking clients of a Simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self.KafkaProducer = simulation.producer
        self.KafkaConsumer = simulation.consumer
        self.KafkaShareConsumer = simulation.share_consumer
        self.KafkaAdmin = simulation.admin
        self.KafkaClient = simulation.client
        self.scan = simulation.scan


WITH_SOCKETS = [
    pytest.param(("blocking", "embedded"), id="embedded"),
    pytest.param(("asyncio", "embedded"), id="asyncio-embedded"),
    pytest.param(("blocking", "kafka44"), id="kafka-4.4.0", marks=pytest.mark.kafka),
    pytest.param(("asyncio", "kafka44"), id="asyncio-kafka-4.4.0", marks=pytest.mark.kafka),
    pytest.param(("blocking", "kafka39"), id="kafka-3.9.2", marks=pytest.mark.kafka),
]
SIMULATED = pytest.param(("simulation", ""), id="simulation")
EVERYWHERE = [*WITH_SOCKETS, SIMULATED]
BOTH_APIS = [pytest.param(("asyncio", "embedded"), id="asyncio-embedded"), SIMULATED]
"""Each API with its fastest broker, for behaviour that does not depend on the broker."""


def either_api(request: pytest.FixtureRequest) -> Iterator[Api]:
    """Yield the API that the parameter of a fixture names: "blocking" or "asyncio"."""
    if request.param == "blocking":
        yield Api()
        return
    asyncio_api = AsyncioApi()
    yield asyncio_api
    asyncio_api.close()


def api_and_broker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a broker, and set the name `lv` of the test module to one of the APIs. request.param: one of EVERYWHERE."""
    api, kafka = request.param
    if api == "blocking":
        yield request.getfixturevalue(kafka)
    elif api == "asyncio":
        asyncio_api = AsyncioApi()
        monkeypatch.setattr(request.module, "lv", asyncio_api)
        yield request.getfixturevalue(kafka)
        asyncio_api.close()
    else:
        with Simulation(seed=1) as simulation:
            monkeypatch.setattr(request.module, "lv", SimulatedApi(simulation))
            monkeypatch.setattr(request.module, "time", SimulatedTime(simulation), raising=False)
            yield SimulatedKafka(simulation)
