from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from broker_kit import Bench, Client, make_batch
from levada.broker.config.settings import BrokerSettings
from levada.error_codes import ErrorCode
from levada.errors import ConfigError
from levada.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from levada.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from levada.testing import SimulatedKafka
from levada.types import is_topic_name


def create(
    client: Client, name: str = "new", *, version: int = 7, config: dict[str, str | None] | None = None, **fields: Any
) -> CreatableTopicResult:
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()]
    wanted = CreatableTopic(name=name, **{"num_partitions": -1, "replication_factor": -1, **fields}, configs=configs)
    result: CreatableTopicResult = client.ask(CreateTopicsRequest(topics=[wanted]), version).topics[0]
    return result


def describe(client: Client, name: str, version: int = 13, **options: Any) -> MetadataResponseTopic:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], **{"allow_auto_topic_creation": False, **options})
    topic: MetadataResponseTopic = client.ask(request, version).topics[0]
    return topic


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_of_create_topics_creates(client: Client, version: int) -> None:
    result = create(client, version=version, num_partitions=3, config={"retention.ms": "5"})
    assert (result.error_code, result.error_message) == (0, None)
    assert len(describe(client, "new").partitions) == 3
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        assert {setting.name: (setting.value, setting.config_source) for setting in result.configs or ()}["retention.ms"] == ("5", 1)


def test_defaults_come_from_the_broker() -> None:
    client = Bench(num_partitions=4, log_retention_ms=77).client()
    result = create(client)
    assert result.num_partitions == 4
    assert {setting.name: (setting.value, setting.config_source) for setting in result.configs or ()}["retention.ms"] == ("77", 5)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "t"}, ErrorCode.TOPIC_ALREADY_EXISTS),
        ({"name": "not allowed"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"num_partitions": 10_001}, ErrorCode.POLICY_VIOLATION),
        ({"num_partitions": 2**31 - 1}, ErrorCode.POLICY_VIOLATION),
        ({"replication_factor": 2}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"config": {"retention.msx": "1"}}, ErrorCode.INVALID_CONFIG),
        ({"config": {"retention.ms": "soon"}}, ErrorCode.INVALID_CONFIG),
        ({"config": {"retention.ms": None}}, ErrorCode.INVALID_CONFIG),
        ({"config": {"cleanup.policy": "shred"}}, ErrorCode.INVALID_CONFIG),
        ({"config": {"preallocate": "maybe"}}, ErrorCode.INVALID_CONFIG),
        ({"config": {"min.cleanable.dirty.ratio": "1.5"}}, ErrorCode.INVALID_CONFIG),
        ({"assignments": [CreatableReplicaAssignment(partition_index=1, broker_ids=[1])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [CreatableReplicaAssignment(partition_index=0, broker_ids=[9])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (
            {"num_partitions": 1, "assignments": [CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]},
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_the_reason(client: Client, fields: dict[str, Any], code: ErrorCode) -> None:
    result = create(client, **fields)
    assert ErrorCode(result.error_code) == code
    assert result.error_message
    assert set(client.bench.node.cluster.topics) == {"t"}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("retention.ms", "abc", "must be a whole number"),
        ("retention.ms", "1_000", "must be a whole number"),
        ("retention.ms", "9223372036854775808", "must be between -1 and 9223372036854775807"),
        ("retention.ms", "-2", "must be between -1 and 9223372036854775807"),
        ("segment.bytes", "2147483648", "must be between 14 and 2147483647"),
        ("min.cleanable.dirty.ratio", "half", "must be a number"),
        ("min.cleanable.dirty.ratio", "1.5", "must be between 0 and 1"),
        ("min.cleanable.dirty.ratio", "nan", "must be between 0 and 1"),
        ("preallocate", "maybe", "must be true or false"),
        ("cleanup.policy", "shred", "must be a list of some of compact, delete"),
        ("message.timestamp.type", "Now", "must be one of CreateTime, LogAppendTime"),
    ],
)
def test_a_bad_setting_is_refused_with_the_reason(client: Client, name: str, value: str, reason: str) -> None:
    result = create(client, config={name: value})
    assert (result.error_code, result.error_message) == (40, f"invalid value '{value}' for topic config {name}: {reason}")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("retention.msx", "1", "unknown topic config name: retention.msx"),
        ("retention.ms", None, "null is not allowed for topic config retention.ms"),
    ],
)
def test_a_setting_without_a_name_or_a_value_is_refused(client: Client, name: str, value: str | None, text: str) -> None:
    assert create(client, config={name: value}).error_message == text


def test_settings_may_be_numbers_and_booleans_where_a_program_makes_the_topic() -> None:
    with SimulatedKafka() as kafka:
        kafka.create_topic("t", config={"retention.ms": 5, "preallocate": True, "min.cleanable.dirty.ratio": 0.25})
        assert kafka.node.cluster.topics["t"].config.overrides == {
            "retention.ms": "5",
            "preallocate": "true",
            "min.cleanable.dirty.ratio": "0.25",
        }
        with pytest.raises(ConfigError, match=r"invalid value '-2' for topic config retention\.ms"):
            kafka.create_topic("u", config={"retention.ms": -2})


def test_partitions_that_are_added_at_once_are_bounded(client: Client) -> None:
    more = CreatePartitionsTopic(name="t", count=2**31 - 1)
    assert client.ask(CreatePartitionsRequest(topics=[more])).results[0].error_code == ErrorCode.POLICY_VIOLATION


def test_a_topic_that_metadata_is_asked_for_several_times_is_described_once(client: Client) -> None:
    """Otherwise a request of a kilobyte could name a large topic hundreds of times."""
    names = ["t", "missing", "t", "t", "missing"]
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False)
    assert [topic.name for topic in client.ask(request).topics] == ["t", "missing"]


