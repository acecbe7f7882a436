from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from broker_kit import SIZE, Bench, Client, fetch_request, make_batch, only_partition, produce_request
from group_kit import ConsumerGroupMember, GroupMember
from levada.broker.apis import SERVED
from levada.error_codes import ErrorCode
from levada.errors import ConfigError
from levada.protocol.frame import decode_response, encode_request
from levada.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from levada.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from levada.protocol.messages.add_raft_voter import AddRaftVoterRequest
from levada.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData
from levada.protocol.messages.alter_configs import AlterConfigsRequest
from levada.protocol.messages.alter_configs import AlterConfigsResource as WhollyAltered
from levada.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from levada.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from levada.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from levada.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from levada.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from levada.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from levada.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from levada.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from levada.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from levada.protocol.messages.delete_groups import DeleteGroupsRequest
from levada.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from levada.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.describe_acls import DescribeAclsRequest
from levada.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from levada.protocol.messages.describe_cluster import DescribeClusterRequest
from levada.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from levada.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from levada.protocol.messages.describe_groups import DescribeGroupsRequest
from levada.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from levada.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from levada.protocol.messages.describe_quorum import DescribeQuorumRequest
from levada.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequestGroup
from levada.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from levada.protocol.messages.describe_topic_partitions import TopicRequest as TopicToDescribe
from levada.protocol.messages.describe_transactions import DescribeTransactionsRequest
from levada.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from levada.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from levada.protocol.messages.end_txn import EndTxnRequest
from levada.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from levada.protocol.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.list_config_resources import ListConfigResourcesRequest
from levada.protocol.messages.list_groups import ListGroupsRequest
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from levada.protocol.messages.list_transactions import ListTransactionsRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from levada.protocol.messages.offset_delete import OffsetDeleteRequest
from levada.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from levada.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic
from levada.protocol.messages.push_telemetry import PushTelemetryRequest
from levada.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from levada.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from levada.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from levada.protocol.messages.sasl_handshake import SaslHandshakeRequest
from levada.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from levada.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from levada.protocol.messages.unregister_broker import UnregisterBrokerRequest
from levada.protocol.messages.unregister_controller import UnregisterControllerRequest
from levada.protocol.messages.update_features import UpdateFeaturesRequest
from levada.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from levada.protocol.schema import Request
from share_kit import ShareMember

NAMED = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")

# Versions


def ranges(client: Client, version: int = 4) -> dict[int, tuple[int, int]]:
    answer: ApiVersionsResponse = client.ask(NAMED, version)
    assert answer.error_code == 0
    return {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}


@pytest.mark.parametrize("version", range(6))
def test_H14_every_version_of_api_versions_lists_what_kafka_44_serves(client: Client, version: int) -> None:
    assert ranges(client, version) == {
        0: (0, 13),
        1: (4, 18),
        2: (1, 11),
        3: (0, 13),
        8: (2, 10),
        9: (1, 10),
        10: (0, 6),
        11: (0, 9),
        12: (0, 4),
        13: (0, 5),
        14: (0, 5),
        15: (0, 6),
        16: (0, 5),
        17: (0, 1),
        18: (0, 5),
        36: (0, 2),
        19: (2, 7),
        20: (1, 6),
        21: (0, 2),
        32: (1, 4),
        44: (0, 1),
        22: (0, 5),
        23: (2, 4),
        24: (0, 5),
        25: (0, 4),
        26: (0, 5),
        27: (1, 2),
        61: (0, 0),
        65: (0, 0),
        66: (0, 2),
        28: (0, 6),
        29: (1, 3),
        30: (1, 3),
        31: (1, 3),
        42: (0, 3),
        47: (0, 0),
        68: (0, 1),
        69: (0, 1),
        76: (1, 1),
        78: (1, 2),
        79: (1, 2),
        77: (1, 1),
        90: (0, 1),
        91: (0, 0),
        92: (0, 0),
        33: (0, 2),
        34: (1, 2),
        35: (1, 5),
        37: (0, 3),
        43: (0, 2),
        45: (0, 1),
        46: (0, 0),
        55: (0, 2),
        57: (0, 2),
        60: (0, 2),
        64: (0, 0),
        74: (0, 1),
        75: (0, 0),
        80: (0, 1),
        81: (0, 0),
        38: (1, 3),
        39: (1, 2),
        40: (1, 2),
        41: (1, 3),
        48: (0, 1),
        49: (0, 1),
        50: (0, 0),
        51: (0, 0),
        94: (0, 0),
    }


