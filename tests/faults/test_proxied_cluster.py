"""Rows M-A14 to M-A16 of the fault matrix: a proxy between the clients and three nodes of Kafka 4.4 harms connections and frames."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

import levada as lv
from fault_load import PARTITIONS, Watched
from fault_proxy import FaultProxy, Verbs
from kafka_cluster import KafkaCluster
from levada.errors import CorruptRecordError
from levada.testing.history import Report, found_in

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.timeout(300)]
LONG_S = 20


@pytest.fixture(scope="module")
def cluster(start_real_kafka: Callable[..., object]) -> Iterator[KafkaCluster]:
    with start_real_kafka("4.4.0", nodes=3, heap="256m", proxied=True) as cluster:  # type: ignore[attr-defined]
        yield cluster


@pytest.fixture
def proxy(cluster: KafkaCluster) -> Iterator[FaultProxy]:
    with FaultProxy(cluster.routes) as proxy:
        yield proxy


@pytest.fixture
def watched(cluster: KafkaCluster, proxy: FaultProxy, request: pytest.FixtureRequest) -> Watched:
    topic = request.node.name[:60]
    cluster.create_topic(topic, partitions=PARTITIONS, config={"min.insync.replicas": 2})
    return Watched(cluster.proxied_servers, topic)


def harmed(watched: Watched, proxy: FaultProxy, verbs: Verbs, servers: str) -> Report:
    """Let a plain and a transactional load write while frames are harmed."""
    watched.start()
    watched.start(transactional=True)
    watched.await_progress()
    proxy.verbs = verbs
    time.sleep(LONG_S)
    proxy.verbs = Verbs()
    watched.await_progress()
    return watched.verdict(servers)


def told(row: str, report: Report, proxy: FaultProxy) -> str:
    return f"{row}: {dict(report.sends)}, {dict(report.transactions)}; longest gap {report.longest_gap_ms} ms; {proxy.done}"


def test_M_A14_every_connection_is_reset_after_a_second(
    cluster: KafkaCluster, proxy: FaultProxy, watched: Watched, note: Callable[[str], None]
) -> None:
    proxy.verbs = Verbs(reset_after_s=(0.5, 1.5))
    report = harmed(watched, proxy, proxy.verbs, cluster.bootstrap_servers)
    note(told("M-A14", report, proxy))
    report.require_clean()
    assert set(report.sends) == {"ok"}
    assert proxy.done.resets > LONG_S
    # Two producers, three nodes and a coordinator, each connection gone after half a second at the soonest.
    assert proxy.done.connections < 2 * 4 * (LONG_S + 30) / 0.5


def test_M_A15_a_byte_of_a_produce_request_is_changed(
    cluster: KafkaCluster, proxy: FaultProxy, watched: Watched, note: Callable[[str], None]
) -> None:
    verbs = Verbs(flip=("Produce", "request"), flip_one_in=20)
    report = harmed(watched, proxy, verbs, cluster.bootstrap_servers)
    note(told("M-A15", report, proxy))
    report.require_clean()
    assert set(report.sends) == {"ok"}
    assert proxy.done.flips > 5


def test_M_A15_a_byte_of_a_fetch_response_is_changed(cluster: KafkaCluster, proxy: FaultProxy, watched: Watched) -> None:
    watched.start()
    watched.await_progress()
    time.sleep(2)
    report = watched.verdict(cluster.bootstrap_servers)
    report.require_clean()
    proxy.verbs = Verbs(flip=("Fetch", "response"), flip_one_in=1)
    with pytest.raises(CorruptRecordError, match=watched.topic):
        found_in(lv.scan(watched.topic, bootstrap_servers=watched.servers))
    assert proxy.done.flips >= 1


def test_M_A16_an_answer_is_cut_in_the_middle(
    cluster: KafkaCluster, proxy: FaultProxy, watched: Watched, note: Callable[[str], None]
) -> None:
    report = harmed(watched, proxy, Verbs(cut="Produce", cut_one_in=20), cluster.bootstrap_servers)
    note(told("M-A16", report, proxy))
    report.require_clean()
    assert set(report.sends) == {"ok"}
    assert proxy.done.cuts > 5