def test_a_resource_whose_settings_are_asked_for_several_times_is_described_once(client: Client) -> None:
    topic = DescribeConfigsResource(resource_type=2, resource_name="t")
    assert len(client.ask(DescribeConfigsRequest(resources=[topic] * 50)).results) == 1


def test_replicas_may_be_assigned_by_hand(client: Client) -> None:
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=[1]) for index in (1, 0)]
    assert create(client, assignments=assignments).num_partitions == 2


def test_M_C11_a_name_that_stands_twice_in_a_request_is_refused(client: Client) -> None:
    twice = [CreatableTopic(name="new", num_partitions=1, replication_factor=1) for _ in range(2)]
    results = client.ask(CreateTopicsRequest(topics=twice)).topics
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST]


def test_validate_only_creates_nothing(client: Client) -> None:
    wanted = CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    assert client.ask(CreateTopicsRequest(topics=[wanted], validate_only=True)).topics[0].error_code == 0
    assert describe(client, "new").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_of_delete_topics_deletes(client: Client, version: int) -> None:
    names = ["t", "missing"]
    request = (
        DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names])
        if version >= 6
        else DeleteTopicsRequest(topic_names=names)
    )
    answers = client.ask(request, version).responses
    assert [(answer.name, answer.error_code) for answer in answers] == [("t", 0), ("missing", 3)]
    assert client.bench.node.cluster.topics == {}


def test_topics_are_deleted_by_id_and_a_new_one_of_the_same_name_has_another(client: Client) -> None:
    first = describe(client, "t").topic_id
    assert client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=first)])).responses[0].name == "t"
    create(client, "t")
    assert describe(client, "t").topic_id != first
    again = client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=first), DeleteTopicState()])).responses
    assert [answer.error_code for answer in again] == [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_REQUEST]


def test_deletion_may_be_forbidden() -> None:
    bench = Bench(delete_topic_enable=False)
    bench.node.create_topic("t")
    answer = bench.client().ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")])).responses[0]
    assert answer.error_code == ErrorCode.TOPIC_DELETION_DISABLED


# Metadata


@pytest.mark.parametrize("version", range(14))
def test_every_version_of_metadata_describes_cluster_and_topic(client: Client, version: int) -> None:
    answer = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), version)
    assert [(broker.node_id, broker.host, broker.port) for broker in answer.brokers] == [(1, "127.0.0.1", 9092)]
    (topic,) = answer.topics
    assert (topic.error_code, topic.name) == (0, "t")
    assert [(found.partition_index, found.leader_id, found.isr_nodes) for found in topic.partitions] == [(0, 1, [1]), (1, 1, [1])]
    assert answer.controller_id == (1 if version >= 1 else -1)
    assert answer.cluster_id == (client.bench.node.cluster.id if version >= 2 else None)


