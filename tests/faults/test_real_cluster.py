"""Rows M-A1 to M-A8 of the fault matrix on three nodes of Kafka 4.4: recorded, checked, and their figures at the report's end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

import levada as lv
from fault_load import Watched
from kafka_cluster import KafkaCluster, KafkaNode
from leader_watch import LeaderWatch
from levada.protocol.messages import describe_quorum
from levada.testing.history import Report

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.timeout(300)]
SESSION_TIMEOUT_MS = 3000
"""broker.session.timeout.ms of the test clusters."""
ELECTION_MS = 2000
"""controller.quorum.fetch.timeout.ms: after it the other controllers elect a new one."""
BUSY_MS = 2000
"""What a machine may take longer that runs three brokers, two producers and perhaps other tests."""


@pytest.fixture
def watched(watched: Watched, kafka_cluster: KafkaCluster) -> Iterator[Watched]:
    """A plain and a transactional load that have begun to write."""
    watched.start()
    watched.start(transactional=True)
    watched.await_progress()
    time.sleep(1)
    yield watched
    for node in kafka_cluster.nodes:
        if not node.is_running:
            node.restart()


def leader_of(cluster: KafkaCluster, watched: Watched) -> KafkaNode:
    return next(node for node in cluster.nodes if node.id == watched.leader())


def controller_of(cluster: KafkaCluster) -> int:
    """Return the node that leads the controllers' quorum; Metadata name any broker as the controller."""
    partition = describe_quorum.PartitionData(partition_index=0)
    topic = describe_quorum.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    with lv.KafkaClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        answer = client.request(describe_quorum.DescribeQuorumRequest(topics=[topic]))
    leader: int = answer.topics[0].partitions[0].leader_id
    return leader


Judge = Callable[..., Report]


@pytest.fixture
def judged(kafka_cluster: KafkaCluster, watched: Watched, note: Callable[[str], None]) -> Iterator[Judge]:
    """Nothing is lost, doubled, reordered or torn, no send failed, and acknowledgements did not stop for longer than that."""
    with LeaderWatch(kafka_cluster, watched.topic) as leaders:

        def judge(row: str, *, gap_ms: int) -> Report:
            report = watched.verdict()
            gaps = leaders.gaps(watched.events)
            note(f"{row}: {dict(report.sends)}, {dict(report.transactions)}; longest gap {report.longest_gap_ms} ms; the longest "
                 f"{max(gaps, key=lambda gap: gap.span.length_ms)}; the client's longest {gaps[0]}; {report.recovery_ms}")  # fmt: skip
            report.require_clean()
            assert set(report.sends) == {"ok"}, "no error for the user"
            assert max(report.longest_gaps_ms.values()) <= gap_ms + BUSY_MS
            return report

        yield judge


def test_M_A1_a_leader_is_stopped_and_started_again(kafka_cluster: KafkaCluster, watched: Watched, judged: Judge) -> None:
    node = leader_of(kafka_cluster, watched)
    watched.faults.fault("leader stopped")
    node.terminate()
    time.sleep(3)
    node.restart()
    watched.faults.fault("leader stopped", mended=True)
    watched.await_progress()
    judged("M-A1", gap_ms=2000)


def test_M_A2_a_leader_is_killed_and_comes_back(kafka_cluster: KafkaCluster, watched: Watched, judged: Judge) -> None:
    node = leader_of(kafka_cluster, watched)
    watched.faults.fault("leader killed")
    node.kill()
    time.sleep(10)
    node.restart()
    watched.faults.fault("leader killed", mended=True)
    watched.await_progress()
    judged("M-A2", gap_ms=SESSION_TIMEOUT_MS + 2000)


def test_M_A3_five_leaders_are_killed_one_after_the_other(kafka_cluster: KafkaCluster, watched: Watched, judged: Judge) -> None:
    for _ in range(5):
        node = leader_of(kafka_cluster, watched)
        watched.faults.fault(f"node {node.id} killed")
        node.kill()
        watched.await_progress()
        node.restart()
        watched.faults.fault(f"node {node.id} killed", mended=True)
        watched.await_progress()
    judged("M-A3", gap_ms=2 * SESSION_TIMEOUT_MS + 4000)


def test_M_A4_the_active_controller_is_killed(
    kafka_cluster: KafkaCluster, watched: Watched, judged: Judge, note: Callable[[str], None]
) -> None:
    """It is a broker, too, in these clusters: only a new controller can miss its heartbeats, and take it out of the in-sync replicas."""
    node = next(node for node in kafka_cluster.nodes if node.id == controller_of(kafka_cluster))
    watched.faults.fault("controller killed")
    node.kill()
    began = time.monotonic()
    with lv.KafkaAdmin(bootstrap_servers=kafka_cluster.bootstrap_servers) as admin:
        admin.create_topics([lv.NewTopic(f"{watched.topic}-beside", 1, 2)], timeout=60)
    took_s = time.monotonic() - began
    node.restart()
    watched.faults.fault("controller killed", mended=True)
    watched.await_progress()
    note(f"M-A4: a topic was created {took_s:.1f} s after the controller was killed")
    judged("M-A4", gap_ms=ELECTION_MS + SESSION_TIMEOUT_MS + 2000)
    assert took_s <= 5 + BUSY_MS / 1000


def test_M_A5_two_of_three_nodes_are_dead(kafka_cluster: KafkaCluster, watched: Watched, judged: Judge) -> None:
    watched.faults.fault("two nodes killed")
    for node in kafka_cluster.nodes[:2]:
        node.kill()
    time.sleep(1)
    before = watched.acknowledged()
    time.sleep(10)
    assert watched.acknowledged() == before, "nothing is acknowledged below min.insync.replicas"
    for node in kafka_cluster.nodes[:2]:
        node.start()
    for node in kafka_cluster.nodes[:2]:
        node.wait_until_ready()
    watched.faults.fault("two nodes killed", mended=True)
    watched.await_progress()
    judged("M-A5", gap_ms=60_000)


def test_M_A6_all_nodes_are_killed_and_started(kafka_cluster: KafkaCluster, watched: Watched, judged: Judge) -> None:
    watched.faults.fault("all nodes killed")
    for node in kafka_cluster.nodes:
        node.kill()
    for node in kafka_cluster.nodes:
        node.start()
    for node in kafka_cluster.nodes:
        node.wait_until_ready()
    watched.faults.fault("all nodes killed", mended=True)
    assert watched.await_progress() <= 15
    judged("M-A6", gap_ms=60_000)


def test_M_A7_two_rounds_of_rolling_restart(kafka_cluster: KafkaCluster, watched: Watched, judged: Judge) -> None:
    for node in kafka_cluster.nodes * 2:
        watched.faults.fault(f"node {node.id} stopped")
        node.restart()
        watched.faults.fault(f"node {node.id} stopped", mended=True)
        watched.await_progress()
        time.sleep(2)
    judged("M-A7", gap_ms=2000)


def test_M_A8_a_leader_is_paused_and_goes_on(kafka_cluster: KafkaCluster, watched: Watched, judged: Judge) -> None:
    node = leader_of(kafka_cluster, watched)
    watched.faults.fault("leader paused")
    node.pause()
    time.sleep(20)
    node.resume()
    watched.faults.fault("leader paused", mended=True)
    watched.await_progress()
    judged("M-A8", gap_ms=30_000 + SESSION_TIMEOUT_MS)
