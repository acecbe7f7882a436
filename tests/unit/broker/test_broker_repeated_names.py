"""A small request that names something large many times costs the broker no more than one that names it once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker_kit import Bench, Client
from levada.acls import AclBinding, AclBindingFilter
from levada.broker.access.authorizer import Authorizer
from levada.broker.config.settings import STANDARD_AUTHORIZER
from levada.broker.coordinators.placement import Placement
from levada.error_codes import ErrorCode
from levada.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from levada.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from levada.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from levada.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from levada.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from levada.protocol.messages.delete_groups import DeleteGroupsRequest
from levada.protocol.messages.describe_groups import DescribeGroupsRequest
from levada.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from levada.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from levada.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequestGroup
from levada.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from levada.protocol.messages.describe_topic_partitions import TopicRequest as DescribedTopic
from levada.protocol.messages.describe_transactions import DescribeTransactionsRequest
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsTopics
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from levada.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from levada.protocol.schema import Request

REPEATED = ["g", "h", "g", "g", "h"]
ANY = 1

ONCE: list[tuple[Request[Any], str, str]] = [
    (DescribeGroupsRequest(groups=REPEATED), "groups", "group_id"),
    (ConsumerGroupDescribeRequest(group_ids=REPEATED), "groups", "group_id"),
    (ShareGroupDescribeRequest(group_ids=REPEATED), "groups", "group_id"),
    (DeleteGroupsRequest(groups_names=REPEATED), "results", "group_id"),
    (DescribeTransactionsRequest(transactional_ids=REPEATED), "transaction_states", "transactional_id"),
    (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=one, topics=None) for one in REPEATED]), "groups", "group_id"),
    (
        DescribeShareGroupOffsetsRequest(groups=[DescribeShareGroupOffsetsRequestGroup(group_id=one, topics=None) for one in REPEATED]),
        "groups",
        "group_id",
    ),
    (DescribeTopicPartitionsRequest(topics=[DescribedTopic(name=one) for one in REPEATED]), "topics", "name"),
    (DescribeProducersRequest(topics=[TopicRequest(name=one, partition_indexes=[0]) for one in REPEATED]), "topics", "name"),
]


@pytest.mark.parametrize(("request_", "answers", "name"), ONCE, ids=lambda value: getattr(value, "NAME", ""))
def test_what_may_be_large_is_told_once(client: Client, request_: Request[Any], answers: str, name: str) -> None:
    version = 9 if isinstance(request_, OffsetFetchRequest) else None
    assert [getattr(one, name) for one in getattr(client.ask(request_, version), answers)] == ["g", "h"]


def test_different_topics_of_one_group_are_all_answered(client: Client) -> None:
    groups = [
        OffsetFetchRequestGroup(group_id="g", topics=[OffsetFetchRequestTopics(name=name, partition_indexes=[0])]) for name in ("t", "u")
    ]
    answered = client.ask(OffsetFetchRequest(groups=groups), 9).groups
    assert [(one.group_id, one.topics[0].name) for one in answered] == [("g", "t"), ("g", "u")]


def test_a_partition_that_producers_are_asked_of_several_times_is_described_once(client: Client) -> None:
    request = DescribeProducersRequest(
        topics=[TopicRequest(name="t", partition_indexes=[0, 1, 0]), TopicRequest(name="t", partition_indexes=[1])]
    )
    (topic,) = client.ask(request).topics
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [(0, 0), (1, 0)]


def test_a_partition_whose_offset_is_asked_for_twice_is_refused(client: Client) -> None:
    """As in Kafka: the two may ask for different times, and answers are found by the partition."""
    twice, other = ListOffsetsPartition(partition_index=0, timestamp=-1), ListOffsetsPartition(partition_index=1, timestamp=-1)
    topics = [
        ListOffsetsTopic(name="t", partitions=[twice, other, twice]),
        ListOffsetsTopic(name="missing", partitions=[twice]),
        ListOffsetsTopic(name="t", partitions=[twice]),
    ]
    answered = client.ask(ListOffsetsRequest(replica_id=-1, topics=topics)).topics
    assert {one.name: {part.partition_index: part.error_code for part in one.partitions} for one in answered} == {
        "t": {0: ErrorCode.INVALID_REQUEST, 1: ErrorCode.NONE},
        "missing": {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    }
    assert sum(len(one.partitions) for one in answered) == 3


class _NotWalked(list[Any]):
    """The partitions of a topic that are looked up, and never walked through."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("all partitions of a topic were walked through for some that are named")


