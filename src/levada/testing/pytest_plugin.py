"""Fixtures for pytest: Kafka brokers that start in milliseconds, topics and clients (docs/PYTEST.md).

pytest loads this module in every run if levada is installed, so modules that take time to import are imported only in the fixtures.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from levada.sync.consumer import KafkaConsumer
    from levada.sync.producer import KafkaProducer
    from levada.testing.embedded import EmbeddedKafka
    from levada.testing.simulated import SimulatedKafka

FAULTS: Final = (
    *("fail_next", "drop_response", "disconnect", "delay", "hold"),
    *("blackhole", "close_mid_frame", "throttle", "cap_version"),
)
"""The methods of levada.broker.node.faults.Faults that @pytest.mark.kafka_faults may name."""

_KINDS: Final = ("kafka_time", "kafka_cluster", "kafka")
_MARKERS: Final = (
    "kafka_faults(name, *args, **kwargs): call kafka.faults.<name>(*args, **kwargs) before the test begins",
    "kafka_topic(partitions=1, config=None): how the fixture `topic` creates its topic",
)
LEAK_PATIENCE_S = 2.0
"""How long a broker may take to notice that a client has closed its connections, in seconds."""

_CLOSE_TIMEOUT_S: Final = 10.0
# A topic's name has at most 249 characters, and a number that makes it unique follows the prefix.
_LONGEST_PREFIX: Final = 200
_numbers = count(1)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    for line in _MARKERS:
        config.addinivalue_line("markers", line)


# Brokers


@pytest.fixture(scope="session")
def kafka_settings() -> dict[str, Any]:
    """The broker settings for the fixtures `kafka`, `kafka_cluster` and `kafka_time`, such as {"num_partitions": 3}. Override it in a
    conftest.py.
    """
    return {}


@pytest.fixture(scope="session")
def kafka_broker(kafka_settings: dict[str, Any]) -> Iterator[EmbeddedKafka]:
    """The EmbeddedKafka of the fixture `kafka`, for fixtures that live longer than a test. With pytest-xdist, each process has one."""
    from levada.testing.embedded import EmbeddedKafka

    with EmbeddedKafka(**kafka_settings) as broker:
        yield broker


@pytest.fixture
def kafka(request: pytest.FixtureRequest, kafka_broker: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    """An EmbeddedKafka that all tests of a process share. After each test, stopped nodes are started, faults are cleared and held responses
    are released. A test that leaves a client connected fails.
    """
    known = _clients_of(kafka_broker)
    _plan_faults(request, kafka_broker)
    yield kafka_broker
    for node in sorted(kafka_broker.node.cluster.stopped):
        kafka_broker.start_node(node)
    _end_faults(kafka_broker)
    _check_leaks(kafka_broker, known)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest, kafka_settings: dict[str, Any]) -> Iterator[EmbeddedKafka]:
    """An EmbeddedKafka of three nodes for one test. A test that leaves a client connected fails."""
    from levada.testing.embedded import EmbeddedKafka

    with EmbeddedKafka(brokers=3, **kafka_settings) as cluster:
        _plan_faults(request, cluster)
        yield cluster
        _end_faults(cluster)
        _check_leaks(cluster, set())


@pytest.fixture
def kafka_time(request: pytest.FixtureRequest, kafka_settings: dict[str, Any]) -> Iterator[SimulatedKafka]:
    """A SimulatedKafka, that is, a broker in virtual time. kafka_time.advance(seconds) lets time pass."""
    from levada.testing.simulated import SimulatedKafka

    with SimulatedKafka(**kafka_settings) as simulated:
        _plan_faults(request, simulated)
        yield simulated


# Topics and clients of the broker that the test uses


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a new topic with one partition, which is deleted after the test. The marker @pytest.mark.kafka_topic(partitions=3,
    config={...}) sets other properties.
    """
    broker = _broker_of(request)
    marker = request.node.get_closest_marker("kafka_topic")
    name = f"{re.sub(r'[^a-zA-Z0-9._-]', '-', request.node.name)[:_LONGEST_PREFIX]}-{next(_numbers)}"
    broker.create_topic(name, **{"partitions": 1, **_arguments_of(marker)})
    yield name
    if broker.node.cluster.topic(name) is not None:
        broker.delete_topic(name)