@pytest.mark.parametrize(("level", "version", "supported"), [(2, 4, [(0, 2)]), (2, 3, []), (1, 4, [(0, 2)]), (0, 4, [])])
def test_T12_the_transaction_version_is_a_finalized_feature(level: int, version: int, supported: list[tuple[int, int]]) -> None:
    """TR28: version 3 cannot say that a feature's least level is 0, and leaves it out."""
    answer = Bench(transaction_version=level, group_version=0, share_version=0).client().ask(NAMED, version)
    assert [(one.name, one.max_version_level) for one in answer.finalized_features] == ([("transaction.version", level)] if level else [])
    assert [(one.min_version, one.max_version) for one in answer.supported_features] == supported


def test_T12_below_transaction_version_2_newer_requests_are_not_served() -> None:
    served = ranges(Bench(transaction_version=1).client())
    assert [served[key][1] for key in (0, 26, 27, 28, 66)] == [11, 4, 1, 4, 1]
    with pytest.raises(ConfigError, match="'transaction_version' must be 0, 1 or 2, not 3"):
        Bench(transaction_version=3)


def test_H9_an_unknown_version_of_api_versions_is_answered_in_version_0_with_the_right_range(client: Client) -> None:
    client.send_raw(bytes.fromhex("0012 0063 0000002a ffff 00 01 02 03"))

    (frame,) = client.bench.sent[client.id]
    assert frame is not None
    answer = decode_response(ApiVersionsRequest, 0, frame[SIZE:])
    assert isinstance(answer, ApiVersionsResponse)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(entry.api_key, entry.min_version, entry.max_version) for entry in answer.api_keys] == [(18, 0, 5)]
    client.bench.sent[client.id].clear()
    assert 3 in ranges(client)


@pytest.mark.parametrize("name", ["", "-levada", "pen stock"])
def test_H8_a_software_name_that_cannot_be_is_an_invalid_request(client: Client, name: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    assert client.ask(request, 3).error_code == ErrorCode.INVALID_REQUEST
    assert client.ask(request, 2).error_code == 0


def test_a_client_that_reached_another_cluster_than_it_meant_gets_an_error(client: Client) -> None:
    cluster = client.bench.node.cluster.id

    def meaning(cluster_id: str | None, node_id: int) -> int:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1", cluster_id=cluster_id, node_id=node_id)
        return int(client.ask(request, 5).error_code)

    assert (meaning(cluster, 1), meaning(None, -1)) == (0, 0)
    assert meaning("other", 1) == meaning(cluster, 7) == ErrorCode.REBOOTSTRAP_REQUIRED
    assert meaning(cluster, -1) == meaning(None, 1) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(bytes.fromhex("0001 0003 00000001 ffff") + bytes(40), id="Fetch 3 is older than what is served"),
        pytest.param(bytes.fromhex("0000 0002 00000001 ffff 0001 00000000 00000000"), id="Produce 2 is claimed but not served"),
        pytest.param(bytes.fromhex("0003 0063 00000001 ffff") + bytes(40), id="Metadata 99"),
        pytest.param(bytes.fromhex("7000 0000 00000001 ffff"), id="unknown API"),
        pytest.param(bytes.fromhex("0011 0000 00000001 ffff 0000"), id="API not served"),
        pytest.param(b"", id="empty"),
        pytest.param(b"GET / HTTP/1.1\r\n", id="HTTP"),
        pytest.param(bytes.fromhex("0003 0001 00000001 ffff 7fffffff"), id="array longer than the frame"),
    ],
)
def test_H13_E3_what_is_not_served_or_not_readable_costs_the_connection(client: Client, frame: bytes) -> None:
    client.send_raw(frame)
    assert client.bench.sent[client.id] == [None]
    client.send_raw(bytes(encode_request(MetadataRequest(), 1, 1, None))[SIZE:])
    assert client.bench.sent[client.id] == [None]


# Every API, every version, refused: what a handler cannot do, a fault or a bug answers with

