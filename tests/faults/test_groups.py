"""Rows of the fault matrix about members of groups, of both protocols, on three nodes of Kafka 4.4: recorded, checked, with figures."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

import levada as lv
from fault_load import PARTITIONS, Watched
from fault_members import KINDS, SESSION_TIMEOUT_S, Members
from kafka_cluster import KafkaCluster, KafkaNode
from levada.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.testing.history import Recorder, RecordingProducer

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.timeout(300)]
BUSY_S = 2
"""What a machine may take longer that runs three brokers, producers and perhaps other tests."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def coordinator(cluster: KafkaCluster, group: str) -> KafkaNode:
    """Return the node that coordinates a group."""
    with lv.KafkaClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        answer = client.request(FindCoordinatorRequest(coordinator_keys=[group]))
    return next(node for node in cluster.nodes if node.id == answer.coordinators[0].node_id)


def test_M_A20_the_groups_coordinator_is_killed_amid_a_rebalance(
    kafka_cluster: KafkaCluster, loaded: Watched, members: Members, note: Callable[[str], None]
) -> None:
    """Two times: once as a member joins, once as one has vanished."""
    took_s = []
    for disturb in (members.join, lambda: members.leave(vanishes=True)):
        node = coordinator(kafka_cluster, members.topic)
        loaded.faults.fault("coordinator killed")
        disturb()
        node.kill()
        time.sleep(0.5)
        took_s.append(members.await_owners(PARTITIONS))
        node.restart()
        loaded.faults.fault("coordinator killed", mended=True)
        loaded.await_progress()
    members.judged(note, f"M-A20: every partition had an owner {', '.join(f'{took:.1f} s' for took in took_s)} later")
    assert max(took_s) <= 2 * SESSION_TIMEOUT_S + BUSY_S


def test_M_A30_members_vanish_leave_and_join(loaded: Watched, members: Members, note: Callable[[str], None]) -> None:
    took_s = []
    for round_number in range(4):
        members.leave(vanishes=round_number % 2 == 0)
        members.join()
        took_s.append(members.await_owners(PARTITIONS))
        time.sleep(1)
    members.judged(note, f"M-A30: every partition had an owner {', '.join(f'{took:.1f} s' for took in took_s)} later")
    assert max(took_s) <= SESSION_TIMEOUT_S + 5 + BUSY_S


def test_M_A25_partitions_are_added(loaded: Watched, members: Members, note: Callable[[str], None]) -> None:
    """What is written to the new ones is read from their beginning."""
    with lv.KafkaClient(bootstrap_servers=loaded.servers) as client:
        wanted = CreatePartitionsTopic(name=loaded.topic, count=2 * PARTITIONS)
        client.request(CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000))
    with lv.KafkaProducer(bootstrap_servers=loaded.servers) as producer:
        recording = RecordingProducer(producer, Recorder(loaded.events.append, 900))
        for partition in range(PARTITIONS, 2 * PARTITIONS):
            for _ in range(10):
                recording.send(loaded.topic, partition=partition)
        producer.flush()
    took_s = members.await_owners(2 * PARTITIONS)
    members.judged(note, f"M-A25: the new partitions had an owner {took_s:.1f} s later")
