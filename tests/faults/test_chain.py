"""The chain of three groups on three nodes of Kafka 4.4: processes and nodes are killed while half a million records pass through it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from chain import PARTITIONS, End, Processes, topic, verdict, write
from kafka_cluster import KafkaCluster, KafkaNode

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.timeout(900)]
RECORDS, KEYS = 500_000, 500
DEADLINE_S = 800
KILL_PROCESS_S = 4
KILL_NODE_S = 12
NODE_IS_AWAY_S = 4


class NodesKilled:
    """Kills one node after another, each after the one before has come back.

    No thread does so: a node ends with the thread that has started it (prepare_node).
    """

    def __init__(self, cluster: KafkaCluster) -> None:
        self.killed = 0
        self._cluster = cluster
        self._away: KafkaNode | None = None
        self._next_s = time.monotonic() + KILL_NODE_S

    def look(self) -> None:
        """Kill a node, or start the one that is away, when it is time."""
        if time.monotonic() < self._next_s:
            return
        if self._away is not None:
            self.bring_back()
        else:
            self._away = self._cluster.nodes[self.killed % len(self._cluster.nodes)]
            self._away.kill()
            self.killed += 1
            self._next_s = time.monotonic() + NODE_IS_AWAY_S

    def bring_back(self) -> None:
        """Start the node that is away, if there is one, and wait until it answers."""
        if self._away is not None:
            self._away.restart()
        self._away = None
        self._next_s = time.monotonic() + KILL_NODE_S


def test_M_A20_M_A30_a_chain_of_groups_is_exactly_once_while_nodes_and_members_are_killed(
    kafka_cluster: KafkaCluster, new_topic: Callable[..., str], note: Callable[[str], None]
) -> None:
    """Nodes are coordinators of groups and of transactions, and leaders, too."""
    prefix, servers = new_topic(kafka_cluster), kafka_cluster.bootstrap_servers
    for stage, partitions in enumerate((*PARTITIONS, PARTITIONS[0])):
        kafka_cluster.create_topic(topic(prefix, stage), partitions=partitions, config={"min.insync.replicas": 2})
    per_key = write(servers, prefix, RECORDS, KEYS)
    began = last_kill = time.monotonic()
    end, nodes = End(servers, prefix), NodesKilled(kafka_cluster)
    with Processes(servers, prefix, count=3) as processes:
        while end.count < RECORDS and time.monotonic() < began + DEADLINE_S:
            end.read(0.5)
            if time.monotonic() - last_kill > KILL_PROCESS_S:
                processes.kill_one()
                last_kill = time.monotonic()
            processes.look()
            nodes.look()
        took_s = time.monotonic() - began
        nodes.bring_back()
        while end.read(3):
            pass
    outcome = verdict(end.close(), per_key)
    killed = f"{processes.killed} processes and {nodes.killed} nodes killed"
    ended = f"{processes.left} left in a transaction, {processes.failed} ended with an error"
    note(f"M-A20, M-A30: {outcome.records} of {RECORDS} records through three groups in {took_s:.0f} s; {killed}, {ended}")
    assert outcome.wrong == []
    assert outcome.records == RECORDS
