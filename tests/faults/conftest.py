"""The cluster of a run: three nodes of Kafka 4.4 that all rows share, reached directly or through a proxy; loads, and groups that read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from fault_load import PARTITIONS, Watched
from fault_members import BROKERS, Members, gathered
from fault_proxy import FaultProxy
from kafka_cluster import KafkaCluster

SETTINGS = {
    # A topic that is deleted is not made again by whoever asks for its metadata.
    "auto.create.topics.enable": False,
    "log.retention.check.interval.ms": 1000,
    **BROKERS,
}


@pytest.fixture(scope="session")
def kafka_cluster(start_real_kafka: Callable[..., AbstractContextManager[Any]]) -> Iterator[KafkaCluster]:
    """A test that ends a node starts it again."""
    with start_real_kafka("4.4.0", nodes=3, heap="256m", proxied=True, properties=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def proxy(kafka_cluster: KafkaCluster) -> Iterator[FaultProxy]:
    with FaultProxy(kafka_cluster.routes) as proxy:
        yield proxy


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """The name of a topic of the test's own."""
    name: str = request.node.name
    return "".join(letter if letter.isalnum() else "-" for letter in name.removeprefix("test_"))[:100].rstrip("-")


@pytest.fixture
def watched(kafka_cluster: KafkaCluster, topic: str) -> Watched:
    """A topic whose records have to be on two nodes; nobody writes yet."""
    kafka_cluster.create_topic(topic, PARTITIONS, {"min.insync.replicas": 2})
    return Watched(kafka_cluster.bootstrap_servers, topic)


@pytest.fixture
def proxied(kafka_cluster: KafkaCluster, proxy: FaultProxy, topic: str) -> Watched:
    """The same through the proxy; verdict() reads there, too, unless it is told where else."""
    kafka_cluster.create_topic(topic, PARTITIONS, {"min.insync.replicas": 2})
    return Watched(kafka_cluster.proxied_servers, topic)


@pytest.fixture
def loaded(kafka_cluster: KafkaCluster, watched: Watched) -> Iterator[Watched]:
    """A plain and a transactional load that have begun to write; nodes that the test has ended are started again."""
    watched.start()
    watched.start(transactional=True)
    watched.await_progress()
    yield watched
    for node in kafka_cluster.nodes:
        if not node.is_running:
            node.restart()


@pytest.fixture(params=["cooperative-sticky", "consumer"])
def kind(request: pytest.FixtureRequest) -> str:
    """Of a group: one of fault_members.KINDS."""
    return str(request.param)


@pytest.fixture
def members(loaded: Watched, kind: str) -> Members:
    """Three members that have all partitions of the loaded topic."""
    return gathered(loaded, kind)
