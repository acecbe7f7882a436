"""Nodes of a real cluster are killed under producers: nothing acknowledged is lost, doubled, reordered or torn (M-P1, M-P2, M-A2, M-A3).

`make test-faults` has the longer forms, and the other rows.
"""

from __future__ import annotations

import time

import pytest

from fault_load import PARTITIONS, Watched
from kafka_cluster import KafkaCluster


@pytest.mark.kafka
@pytest.mark.slow
def test_M_A3_killing_one_node_after_the_other_loses_doubles_and_reorders_nothing(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("chased", partitions=PARTITIONS, config={"min.insync.replicas": 2})
    watched = Watched(kafka_cluster.bootstrap_servers, "chased")
    watched.start()
    watched.start(transactional=True)
    watched.await_progress()
    for node in kafka_cluster.nodes[:2]:
        time.sleep(1)
        node.kill()
        watched.await_progress()
        node.restart()
    report = watched.verdict()
    report.require_clean()
    assert set(report.sends) == {"ok"}
    assert report.sends["ok"] > 1000
    assert report.transactions["committed"] > 2
