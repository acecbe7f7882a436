"""Rows M-A10 and M-A14 to M-A16 of the fault matrix: a proxy between clients and three nodes harms connections, packets and frames."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import repeat

import pytest

import levada as lv
from fault_load import Watched, Work
from fault_proxy import FaultProxy, Verbs
from kafka_cluster import KafkaCluster
from levada.errors import CorruptRecordError
from levada.testing.history import Report, found_in

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.timeout(300)]
LONG_S = 20
RESETS_S = 60
CUT_S = 30
REQUEST_TIMEOUT_MS = 5000
BUSY_MS = 2000
"""What a machine may take longer that runs three brokers, two producers and perhaps other tests."""
AS_FAST_AS_IT_GOES = Work(pause_s=0, payloads=repeat(b"x" * 2000))


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


def acknowledged_in(watched: Watched, seconds: float) -> float:
    """Acknowledged records a second, of the next seconds."""
    began, before = time.monotonic(), watched.acknowledged()
    time.sleep(seconds)
    return (watched.acknowledged() - before) / (time.monotonic() - began)


def test_M_A10_packets_of_one_node_are_dropped(
    kafka_cluster: KafkaCluster, proxy: FaultProxy, proxied: Watched, note: Callable[[str], None]
) -> None:
    """The brokers reach one another, so nothing gets a new leader: records of the partitions that this node leads have to wait."""
    plain = proxied.start(request_timeout_ms=REQUEST_TIMEOUT_MS)
    proxied.start(transactional=True, request_timeout_ms=REQUEST_TIMEOUT_MS)
    proxied.await_progress()
    connections = plain.producer.metrics().value("connection-count")
    node = next(node for node in kafka_cluster.nodes if node.id == proxied.leader())
    proxied.faults.fault("packets dropped")
    proxy.cut(node.proxy_port)
    began = time.monotonic()
    while not plain.producer.metrics().value("connection-close-total"):
        time.sleep(0.02)
    found_s = time.monotonic() - began
    time.sleep(CUT_S - found_s)
    proxy.mend(node.proxy_port)
    proxied.faults.fault("packets dropped", mended=True)
    back_ms = proxied.await_all_partitions()
    assert plain.producer.metrics().value("connection-count") <= connections + 1
    report = proxied.verdict(kafka_cluster.bootstrap_servers)
    note(f"{told('M-A10', report, proxy)}; the half-open connection was found after {found_s:.1f} s; "
         f"all partitions went on {back_ms} ms after the end")  # fmt: skip
    report.require_clean()
    assert set(report.sends) == {"ok"}
    assert found_s <= REQUEST_TIMEOUT_MS / 1000 + 2
    assert report.longest_gap_ms <= REQUEST_TIMEOUT_MS + 2000
    assert back_ms <= REQUEST_TIMEOUT_MS + 2000 + BUSY_MS


def test_M_A14_every_connection_is_reset_after_a_second(
    kafka_cluster: KafkaCluster, proxy: FaultProxy, proxied: Watched, note: Callable[[str], None]
) -> None:
    proxied.start(work=AS_FAST_AS_IT_GOES)
    proxied.start(transactional=True)
    proxied.await_progress()
    before = acknowledged_in(proxied, LONG_S / 2)
    began = proxy.done.connections
    proxy.verbs = Verbs(reset_after_s=(0.5, 1.5))
    proxy.reset_all()
    harmed = acknowledged_in(proxied, RESETS_S)
    connections = proxy.done.connections - began
    proxy.verbs = Verbs()
    proxied.await_all_partitions()
    after = acknowledged_in(proxied, LONG_S / 2)
    report = proxied.verdict(kafka_cluster.bootstrap_servers)
    rates = f"{before:.0f} records a second before, {harmed:.0f} with resets, {after:.0f} after"
    note(f"{told('M-A14', report, proxy)}; {rates}; {connections} connections")
    report.require_clean()
    assert set(report.sends) == {"ok"}
    assert harmed >= (before + after) / 2 / 5
    # Two producers, three nodes and a coordinator, each connection gone after half a second at the soonest.
    assert RESETS_S < connections < 2 * 4 * RESETS_S / 0.5


def test_M_A15_a_byte_of_a_produce_request_is_changed(
    kafka_cluster: KafkaCluster, proxy: FaultProxy, proxied: Watched, note: Callable[[str], None]
) -> None:
    verbs = Verbs(flip=("Produce", "request"), flip_one_in=20)
    report = harmed(proxied, proxy, verbs, kafka_cluster.bootstrap_servers)
    note(told("M-A15", report, proxy))
    report.require_clean()
    assert set(report.sends) == {"ok"}
    assert proxy.done.flips > 5


def test_M_A15_a_byte_of_a_fetch_response_is_changed(kafka_cluster: KafkaCluster, proxy: FaultProxy, proxied: Watched) -> None:
    proxied.start()
    proxied.await_progress()
    time.sleep(2)
    report = proxied.verdict(kafka_cluster.bootstrap_servers)
    report.require_clean()
    proxy.verbs = Verbs(flip=("Fetch", "response"), flip_one_in=1)
    with pytest.raises(CorruptRecordError, match=proxied.topic):
        found_in(lv.scan(proxied.topic, bootstrap_servers=proxied.servers))
    assert proxy.done.flips >= 1


def test_M_A16_an_answer_is_cut_in_the_middle(
    kafka_cluster: KafkaCluster, proxy: FaultProxy, proxied: Watched, note: Callable[[str], None]
) -> None:
    report = harmed(proxied, proxy, Verbs(cut="Produce", cut_one_in=20), kafka_cluster.bootstrap_servers)
    note(told("M-A16", report, proxy))
    report.require_clean()
    assert set(report.sends) == {"ok"}
    assert proxy.done.cuts > 5
