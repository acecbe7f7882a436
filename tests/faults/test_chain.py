"""The chain of three groups on three nodes of Kafka 4.4: processes and nodes are killed while half a million records pass through it."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread

import pytest

from chain import PARTITIONS, End, Processes, topic, verdict, write
from kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.timeout(900)]
RECORDS, KEYS = 500_000, 500
DEADLINE_S = 800
KILL_PROCESS_S = 4
KILL_NODE_S = 12
NODE_IS_AWAY_S = 4


class NodesKilled(Thread):
    """Kills one node after another, each after the one before has come back, until told to stop."""

    def __init__(self, cluster: KafkaCluster) -> None:
        super().__init__(daemon=True)
        self.killed = 0
        self._cluster = cluster
        self._stop_it = Event()

    def run(self) -> None:
        while not self._stop_it.wait(KILL_NODE_S):
            node = self._cluster.nodes[self.killed % len(self._cluster.nodes)]
            node.kill()
            self.killed += 1
            self._stop_it.wait(NODE_IS_AWAY_S)
            node.restart()

    def stop(self) -> None:
        self._stop_it.set()
        self.join()


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
    nodes.start()
    with Processes(servers, prefix, count=3) as processes:
        while end.count < RECORDS and time.monotonic() < began + DEADLINE_S:
            end.read(0.5)
            if time.monotonic() - last_kill > KILL_PROCESS_S:
                processes.kill_one()
                last_kill = time.monotonic()
            processes.look()
        took_s = time.monotonic() - began
        nodes.stop()
        while end.read(3):
            pass
    outcome = verdict(end.close(), per_key)
    killed = f"{processes.killed} processes and {nodes.killed} nodes killed"
    ended = f"{processes.left} left in a transaction, {processes.failed} ended with an error"
    note(f"M-A20, M-A30: {outcome.records} of {RECORDS} records through three groups in {took_s:.0f} s; {killed}, {ended}")
    assert outcome.wrong == []
    assert outcome.records == RECORDS
