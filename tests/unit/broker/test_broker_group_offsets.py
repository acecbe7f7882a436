"""Offsets of groups as the embedded broker keeps them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from broker_kit import Bench, Client
from levada.broker.cluster.cluster import Cluster
from levada.broker.config.settings import BrokerSettings
from levada.broker.coordinators.groups.group_offsets import GroupOffsets
from levada.broker.node.node import BrokerNode
from levada.client.requests.group_offsets import FIRST_VERSION_IN_KAFKA
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from levada.protocol.messages.offset_delete import OffsetDeleteRequest
from levada.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from levada.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from levada.types import OffsetAndMetadata, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PRODUCER = 70


def at(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset)


@pytest.fixture
def offsets() -> GroupOffsets:
    return GroupOffsets()


# The table


def test_O11_the_last_commit_counts(offsets: GroupOffsets) -> None:
    offsets.commit("g", {T0: at(1), T1: at(2)})
    offsets.commit("g", {T0: OffsetAndMetadata(0, 3, "back")})
    assert offsets.committed("g", T0) == OffsetAndMetadata(0, 3, "back")
    assert offsets.committed("g", T1) == at(2)
    assert offsets.committed("other", T0) is None


@pytest.mark.parametrize("committed", [True, False])
def test_T6_what_a_transaction_commits_counts_when_it_is_committed(offsets: GroupOffsets, committed: bool) -> None:
    offsets.commit("g", {T0: at(1)})
    offsets.commit_in_transaction("g", PRODUCER, 0, {T0: at(5)})
    assert (offsets.committed("g", T0), offsets.is_pending("g", T0), offsets.is_pending("g", T1)) == (at(1), True, False)

    offsets.end_transaction(PRODUCER, committed=committed, groups=["g"])
    assert (offsets.committed("g", T0), offsets.is_pending("g", T0)) == (at(5 if committed else 1), False)


def test_T6_the_transaction_of_one_producer_ends_alone(offsets: GroupOffsets) -> None:
    offsets.commit_in_transaction("g", PRODUCER, 0, {T0: at(5)})
    offsets.commit_in_transaction("g", PRODUCER + 1, 0, {T0: at(6)})
    offsets.end_transaction(PRODUCER, committed=True, groups=["g", "no such group"])
    assert offsets.committed("g", T0) == at(5)
    assert offsets.is_pending("g", T0)


def test_T6_the_later_written_offset_counts_whichever_transaction_ends_first(offsets: GroupOffsets) -> None:
    offsets.commit_in_transaction("g", PRODUCER, 0, {T0: at(5)})
    offsets.commit("g", {T0: at(6)})
    offsets.end_transaction(PRODUCER, committed=True, groups=["g"])
    assert offsets.committed("g", T0) == at(6)


def test_T6_an_older_instance_of_a_producer_is_refused_and_a_newer_one_goes_on(offsets: GroupOffsets) -> None:
    offsets.commit_in_transaction("g", PRODUCER, 4, {T0: at(5)})
    with pytest.raises(BrokerError) as refused:
        offsets.commit_in_transaction("g", PRODUCER, 3, {T0: at(6)})
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    offsets.commit_in_transaction("g", PRODUCER, 5, {T1: at(7)})
    offsets.end_transaction(PRODUCER, committed=True, groups=["g"])
    assert (offsets.committed("g", T0), offsets.committed("g", T1)) == (at(5), at(7))


def test_a_deleted_topic_takes_its_offsets_along(bench: Bench) -> None:
    cluster = bench.node.cluster
    bench.node.create_topic("u")
    cluster.group_offsets.commit("g", {T0: at(5), TopicPartition("u", 0): at(1)})
    cluster.group_offsets.commit_in_transaction("g", PRODUCER, 0, {T1: at(5)})
    topic = cluster.topic("t")
    assert topic is not None
    cluster.remove(topic)
    cluster.group_offsets.end_transaction(FIRST_PRODUCER, committed=True, groups=["g"])
    assert cluster.group_offsets.partitions("g") == [TopicPartition("u", 0)]


# The requests


def commit(client: Client, group: str = "g", partition: int = 0, offset: int = 5, version: int = 9) -> int:
    wanted = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="m")
    request = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="t", partitions=[wanted])])
    code: int = client.ask(request, version).topics[0].partitions[0].error_code
    return code


FIRST_PRODUCER = 0


def commit_in_transaction(client: Client, group: str = "g", **fields: Any) -> int:
    wanted = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=8, committed_metadata=fields.pop("metadata", "m"))
    topic = TxnOffsetCommitRequestTopic(name="t", partitions=[wanted])
    transactions = client.bench.node.cluster.transactions
    transactions.find("x") or transactions.initialise("x", 60_000, None, client.bench.now_ms)
    request = TxnOffsetCommitRequest(transactional_id="x", group_id=group, producer_id=FIRST_PRODUCER, topics=[topic], **fields)
    code: int = client.ask(request, 5).topics[0].partitions[0].error_code
    return code


def fetch(client: Client, group: str = "g", *, stable: bool = True) -> tuple[int, int]:
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[topic])], require_stable=stable)
    part = client.ask(request, 9).groups[0].topics[0].partitions[0]
    return part.committed_offset, part.error_code


def test_O16_a_pending_offset_makes_the_committed_one_unstable_for_who_asks_for_stable_ones(client: Client) -> None:
    commit(client)
    assert commit_in_transaction(client) == ErrorCode.NONE
    assert fetch(client) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert fetch(client, stable=False) == (5, ErrorCode.NONE)
    client.bench.node.cluster.group_offsets.end_transaction(FIRST_PRODUCER, committed=True, groups=["g"])
    assert fetch(client) == (8, ErrorCode.NONE)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"generation_id_or_member_epoch": 3}, ErrorCode.ILLEGAL_GENERATION),
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"metadata": "x" * 4097}, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ({"metadata": "\u00e4" * 4096}, ErrorCode.NONE),
        ({"member_id": "x"}, ErrorCode.NONE),
    ],
)
def test_T6_what_a_commit_in_a_transaction_is_refused_for(client: Client, fields: dict[str, Any], code: ErrorCode) -> None:
    assert commit_in_transaction(client, **fields) == code
    assert client.bench.node.cluster.group_offsets.is_pending("g", T0) == (code is ErrorCode.NONE)


def test_C6_V16_the_versions_that_kept_offsets_in_zookeeper_are_neither_served_nor_asked_for(client: Client) -> None:
    served = {api.api_key: api.min_version for api in client.ask(ApiVersionsRequest(), 2).api_keys}
    assert (served[OffsetCommitRequest.API_KEY], served[OffsetFetchRequest.API_KEY]) == (2, 1)
    assert FIRST_VERSION_IN_KAFKA == 1


def test_metadata_of_a_commit_is_bounded_by_the_brokers_setting() -> None:
    bench = Bench(offset_metadata_max_bytes=0)
    bench.node.create_topic("t", 1)
    assert commit(bench.client()) == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_a_node_that_does_not_coordinate_a_group_says_so() -> None:
    cluster = Cluster(BrokerSettings.of(), Random(1))
    first, second = (BrokerNode(node_id=node_id, cluster=cluster) for node_id in (1, 2))
    first.create_topic("t", 1)
    group = next(name for name in ("a", "b", "c") if cluster.group_coordinators.leader_of(name) == 2)
    client = _client_of(first)

    assert commit(client, group) == ErrorCode.NOT_COORDINATOR
    assert commit_in_transaction(client, group) == ErrorCode.NOT_COORDINATOR
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group)])
    assert client.ask(request, 9).groups[0].error_code == ErrorCode.NOT_COORDINATOR
    assert client.ask(OffsetDeleteRequest(group_id=group), 0).error_code == ErrorCode.NOT_COORDINATOR

    assert commit(_client_of(second), group) == ErrorCode.NONE


def _client_of(node: BrokerNode) -> Client:
    bench = Bench()
    bench.node = node
    return bench.client()


@pytest.mark.parametrize("version", [1, 5, 9])
def test_a_planned_fault_reaches_the_whole_answer(client: Client, version: int) -> None:
    client.bench.node.faults.fail_next("OffsetFetch", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    if version >= 8:
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        (group,) = client.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)]), version).groups
        assert group.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return
    request = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
    answer = client.ask(request, version)
    found = answer.error_code if version >= 2 else answer.topics[0].partitions[0].error_code
    assert found == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_planned_fault_reaches_one_partition(client: Client) -> None:
    client.bench.node.faults.fail_next("OffsetCommit", ErrorCode.REQUEST_TIMED_OUT, topic="t", partition=1)
    assert (commit(client, partition=0), commit(client, partition=1), commit(client, partition=1)) == (0, ErrorCode.REQUEST_TIMED_OUT, 0)