REQUESTS: dict[int, Callable[[int], Request]] = {
    0: lambda version: produce_request("t", make_batch(b"x"), acks=1),
    1: lambda version: fetch_request("t"),
    2: lambda version: ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(timestamp=-1)])]),
    3: lambda version: MetadataRequest(topics=[MetadataRequestTopic(name="t")]),
    10: lambda version: FindCoordinatorRequest(coordinator_keys=["g"]) if version >= 4 else FindCoordinatorRequest(key="g"),
    18: lambda version: NAMED,
    19: lambda version: CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)]),
    20: lambda version: (
        DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]) if version >= 6 else DeleteTopicsRequest(topic_names=["t"])
    ),
    21: lambda version: DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition()])]),
    22: lambda version: InitProducerIdRequest(transaction_timeout_ms=1),
    23: lambda version: OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition()])]),
    24: lambda version: (
        AddPartitionsToTxnRequest()
        if version >= 4
        else AddPartitionsToTxnRequest(v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])])
    ),
    25: lambda version: AddOffsetsToTxnRequest(),
    26: lambda version: EndTxnRequest(),
    27: lambda version: WriteTxnMarkersRequest(
        markers=[WritableTxnMarker(topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])])]
    ),
    61: lambda version: DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])]),
    65: lambda version: DescribeTransactionsRequest(transactional_ids=["tx"]),
    66: lambda version: ListTransactionsRequest(),
}
REQUESTS |= {
    29: lambda version: DescribeAclsRequest(resource_type_filter=2),
    30: lambda version: CreateAclsRequest(creations=[AclCreation(resource_type=2, resource_name="t", principal="User:a", host="*")]),
    31: lambda version: DeleteAclsRequest(filters=[DeleteAclsFilter(resource_type_filter=2)]),
    32: lambda version: DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=2, resource_name="t")]),
    44: lambda version: IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(resource_type=2, resource_name="t")]),
    8: lambda version: OffsetCommitRequest(group_id="g", topics=[_topic(OffsetCommitRequestTopic, OffsetCommitRequestPartition)]),
    9: lambda version: (
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[])])
        if version >= 8
        else OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
    ),
    28: lambda version: TxnOffsetCommitRequest(group_id="g", topics=[_topic(TxnOffsetCommitRequestTopic, TxnOffsetCommitRequestPartition)]),
    47: lambda version: OffsetDeleteRequest(group_id="g"),
    71: lambda version: GetTelemetrySubscriptionsRequest(),
    72: lambda version: PushTelemetryRequest(client_instance_id=uuid4(), terminating=True),
    11: lambda version: GroupMember("g").join(session_timeout_ms=0),
    12: lambda version: GroupMember("g").heartbeat(),
    13: lambda version: GroupMember("g").leave(version),
    14: lambda version: GroupMember("g").sync(),
    17: lambda version: SaslHandshakeRequest(mechanism="PLAIN"),
    36: lambda version: SaslAuthenticateRequest(auth_bytes=b""),
    15: lambda version: DescribeGroupsRequest(groups=["g"]),
    16: lambda version: ListGroupsRequest(),
    42: lambda version: DeleteGroupsRequest(groups_names=["g"]),
    68: lambda version: ConsumerGroupMember("g", "m").beat(),
    69: lambda version: ConsumerGroupDescribeRequest(group_ids=["g"]),
    76: lambda version: ShareMember("g", "m").join(),
    78: lambda version: ShareMember("g", "m").fetch(),
    79: lambda version: ShareMember("g", "m").acknowledge({}),
    77: lambda version: ShareGroupDescribeRequest(group_ids=["g"]),
    90: lambda version: DescribeShareGroupOffsetsRequest(groups=[DescribeShareGroupOffsetsRequestGroup(group_id="g")]),
    91: lambda version: AlterShareGroupOffsetsRequest(group_id="g"),
    92: lambda version: DeleteShareGroupOffsetsRequest(group_id="g"),
    33: lambda version: AlterConfigsRequest(resources=[WhollyAltered(resource_type=2, resource_name="t")]),
    34: lambda version: AlterReplicaLogDirsRequest(
        dirs=[AlterReplicaLogDir(path="/", topics=[AlterReplicaLogDirTopic(name="t", partitions=[0])])]
    ),
    35: lambda version: DescribeLogDirsRequest(topics=None),
    37: lambda version: CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2, assignments=None)]),
    43: lambda version: ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0])]),
    45: lambda version: AlterPartitionReassignmentsRequest(),
    46: lambda version: ListPartitionReassignmentsRequest(topics=None),
    55: lambda version: DescribeQuorumRequest(),
    57: lambda version: UpdateFeaturesRequest(),
    60: lambda version: DescribeClusterRequest(),
    64: lambda version: UnregisterBrokerRequest(),
    74: lambda version: ListConfigResourcesRequest(),
    75: lambda version: DescribeTopicPartitionsRequest(topics=[TopicToDescribe(name="t")]),
    80: lambda version: AddRaftVoterRequest(),
    81: lambda version: RemoveRaftVoterRequest(),
    38: lambda version: CreateDelegationTokenRequest(),
    39: lambda version: RenewDelegationTokenRequest(),
    40: lambda version: ExpireDelegationTokenRequest(),
    41: lambda version: DescribeDelegationTokenRequest(),
    48: lambda version: DescribeClientQuotasRequest(),
    49: lambda version: AlterClientQuotasRequest(entries=[EntryData(entity=[EntityData(entity_type="user", entity_name="a")])]),
    50: lambda version: DescribeUserScramCredentialsRequest(),
    51: lambda version: AlterUserScramCredentialsRequest(upsertions=[ScramCredentialUpsertion(name="a")]),
    94: lambda version: UnregisterControllerRequest(),
}


