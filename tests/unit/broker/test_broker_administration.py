"""Reassignments, elections, partitions added, brokers that are down: what KafkaAdmin asks of a cluster of three nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_kit import Bench, make_batch
from levada.broker.config.settings import BrokerSettings
from levada.broker.disk.data_dir import DataDir
from levada.error_codes import ErrorCode
from levada.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from levada.protocol.messages.describe_cluster import DescribeClusterRequest
from levada.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from levada.protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from levada.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from levada.protocol.messages.end_txn import EndTxnRequest
from levada.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from levada.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from levada.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from levada.protocol.messages.unregister_broker import UnregisterBrokerRequest
from levada.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from replica_kit import Trio

PREFERRED, UNCLEAN = 0, 1
NAMED = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")


def move(trio: Trio, to: list[int] | None) -> int:
    topic = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=to)])
    answer = trio.clients[1].ask(AlterPartitionReassignmentsRequest(topics=[topic]))
    trio.advance()
    code: int = answer.responses[0].partitions[0].error_code
    return code


def under_way(trio: Trio) -> list[Any]:
    answer = trio.clients[1].ask(ListPartitionReassignmentsRequest(topics=None))
    return [(one.replicas, one.adding_replicas, one.removing_replicas) for topic in answer.topics for one in topic.partitions]


def elect(trio: Trio, kind: int, node: int = 1) -> int:
    wanted = [TopicPartitions(topic="t", partitions=[0])]
    answer = trio.clients[node].ask(ElectLeadersRequest(election_type=kind, topic_partitions=wanted))
    code: int = answer.replica_election_results[0].partition_result[0].error_code
    return code


def test_X4_a_partition_moves_with_its_records_and_its_leader() -> None:
    trio = Trio(default_replication_factor=1)
    trio.produce(b"a")
    assert (move(trio, [3, 2]), under_way(trio)) == (0, [])
    assert (tuple(trio.partition.replicas), trio.partition.isr, trio.partition.leader) == ((3, 2), (3, 2), 3)
    trio.produce(b"b", acks=-1)
    assert trio.values(2) == trio.values(3) == [b"a", b"b"]


def test_X4_a_reassignment_waits_for_its_new_nodes_and_can_be_cancelled() -> None:
    trio = Trio(default_replication_factor=1)
    trio.produce(b"a")
    trio.cluster.pause_replication(2)
    assert (move(trio, [2]), under_way(trio)) == (0, [([2, 1], [2], [1])])
    assert (move(trio, [3, 2]), under_way(trio)) == (0, [([3, 2, 1], [3, 2], [1])])
    assert (move(trio, None), under_way(trio), tuple(trio.partition.replicas)) == (0, [], (1,))
    assert move(trio, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert move(trio, [2]) == 0
    trio.produce(b"b")
    trio.cluster.resume_replication(2)
    assert (under_way(trio), trio.partition.leader, trio.values(2)) == ([], 2, [b"a", b"b"])


def test_X4_the_preferred_replica_leads_again_when_that_is_asked_for() -> None:
    trio = Trio()
    trio.elect(2)
    assert (elect(trio, PREFERRED), trio.partition.leader) == (0, 1)
    assert elect(trio, PREFERRED) == ErrorCode.ELECTION_NOT_NEEDED
    trio.cluster.stop_node(1)
    assert elect(trio, PREFERRED, node=2) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_X4_an_unclean_election_is_the_last_resort() -> None:
    trio = Trio(default_replication_factor=2, replica_lag_time_max_ms=10)
    trio.cluster.pause_replication(2)
    trio.produce(b"lost")
    trio.advance(100)
    assert trio.partition.isr == (1,)
    trio.cluster.stop_node(1)
    assert trio.partition.leader == -1
    assert (elect(trio, UNCLEAN, node=2), trio.partition.leader, trio.values(2)) == (0, 2, [])
    trio.cluster.stop_node(2)
    assert elect(trio, UNCLEAN, node=3) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_X4_fenced_brokers_are_listed_on_request_until_they_are_unregistered() -> None:
    trio = Trio()
    trio.cluster.stop_node(3)

    def listed(*, fenced: bool) -> list[tuple[int, bool]]:
        answer = trio.clients[1].ask(DescribeClusterRequest(include_fenced_brokers=fenced))
        return [(one.broker_id, one.is_fenced) for one in answer.brokers]

    assert listed(fenced=False) == [(1, False), (2, False)]
    assert listed(fenced=True) == [(1, False), (2, False), (3, True)]
    assert trio.clients[1].ask(UnregisterBrokerRequest(broker_id=2)).error_code == ErrorCode.INVALID_REQUEST
    assert trio.clients[1].ask(UnregisterBrokerRequest(broker_id=3)).error_code == 0
    assert listed(fenced=True) == [(1, False), (2, False)]
    trio.cluster.start_node(3)
    assert listed(fenced=False) == [(1, False), (2, False), (3, False)]


def test_X4_another_node_leads_the_quorum_when_the_controller_is_down() -> None:
    trio = Trio()

    def quorum(node: int) -> Any:
        wanted = [TopicData(topic_name="__cluster_metadata", partitions=[PartitionData()])]
        (part,) = trio.clients[node].ask(DescribeQuorumRequest(topics=wanted)).topics[0].partitions
        return part.leader_id, part.leader_epoch, [one.replica_id for one in part.observers]

    assert quorum(1) == (1, 1, [2, 3])
    trio.cluster.stop_node(1)
    assert quorum(2) == (2, 2, [3])


def test_X4_what_was_moved_and_added_is_kept_on_disk(tmp_path: Path) -> None:
    kept = DataDir(tmp_path, BrokerSettings())
    trio = Trio(default_replication_factor=1, storage=kept)
    trio.produce(b"a")
    more = CreatePartitionsTopic(name="t", count=2, assignments=None)
    assert trio.clients[1].ask(CreatePartitionsRequest(topics=[more])).results[0].error_code == 0
    assert move(trio, [2]) == 0
    ((folder,), sizes) = folders(trio, 2)
    assert (folder, sizes["t", 0] > 60) == (str((tmp_path / "node-2").resolve()), True)
    assert not (tmp_path / "node-1" / "t-0").exists()
    kept.close()
    kept = DataDir(tmp_path, BrokerSettings())
    again = Trio(default_replication_factor=1, storage=kept)
    assert [tuple(partition.replicas) for partition in again.cluster.topics["t"].partitions] == [(2,), (2,)]
    assert again.values(2) == [b"a"]
    kept.close()


def test_X4_a_reassignment_that_ends_later_is_kept_and_told(tmp_path: Path) -> None:
    kept = DataDir(tmp_path, BrokerSettings())
    trio = Trio(default_replication_factor=1, storage=kept)
    trio.produce(b"a")
    trio.cluster.stop_node(2)
    assert move(trio, [2]) == 0
    assert [stored.assignment for stored in kept.topics()] == [[(2, 1)]]
    told: list[int] = []
    trio.cluster.watch(lambda partition: told.append(partition.leader))
    trio.cluster.start_node(2)
    assert (told[0], trio.values(2)) == (2, [b"a"])
    assert [stored.assignment for stored in kept.topics()] == [[(2,)]]
    assert not (tmp_path / "node-1" / "t-0").exists()
    kept.close()


def folders(trio: Trio, node: int) -> tuple[list[str], dict[tuple[str, int], int]]:
    results = trio.clients[node].ask(DescribeLogDirsRequest(topics=None)).results
    assert all(0 < one.usable_bytes < one.total_bytes for one in results)
    sizes = {
        (topic.name, part.partition_index): part.partition_size for one in results for topic in one.topics for part in topic.partitions
    }
    return [one.log_dir for one in results], sizes


def test_X4_a_level_that_is_changed_holds_at_once() -> None:
    client = Bench().client()

    def newest_of_end_txn() -> int:
        (newest,) = [one.max_version for one in client.ask(NAMED).api_keys if one.api_key == EndTxnRequest.API_KEY]
        return int(newest)

    assert newest_of_end_txn() == 5
    change = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)
    assert client.ask(UpdateFeaturesRequest(feature_updates=[change], validate_only=True)).error_code == 0
    assert newest_of_end_txn() == 5
    assert client.ask(UpdateFeaturesRequest(feature_updates=[change])).error_code == 0
    assert newest_of_end_txn() == 4


def test_X4_subscriptions_ask_clients_for_metrics() -> None:
    client = Bench(client_telemetry=True).client()

    def subscribe(name: str, **settings: str | None) -> int:
        changes = [
            AlterableConfig(name=key.replace("_", "."), config_operation=int(not text), value=text) for key, text in settings.items()
        ]
        resource = AlterConfigsResource(resource_type=16, resource_name=name, configs=changes)
        code: int = client.ask(IncrementalAlterConfigsRequest(resources=[resource])).responses[0].error_code
        return code

    def asked() -> Any:
        answer = client.ask(GetTelemetrySubscriptionsRequest())
        return answer.requested_metrics, answer.push_interval_ms

    assert asked() == ([], 300_000)
    assert subscribe("a", metrics="org.apache.kafka.producer.", interval_ms="5000") == 0
    assert subscribe("b", metrics="org.apache.kafka.consumer.") == 0
    assert asked() == (["org.apache.kafka.consumer.", "org.apache.kafka.producer."], 5_000)
    assert subscribe("b", metrics="*") == 0
    assert asked() == ([""], 5_000)
    assert subscribe("a", match="client_id=x") == ErrorCode.INVALID_REQUEST
    assert subscribe("a", metrics=None, interval_ms=None) == subscribe("b", metrics=None) == 0
    assert asked() == ([], 300_000)


@pytest.mark.parametrize("version", range(4))
def test_X7_new_partitions_are_written_to(version: int) -> None:
    client = Bench().client()
    client.bench.node.create_topic("t")
    more = CreatePartitionsTopic(name="t", count=3, assignments=None)
    assert client.ask(CreatePartitionsRequest(topics=[more]), version).results[0].error_code == 0
    assert client.produce("t", make_batch(b"a"), partition=2).error_code == 0
