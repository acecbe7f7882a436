"""Row M-A9 of the fault matrix: partitions on three nodes of Kafka 4.4 are reassigned, and preferred leaders elected, under load."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import pytest

import levada as lv
from fault_load import PARTITIONS, Watched
from fault_members import Members
from kafka_cluster import KafkaCluster
from levada.error_codes import ErrorCode
from levada.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from levada.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.timeout(300)]
ROUNDS = 4
GAP_MS = 1000
BUSY_MS = 2000
"""What a machine may take longer that runs three brokers, two producers and perhaps other tests."""
PATIENCE_S = 30

Replicas = Mapping[int, list[int]]
"""The nodes of each partition, the preferred leader first."""


class Operator:
    """Moves the replicas of a topic, and its leaders."""

    def __init__(self, client: lv.KafkaClient, admin: lv.KafkaAdmin, topic: str) -> None:
        self._client = client
        self._admin = admin
        self._topic = topic

    def reassign(self, replicas: Replicas) -> None:
        """Have the partitions on these nodes, and on no others."""
        wanted = [ReassignablePartition(partition_index=partition, replicas=nodes) for partition, nodes in replicas.items()]
        topic = ReassignableTopic(name=self._topic, partitions=wanted)
        answer = self._client.request(AlterPartitionReassignmentsRequest(topics=[topic]))
        assert answer.error_code == 0
        assert all(partition.error_code == 0 for topic in answer.responses for partition in topic.partitions)
        self._await(lambda: self._replicas() == {partition: set(nodes) for partition, nodes in replicas.items()})

    def elect_preferred(self, replicas: Replicas) -> None:
        """Have each partition led by its first node."""
        partitions = [TopicPartitions(topic=self._topic, partitions=sorted(replicas))]
        answer = self._client.request(ElectLeadersRequest(election_type=0, topic_partitions=partitions))
        codes = {partition.error_code for topic in answer.replica_election_results for partition in topic.partition_result}
        assert codes <= {0, ErrorCode.ELECTION_NOT_NEEDED}
        self._await(lambda: self._leaders() == {partition: nodes[0] for partition, nodes in replicas.items()})

    def _await(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _replicas(self) -> dict[int, set[int]]:
        return {info.partition: set(info.replicas) for info in self._partitions()}

    def _leaders(self) -> dict[int, int]:
        return {info.partition: info.leader for info in self._partitions()}

    def _partitions(self) -> tuple[lv.PartitionInfo, ...]:
        return self._admin.describe_topics([self._topic])[self._topic].partitions


def test_M_A9_partitions_move_and_preferred_leaders_are_elected(
    kafka_cluster: KafkaCluster, loaded: Watched, members: Members, note: Callable[[str], None]
) -> None:
    """Each partition has two replicas of three, which move by one node in each round."""
    nodes = [node.id for node in kafka_cluster.nodes]
    to = {"bootstrap.servers": loaded.servers}
    with lv.KafkaClient(to) as client, lv.KafkaAdmin(to) as admin:
        operator = Operator(client, admin, loaded.topic)
        for turn in range(ROUNDS):
            at = {partition: (partition + turn) % len(nodes) for partition in range(PARTITIONS)}
            replicas = {partition: [nodes[first], nodes[(first + 1) % len(nodes)]] for partition, first in at.items()}
            loaded.faults.fault("moved")
            operator.reassign(replicas)
            operator.elect_preferred(replicas)
            loaded.faults.fault("moved", mended=True)
            loaded.await_all_partitions()
    report = members.judged(note, f"M-A9, {ROUNDS} times")
    assert max(report.longest_gaps_ms.values()) <= GAP_MS + BUSY_MS
