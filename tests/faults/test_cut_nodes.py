"""Row M-A11 of the fault matrix: one of three nodes of Kafka 4.4 cannot reach the other two, cannot be reached, or neither.

Clients reach all three. The node that is cut off goes on as the leader that it was, while the others elect new ones: no offset may come to
have two values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from fault_load import PARTITIONS, Watched
from fault_members import BROKERS, gathered
from kafka_cluster import KafkaCluster
from node_links import ways_from, ways_to

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.timeout(300)]
CUT_S = 10
REQUEST_TIMEOUT_MS = 5000
GAP_MS = REQUEST_TIMEOUT_MS + CUT_S * 1000
"""What the node has taken that is cut off nobody acknowledges, until the request times out or the node hears that it leads no more."""
BUSY_MS = 2000
"""What a machine may take longer that runs three brokers, two producers and perhaps other tests."""


@pytest.fixture(scope="module")
def linked(start_real_kafka: Callable[..., AbstractContextManager[Any]]) -> Iterator[KafkaCluster]:
    with start_real_kafka("4.4.0", nodes=3, heap="256m", linked=True, properties=dict(BROKERS)) as cluster:
        yield cluster


@pytest.mark.parametrize(("directions", "kind"), [("from it", "consumer"), ("to it", "cooperative-sticky"), ("both", "consumer")])
def test_M_A11_a_node_is_cut_off(linked: KafkaCluster, topic: str, directions: str, kind: str, note: Callable[[str], None]) -> None:
    linked.create_topic(topic, PARTITIONS, {"min.insync.replicas": 2})
    watched = Watched(linked.bootstrap_servers, topic)
    for transactional in (False, True):
        watched.start(transactional=transactional, request_timeout_ms=REQUEST_TIMEOUT_MS)
    watched.await_progress()
    members = gathered(watched, kind)
    node, nodes = watched.leader(), [node.id for node in linked.nodes]
    ways = {"from it": ways_from(node, nodes), "to it": ways_to(node, nodes)}
    links = linked.links
    assert links is not None
    watched.faults.fault("cut off")
    links.cut(ways["from it"] + ways["to it"] if directions == "both" else ways[directions])
    time.sleep(CUT_S)
    links.mend()
    watched.faults.fault("cut off", mended=True)
    back_ms = watched.await_all_partitions()
    report = members.judged(note, f"M-A11, {directions}: all partitions went on {back_ms} ms after the end")
    assert max(report.longest_gaps_ms.values()) <= GAP_MS + BUSY_MS