@pytest.fixture
def producer_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., KafkaProducer[Any, Any]]]:
    """A function producer_factory(**settings) that creates producers. They are closed after the test."""
    from levada.sync.producer import KafkaProducer

    yield from _factory(_broker_of(request), KafkaProducer, "producer")


@pytest.fixture
def consumer_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., KafkaConsumer[Any, Any]]]:
    """A function consumer_factory(**settings) that creates consumers. They are closed after the test."""
    from levada.sync.consumer import KafkaConsumer

    yield from _factory(_broker_of(request), KafkaConsumer, "consumer")


@pytest.fixture
def producer(producer_factory: Callable[..., KafkaProducer[Any, Any]]) -> KafkaProducer[Any, Any]:
    """A producer with default settings."""
    return producer_factory()


@pytest.fixture
def consumer(consumer_factory: Callable[..., KafkaConsumer[Any, Any]], topic: str) -> KafkaConsumer[Any, Any]:
    """A consumer to which all partitions of `topic` are assigned, from their beginning."""
    made = consumer_factory(auto_offset_reset="earliest")
    made.assign(made.partitions_for(topic))
    return made


def _broker_of(request: pytest.FixtureRequest) -> Any:
    """Return the broker of the fixture that the test uses, or that of `kafka` if it uses none. Raises UsageError if it uses several."""
    used = [kind for kind in _KINDS if kind in request.fixturenames] or ["kafka"]
    if len(used) > 1:
        raise pytest.UsageError(f"{request.node.nodeid}: `topic` and clients cannot tell which broker is meant: {', '.join(used)}")
    return request.getfixturevalue(used[0])


def _factory(broker: Any, client_class: Callable[..., Any], kind: str) -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def make(**settings: Any) -> Any:
        if hasattr(broker, "simulation"):
            client = getattr(broker, kind)(**settings)
        else:
            client = client_class(bootstrap_servers=broker.bootstrap_servers, **settings)
        made.append(client)
        return client

    yield make
    # A request that a fault leaves unanswered would delay close().
    _end_faults(broker)
    with ExitStack() as closing:
        for client in made:
            closing.callback(client.close, timeout=_CLOSE_TIMEOUT_S)


# Markers


def _plan_faults(request: pytest.FixtureRequest, broker: Any) -> None:
    # pytest returns the marker that is first in the source last.
    for marker in reversed(list(request.node.iter_markers("kafka_faults"))):
        name, *arguments = marker.args or (None,)
        if name not in FAULTS:
            raise pytest.UsageError(f"{request.node.nodeid}: {_no_fault(name)}")
        getattr(broker.faults, name)(*arguments, **marker.kwargs)


def _no_fault(name: object) -> str:
    from levada.base.text import did_you_mean

    return f"kafka_faults: {name!r} is no fault{did_you_mean(str(name), FAULTS) or '; there are ' + ', '.join(FAULTS)}"


def _arguments_of(marker: pytest.Mark | None) -> dict[str, Any]:
    if marker is None:
        return {}
    return {**dict(zip(("partitions", "config"), marker.args, strict=False)), **marker.kwargs}


def _end_faults(broker: Any) -> None:
    broker.faults.clear()
    broker.faults.release_all()


# Leaks


def _clients_of(broker: EmbeddedKafka) -> set[str | None]:
    return {session.client_id for session in broker.connections()}


def _check_leaks(broker: EmbeddedKafka, known: set[str | None]) -> None:
    """Fail the test if clients are still connected that were not connected before it. known: the ids of the clients that were connected."""
    deadline = time.monotonic() + LEAK_PATIENCE_S
    while left := _clients_of(broker) - known:
        if time.monotonic() > deadline:
            names = ", ".join(sorted(map(str, left)))
            pytest.fail(f"clients are still connected after the test: {names}; close them, or make them with a fixture", pytrace=False)
        time.sleep(0.01)