@pytest.mark.parametrize(("version", "topics", "names"), [(0, [], ["t"]), (1, None, ["t"]), (1, [], []), (13, None, ["t"])])
def test_TR4_all_topics_is_an_empty_list_in_version_0_and_null_later(
    client: Client, version: int, topics: list[MetadataRequestTopic] | None, names: list[str]
) -> None:
    assert [topic.name for topic in client.ask(MetadataRequest(topics=topics), version).topics] == names


def test_topics_are_found_by_id_from_version_12_on(client: Client) -> None:
    known, unknown = client.bench.node.cluster.topics["t"].id, uuid4()
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in (known, unknown)])
    found, missing = client.ask(request, 12).topics
    assert (found.name, len(found.partitions)) == ("t", 2)
    assert (missing.error_code, missing.name, missing.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, unknown)
    assert client.ask(request, 11).topics[0].error_code == ErrorCode.INVALID_REQUEST


def test_E11_a_missing_topic_is_created_on_the_way_and_known_to_the_next_answer() -> None:
    client = Bench(num_partitions=3).client()
    first = describe(client, "new", allow_auto_topic_creation=True)
    assert (first.error_code, first.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert len(describe(client, "new").partitions) == 3


@pytest.mark.parametrize(("broker_allows", "client_allows"), [(False, True), (True, False)])
def test_E11_a_missing_topic_is_not_created_unless_both_sides_want_it(broker_allows: bool, client_allows: bool) -> None:
    client = Bench(auto_create_topics_enable=broker_allows).client()
    for _ in range(2):
        found = describe(client, "new", allow_auto_topic_creation=client_allows)
        assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_W15_a_name_that_cannot_be_is_not_created(client: Client) -> None:
    assert describe(client, "no spaces", allow_auto_topic_creation=True).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_name_that_collides_in_metrics_is_not_created(client: Client) -> None:
    assert create(client, name="a.b_c").error_code == 0
    for name in ("a_b_c", "a_b.c"):
        assert create(client, name=name).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert describe(client, name, allow_auto_topic_creation=True).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert create(client, name="a.b_c").error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    client.bench.node.delete_topic("a.b_c")
    assert create(client, name="a_b_c").error_code == 0


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        *((name, True) for name in ("a", "A.b_c-9", "x" * 249, "...")),
        *((name, False) for name in ("", ".", "..", "x" * 250, "ä", "a/b", "a b", "a\n")),
    ],
)
def test_W15_topic_names(name: str, legal: bool) -> None:
    assert is_topic_name(name) is legal


def test_operations_are_told_only_when_asked_for(client: Client) -> None:
    assert describe(client, "t").topic_authorized_operations == -(2**31)
    asked = MetadataRequest(topics=None, include_cluster_authorized_operations=True, include_topic_authorized_operations=True)
    answer = client.ask(asked, 9)
    assert (answer.topics[0].topic_authorized_operations, answer.cluster_authorized_operations) == (3576, 8096)


# Settings


def test_an_unknown_broker_setting_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="unknown broker setting 'num_partition'; did you mean 'num_partitions'"):
        BrokerSettings.of(num_partition=1)


@pytest.mark.parametrize(("name", "value"), [("num_partitions", "3"), ("auto_create_topics_enable", 1), ("num_partitions", 0)])
def test_a_broker_setting_of_the_wrong_kind_is_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        BrokerSettings.of(**{name: value})


def test_retention_is_applied_from_time_to_time() -> None:
    bench = Bench(log_retention_ms=1_000, log_retention_check_interval_ms=300)
    bench.node.create_topic("t")
    bench.client().produce("t", make_batch(b"a"))
    assert bench.advance(0) == 300
    bench.advance(900)
    assert bench.node.log("t").start_offset == 0
    bench.advance(300)
    assert bench.node.log("t").start_offset == 1