def test_a_large_topic_that_is_named_many_times_is_not_walked_through_each_time(bench: Bench, client: Client) -> None:
    topic = bench.node.cluster.topics["t"]
    topic.partitions = _NotWalked(topic.partitions)
    described = client.ask(DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="t", partitions=[1, 1, 9, -1])] * 3))
    assert [[one.partition_index for one in told.partitions] for told in described.results[0].topics] == [[1]]
    named = [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 1])] * 3
    assert client.ask(ListPartitionReassignmentsRequest(topics=named)).topics == []


def test_every_key_has_its_coordinator_and_each_is_looked_for_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_for = []
    leader_of = Placement.leader_of

    def counted(placement: Placement, key: str) -> int:
        looked_for.append(key)
        return leader_of(placement, key)

    monkeypatch.setattr(Placement, "leader_of", counted)
    found = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=REPEATED), 4).coordinators
    assert [one.key for one in found] == REPEATED
    assert looked_for == ["g", "h"]


def test_every_filter_of_rules_is_answered_and_each_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS")
    client = bench.client()
    rule = AclCreation(resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3)
    assert not client.ask(CreateAclsRequest(creations=[rule])).results[0].error_code
    looked_up = []
    matching = Authorizer.matching

    def counted(authorizer: Authorizer, wanted: AclBindingFilter) -> list[AclBinding]:
        looked_up.append(wanted)
        return matching(authorizer, wanted)

    monkeypatch.setattr(Authorizer, "matching", counted)
    fits = DeleteAclsFilter(resource_type_filter=ANY, pattern_type_filter=ANY, operation=ANY, permission_type=ANY)
    other = DeleteAclsFilter(resource_type_filter=3, pattern_type_filter=ANY, operation=ANY, permission_type=ANY)
    results = client.ask(DeleteAclsRequest(filters=[fits, other, fits, fits])).filter_results
    assert [len(one.matching_acls) for one in results] == [1, 0, 1, 1]
    assert len(looked_up) == 2


# The partitions that one request makes


def creations(**counts: int) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in counts.items()]
    return CreateTopicsRequest(topics=topics, validate_only=True)


def test_topics_of_one_request_have_a_bounded_number_of_partitions_together() -> None:
    client = Bench(num_partitions=2).client()
    assert [one.error_code for one in client.ask(creations(a=6_000, b=4_000)).topics] == [0, 0]
    for refused in (creations(a=6_000, b=4_001), creations(a=9_999, b=-1), creations(a=10_001, b=0)):
        assert [one.error_code for one in client.ask(refused).topics] == [ErrorCode.POLICY_VIOLATION] * 2
    # What is refused for other reasons does not count.
    refused = creations(a=10_000, b=0, c=-5)
    assert [one.error_code for one in client.ask(refused).topics] == [0, *[ErrorCode.INVALID_PARTITIONS] * 2]


def test_partitions_that_are_assigned_count() -> None:
    client = Bench().client()
    request = creations(a=10_000, b=-1)
    request.topics[1].replication_factor = -1
    request.topics[1].assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]
    assert [one.error_code for one in client.ask(request).topics] == [ErrorCode.POLICY_VIOLATION] * 2


def test_new_partitions_of_one_request_are_bounded_together(bench: Bench, client: Client) -> None:
    bench.node.create_topic("u", 2)

    def ask(**totals: int) -> list[int]:
        wanted = [CreatePartitionsTopic(name=name, count=total) for name, total in totals.items()]
        return [one.error_code for one in client.ask(CreatePartitionsRequest(topics=wanted, validate_only=True)).results]

    assert ask(t=6_002, u=4_002) == [0, 0]
    assert ask(t=6_002, u=4_003) == [ErrorCode.POLICY_VIOLATION] * 2
    # What is refused for other reasons does not count.
    assert ask(t=10_002, u=1, missing=20_000) == [0, ErrorCode.INVALID_PARTITIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_topics_that_metadata_creates_are_bounded_together() -> None:
    bench = Bench(num_partitions=1_000)
    client = bench.client()
    for count, created in ((11, 0), (10, 10)):
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=f"t{number}") for number in range(count)])
        answers = client.ask(asked, 12).topics
        assert {one.error_code for one in answers} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert len(bench.node.cluster.topics) == created
