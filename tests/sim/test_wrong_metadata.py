"""Row M-B14 of the fault matrix: answers to Metadata requests that are wrong for a while after a partition got a new leader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import levada as lv
from altered_answers import altered
from levada.broker.cluster.cluster import Cluster
from levada.broker.config.settings import BrokerSettings
from levada.broker.node.node import BrokerNode
from levada.error_codes import ErrorCode
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS

PORT = 9092
OLD, NEW = 1, 2
WRONG_ANSWERS = 3
FEW = 2
"""How many more answers it may take once they are right."""


def no_leader(answer: Any) -> None:
    for partition in answer.topics[0].partitions:
        partition.leader_id, partition.error_code = -1, ErrorCode.LEADER_NOT_AVAILABLE


def unknown_leader(answer: Any) -> None:
    for partition in answer.topics[0].partitions:
        partition.leader_id = 99


def old_leader(answer: Any) -> None:
    """As a node gives it that lags behind the controller."""
    for partition in answer.topics[0].partitions:
        partition.leader_id, partition.leader_epoch = OLD, partition.leader_epoch - 1


def no_brokers(answer: Any) -> None:
    answer.brokers = []


def unresolvable_host(answer: Any) -> None:
    for broker in answer.brokers:
        if broker.node_id == NEW:
            broker.host = "nowhere"


def all_elsewhere(answer: Any) -> None:
    for broker in answer.brokers:
        broker.host = "elsewhere"


WRONG = [no_leader, unknown_leader, old_leader, no_brokers, unresolvable_host, all_elsewhere]


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=14) as sim:
        yield sim


@pytest.fixture
def cluster(sim: Simulation) -> Cluster:
    """Two nodes; the topic is led by the first."""
    cluster = Cluster(BrokerSettings.of(), sim.random)
    for number in (OLD, NEW):
        node = BrokerNode(node_id=number, host=f"b{number}", port=PORT, cluster=cluster, random=sim.random, wall_offset_ms=EPOCH_MS)
        sim.network.add_server(node, f"b{number}", PORT)
    node.create_topic("t", 1)
    cluster.move_leader(cluster.topics["t"].partitions[0], OLD)
    return cluster


@pytest.mark.parametrize("hints", [True, False], ids=["with hints", "without hints"])
@pytest.mark.parametrize("wrong", WRONG)
def test_M_B14_metadata_that_is_wrong_for_a_while(sim: Simulation, cluster: Cluster, wrong: Callable[[Any], None], hints: bool) -> None:
    """hints: whether the old leader names the new one in its refusal (KIP-951)."""
    asked, refused = [0], [0]

    def change_metadata(answer: Any) -> None:
        asked[0] += 1
        if asked[0] <= WRONG_ANSWERS and answer.topics:
            wrong(answer)

    def change_produce(answer: Any) -> None:
        partition = answer.responses[0].partition_responses[0]
        refused[0] += partition.error_code != ErrorCode.NONE
        if not hints:
            partition.current_leader.leader_id = -1

    with lv_producer(sim) as producer:
        producer.send("t", b"1", partition=0).result(timeout=10)
        cluster.move_leader(cluster.topics["t"].partitions[0], NEW)
        with altered("Metadata", change_metadata), altered("Produce", change_produce):
            assert producer.send("t", b"2", partition=0).result(timeout=60).offset == 1
    assert asked[0] <= WRONG_ANSWERS + FEW
    assert refused[0] <= (1 if hints else 1 + WRONG_ANSWERS), "who knows of the new leader does not go back to the old one"
    assert [record.value for record in sim.scan("t", bootstrap_servers="b1:9092")] == [b"1", b"2"]


def lv_producer(sim: Simulation) -> lv.KafkaProducer:
    producer: lv.KafkaProducer = sim.producer(bootstrap_servers=f"b1:{PORT},b2:{PORT}")
    return producer
