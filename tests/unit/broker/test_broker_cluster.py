from __future__ import annotations

from random import Random
from typing import Any

import pytest

from broker_kit import START_MS, Bench, Client, fetch_request, make_batch, only_partition, produce_request
from levada.broker.cluster.cluster import Cluster
from levada.broker.config.settings import BrokerSettings
from levada.broker.node.node import BrokerNode
from levada.broker.replication.partition import Partition
from levada.error_codes import ErrorCode
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.protocol.messages.metadata import MetadataRequest


class Pair:
    """Two nodes of one cluster; node 1 leads partition 0 of "t"."""

    def __init__(self) -> None:
        self.cluster = Cluster(BrokerSettings(default_replication_factor=2), Random(1))
        self.benches = [Bench(), Bench()]
        for number, bench in enumerate(self.benches, 1):
            bench.node = BrokerNode(node_id=number, host=f"b{number}", port=9092, cluster=self.cluster, wall_offset_ms=START_MS)
        self.cluster.add(self.cluster.plan("t", 2))
        self.first, self.second = (bench.client() for bench in self.benches)

    @property
    def partition(self) -> Partition:
        return self.cluster.topics["t"].partitions[0]


@pytest.fixture
def pair() -> Pair:
    return Pair()


def endpoints(answer: Any) -> list[tuple[int, str, int]]:
    return [(node.node_id, node.host, node.port) for node in answer.node_endpoints]


def leader(partition: Any) -> tuple[int, int]:
    return partition.current_leader.leader_id, partition.current_leader.leader_epoch


def test_partitions_and_replicas_are_spread_over_the_nodes(pair: Pair) -> None:
    answer = pair.second.ask(MetadataRequest(topics=None))
    assert [(found.leader_id, found.replica_nodes) for found in answer.topics[0].partitions] == [(1, [1, 2]), (2, [2, 1])]
    assert [broker.host for broker in answer.brokers] == ["b1", "b2"]
    assert answer.controller_id == 1


@pytest.mark.parametrize(("version", "hint"), [(9, (-1, -1)), (10, (1, 0)), (12, (1, 0))])
def test_E6_a_node_that_does_not_lead_refuses_a_batch_and_names_the_leader(pair: Pair, version: int, hint: tuple[int, int]) -> None:
    answer = pair.second.ask(produce_request("t", make_batch(b"a")), version)
    (refused,) = answer.responses[0].partition_responses
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader(refused) == hint
    assert endpoints(answer) == ([(1, "b1", 9092)] if version >= 10 else [])


def ask_by_id(pair: Pair, client: Client, version: int) -> Any:
    wanted = FetchTopic(topic_id=pair.cluster.topics["t"].id, partitions=[FetchPartition(partition=0, partition_max_bytes=100)])
    return client.ask(FetchRequest(max_bytes=100, topics=[wanted]), version)


@pytest.mark.parametrize(("version", "hint"), [(15, (-1, -1)), (16, (1, 0)), (18, (1, 0))])
def test_E9_a_node_that_does_not_lead_refuses_a_fetch_and_names_the_leader(pair: Pair, version: int, hint: tuple[int, int]) -> None:
    answer = ask_by_id(pair, pair.second, version)
    refused = only_partition(answer)
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader(refused) == hint
    assert endpoints(answer) == ([(1, "b1", 9092)] if version >= 16 else [])


def test_E9_a_waiting_fetch_is_answered_when_the_leader_moves(pair: Pair) -> None:
    pair.first.send(fetch_request("t", max_wait_ms=60_000), 12)
    pair.cluster.move_leader(pair.partition, 2)
    pair.benches[0].advance()
    (answer,) = pair.first.answers()
    assert only_partition(answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert pair.second.fetch("t", leader_epoch=1).error_code == 0
    assert pair.second.fetch("t", leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_topic_deleted_through_one_node_ends_a_fetch_at_another(pair: Pair) -> None:
    pair.first.send(fetch_request("t", max_wait_ms=60_000), 12)
    pair.second.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]))
    pair.benches[0].advance()
    (answer,) = pair.first.answers()
    assert only_partition(answer).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_I17_the_new_leader_knows_the_producers_of_the_old_one(pair: Pair) -> None:
    batch = make_batch(b"a", producer=(7, 0, 0))
    assert pair.first.produce("t", batch).base_offset == 0
    pair.cluster.move_leader(pair.partition, 2)
    assert pair.second.produce("t", batch).base_offset == 0
    assert pair.partition.log.end_offset == 1
    assert pair.second.produce("t", make_batch(b"b", producer=(7, 0, 1))).base_offset == 1
    assert [batch.partition_leader_epoch for batch in pair.partition.log.batches()] == [0, 1]


def test_a_cluster_with_the_same_seed_has_the_same_ids() -> None:
    one, two = (Cluster(BrokerSettings(), Random(5)) for _ in range(2))
    assert one.id == two.id
    assert len(one.id) == 22
    assert Cluster(BrokerSettings(), Random(6)).id != one.id