def _topic(topic: type[Any], partition: type[Any]) -> Any:
    return topic(name="t", partitions=[partition(committed_metadata="m")])


EVERY = [
    pytest.param(key, version, id=f"{api.request.NAME}-{version}")
    for key, api in SERVED.items()
    for version in range(api.oldest, api.newest + 1)
]


@pytest.mark.parametrize(("key", "version"), EVERY)
def test_every_api_can_be_refused_in_every_version(key: int, version: int) -> None:
    client = Bench(client_telemetry=True).client()
    client.bench.node.create_topic("t")
    name = SERVED[key].request.NAME
    client.bench.node.faults.fail_next(name, ErrorCode.NOT_CONTROLLER)
    assert "error_code=41" in repr(client.ask(REQUESTS[key](version), version))
    assert client.bench.node.faults.requests[name] == 1
    assert "error_code=41" not in repr(client.ask(REQUESTS[key](version), version))


def test_a_bug_is_answered_as_unknown_server_error_and_logged(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(SERVED, 22, SERVED[22]._replace(handle=lambda call: 1 / 0))  # type: ignore[arg-type, return-value]
    with caplog.at_level(logging.ERROR):
        assert client.ask(InitProducerIdRequest()).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "InitProducerId version 5 failed" in caplog.text


# Order


def test_E2_W14_requests_of_one_connection_are_answered_one_after_the_other(bench: Bench, client: Client) -> None:
    client.send(fetch_request("t", max_wait_ms=500), 12)
    client.send(MetadataRequest(topics=None), 9)
    client.send(produce_request("t", make_batch(b"own")), 9)
    assert bench.node.is_busy(client.id)
    assert client.answers() == []
    assert bench.node.log("t").end_offset == 0

    bench.advance(500)
    fetched, metadata, produced = client.answers()
    assert only_partition(fetched).high_watermark == 0
    assert metadata.API_KEY == 3
    assert produced.responses[0].partition_responses[0].base_offset == 0
    assert not bench.node.is_busy(client.id)


def test_E2_one_connection_that_waits_does_not_hold_up_another(bench: Bench, client: Client) -> None:
    client.send(fetch_request("t", max_wait_ms=500), 12)
    assert bench.client().ask(MetadataRequest(topics=None), 9).brokers


def test_a_long_chain_of_connections_that_wake_each_other_is_no_recursion(bench: Bench) -> None:
    chain = 1200
    bench.node.create_topic("chain", chain + 1)
    for index in range(chain):
        client = bench.client()
        client.send(fetch_request("chain", partition=index, max_wait_ms=60_000), 12)
        client.send(produce_request("chain", make_batch(b"next"), partition=index + 1), 9)
    bench.client().produce("chain", make_batch(b"first"), partition=0)
    bench.advance()
    assert bench.node.log("chain", chain).end_offset == 1


# Faults


def test_E12_a_dropped_response_was_applied_and_leaves_the_connection_silent(bench: Bench, client: Client) -> None:
    bench.node.faults.drop_response("Produce", nth=2)
    assert client.produce("t", make_batch(b"a")).base_offset == 0
    client.send(produce_request("t", make_batch(b"b")), 9)
    client.send(MetadataRequest(topics=None), 9)
    bench.advance(100_000)
    assert client.answers() == []
    assert bench.node.log("t").end_offset == 2
    assert bench.client().produce("t", make_batch(b"c")).base_offset == 2


@pytest.mark.parametrize("applied", [False, True])
def test_E12_a_connection_is_closed_before_or_after_the_request_is_applied(bench: Bench, client: Client, applied: bool) -> None:
    bench.node.faults.disconnect("Produce", applied=applied)
    client.send(produce_request("t", make_batch(b"a")), 9)
    assert client.closed
    assert bench.node.log("t").end_offset == int(applied)


def test_E12_a_response_is_delayed_and_those_after_it_wait(bench: Bench, client: Client) -> None:
    bench.node.faults.delay("Metadata", 300)
    client.send(MetadataRequest(topics=None), 9)
    client.send(fetch_request("t"), 12)
    assert bench.advance(299) == 300
    assert client.answers() == []
    bench.advance(1)
    assert [answer.API_KEY for answer in client.answers()] == [3, 1]


def test_E12_a_throttled_connection_is_answered_at_once_and_then_left_unread(bench: Bench, client: Client) -> None:
    bench.node.faults.throttle("Metadata", 300)
    assert client.ask(MetadataRequest(topics=None), 9).throttle_time_ms == 300
    client.send(fetch_request("t"), 12)
    assert bench.advance(299) == 300
    assert client.answers() == []
    bench.advance(1)
    assert [answer.API_KEY for answer in client.answers()] == [1]
    assert client.ask(MetadataRequest(topics=None), 9).throttle_time_ms == 0


@pytest.mark.parametrize("after_bytes", [0, 3, 10])
def test_E12_a_connection_is_closed_in_the_middle_of_an_answer(bench: Bench, client: Client, after_bytes: int) -> None:
    bench.node.faults.close_mid_frame("Produce", after_bytes=after_bytes)
    client.send(produce_request("t", make_batch(b"a")), 9)
    cut, end = bench.sent[client.id]
    assert (len(cut or b""), end) == (after_bytes, None)
    assert bench.node.log("t").end_offset == 1


def test_E12_an_error_for_one_partition_leaves_the_others_alone(bench: Bench, client: Client) -> None:
    bench.node.faults.fail_next("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2, topic="t", partition=1)
    codes = [client.produce("t", make_batch(b"a"), partition=partition).error_code for partition in (0, 1, 1, 1)]
    assert codes == [0, 6, 6, 0]


def test_E12_an_error_after_the_request_was_applied(bench: Bench, client: Client) -> None:
    bench.node.faults.fail_next("Produce", ErrorCode.REQUEST_TIMED_OUT, applied=True)
    assert client.produce("t", make_batch(b"a")).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert bench.node.log("t").end_offset == 1


def test_E12_a_waiting_fetch_can_be_dropped_too(bench: Bench, client: Client) -> None:
    bench.node.faults.drop_response("Fetch")
    client.send(fetch_request("t", max_wait_ms=100), 12)
    bench.advance(1000)
    assert client.answers() == []


def test_E12_acks_0_that_is_to_fail_closes_the_connection(bench: Bench, client: Client) -> None:
    bench.node.faults.fail_next("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    client.send(produce_request("t", make_batch(b"a"), acks=0), 9)
    assert client.closed


def test_E12_versions_can_be_capped_to_look_like_an_older_broker(bench: Bench, client: Client) -> None:
    bench.node.faults.cap_version("Fetch", 11)
    bench.node.faults.cap_version("ApiVersions", 2)
    bench.node.faults.cap_version("InitProducerId", -1)
    served = ranges(client, 2)
    assert (served[1], served[18]) == ((4, 11), (0, 2))
    assert 22 not in served
    client.send(fetch_request("t"), 12)
    assert client.closed


def test_E12_a_newer_version_of_api_versions_can_end_the_connection(bench: Bench, client: Client) -> None:
    bench.node.faults.cap_version("ApiVersions", 2, closes=True)
    assert ranges(client, 2)[18] == (0, 2)
    client.send(ApiVersionsRequest(), 3)
    assert client.closed
    bench.node.faults.cap_version("ApiVersions", 2)
    assert not bench.node.faults.closes_at_newer("ApiVersions")


def test_a_fault_for_an_api_that_is_not_served_is_a_mistake(bench: Bench) -> None:
    with pytest.raises(ConfigError, match="serves no API 'Prodcue'; did you mean 'Produce'"):
        bench.node.faults.drop_response("Prodcue")


def test_faults_can_be_cleared(bench: Bench, client: Client) -> None:
    bench.node.faults.disconnect("Metadata")
    bench.node.faults.clear()
    assert client.ask(MetadataRequest(topics=None), 9).brokers
