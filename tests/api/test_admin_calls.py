"""KafkaAdmin: topics, partitions, settings, log dirs, features and the quorum, on every broker and with both APIs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

import levada as lv
from api_kit import BOTH_APIS, EVERYWHERE, api_and_broker
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, OffsetOutOfRangeError, TimeoutError, UnknownTopicOrPartitionError, UnsupportedVersionError
from levada.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from levada.testing import EmbeddedKafka
from levada.types import TopicPartition

PATIENCE_S = 30


@pytest.fixture(params=EVERYWHERE)
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


@pytest.fixture
def admin(kafka: Any) -> Iterator[Any]:
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def is_39(request: pytest.FixtureRequest) -> bool:
    return bool(request.node.callspec.params["kafka"][1] == "kafka39")


def new_name() -> str:
    return f"t-{uuid4().hex}"


def until(holds: Callable[[], bool]) -> None:
    """A real cluster applies what its controller has decided a moment later."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def described(admin: Any, *topics: str) -> dict[str, Any]:
    """Describe topics that are new, and that not every part of a real broker knows yet."""
    until(lambda: not any(isinstance(found, BrokerError) for found in admin.outcomes(admin.describe_topics, topics).values()))
    found: dict[str, Any] = admin.describe_topics(topics)
    return found


def write(kafka: Any, topic: str, *stamps: int, partition: int = 0) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for stamp in stamps:
            producer.send(topic, b"value", partition=partition, timestamp=stamp)
        producer.flush()


# Topics


def test_X4_a_topic_is_described_whole(kafka: Any, admin: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, partitions=3)
    (found,) = described(admin, topic).values()
    assert (found.name, found.is_internal, [part.partition for part in found.partitions]) == (topic, False, [0, 1, 2])
    first = found.partitions[0]
    assert first.replicas == first.isr == (first.leader,)
    assert (first.leader_epoch, first.error_code, first.offline_replicas) == (0, 0, ())
    assert (first.eligible_leader_replicas, first.last_known_elr) == ((), ())
    assert lv.AclOperation.ALTER_CONFIGS in found.authorized_operations
    assert admin.describe_topics_by_id([found.topic_id])[found.topic_id].partitions[2].partition == 2


def test_X4_a_large_topic_is_described_page_by_page(kafka: Any, admin: Any, monkeypatch: pytest.MonkeyPatch, new_topic: Any) -> None:
    topics = sorted(new_topic(kafka, partitions=count) for count in (1, 5, 2))
    described(admin, *topics)

    def small_pages(**fields: Any) -> DescribeTopicPartitionsRequest:
        return DescribeTopicPartitionsRequest(**fields, response_partition_limit=2)

    monkeypatch.setattr("levada.admin.describing_topics.DescribeTopicPartitionsRequest", small_pages)
    sizes = {topic: [part.partition for part in found.partitions] for topic, found in admin.describe_topics(topics).items()}
    assert sizes == {topic: list(range(len(part))) for topic, part in sizes.items()}
    assert sorted(map(len, sizes.values())) == [1, 2, 5]


def test_X7_a_topic_gets_more_partitions(kafka: Any, admin: Any, new_topic: Callable[..., str]) -> None:
    topic, other = new_topic(kafka, partitions=1), new_topic(kafka, partitions=1)
    node = described(admin, topic)[topic].partitions[0].leader
    admin.create_partitions({topic: 9}, validate_only=True)
    admin.create_partitions({topic: 2, other: lv.NewPartitions(3, [[node], [node]])})
    until(lambda: [len(found.partitions) for found in admin.describe_topics([topic, other]).values()] == [2, 3])
    with pytest.raises(BrokerError, match=f"create partitions of topic '{topic}'") as failed:
        admin.create_partitions({topic: 2})
    assert failed.value.code is ErrorCode.INVALID_PARTITIONS


def test_X7_a_topic_is_created_where_it_is_wanted_and_deleted_by_its_id(admin: Any) -> None:
    name, node = new_name(), admin.describe_cluster().nodes[0].id
    made = admin.create_topics([lv.NewTopic(name, assignment={0: [node], 1: [node]})])[name]
    assert (made.partitions, made.replication_factor) == (2, 1)
    until(lambda: name in admin.list_topics())
    assert admin.delete_topics_by_id([made.topic_id]) == {made.topic_id: None}
    with pytest.raises(BrokerError, match=str(made.topic_id)) as failed:
        admin.delete_topics_by_id([made.topic_id])
    assert failed.value.code is ErrorCode.UNKNOWN_TOPIC_ID


def test_one_that_fails_does_not_hide_the_others(kafka: Any, admin: Any, new_topic: Callable[..., str]) -> None:
    topic, missing = new_topic(kafka, partitions=2), new_name()
    described(admin, topic)
    found = admin.outcomes(admin.describe_topics, [missing, topic])
    assert isinstance(found[missing], UnknownTopicOrPartitionError)
    assert len(found[topic].partitions) == 2
    with pytest.raises(UnknownTopicOrPartitionError) as failed:
        admin.describe_topics([missing, topic])
    assert failed.value.results == {topic: found[topic]}
    assert isinstance(admin.outcomes(admin.delete_topics, [topic, missing])[missing], UnknownTopicOrPartitionError)
    until(lambda: topic not in admin.list_topics())


# Offsets and records


def test_X2_offsets_by_every_spec(kafka: Any, admin: Any, is_39: bool, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, partitions=1)
    tp = TopicPartition(topic, 0)
    now_ms = int(time.time() * 1000)
    write(kafka, topic, now_ms, now_ms + 500, now_ms + 200)

    def offset(spec: Any, **options: Any) -> Any:
        found = admin.list_offsets({tp: spec}, **options)[tp]
        return None if found is None else found[:2]

    assert (offset("earliest"), offset(lv.OffsetSpec.LATEST)) == ((0, -1), (3, -1))
    assert offset("latest", isolation_level="read_committed") == (3, -1)
    assert offset("max_timestamp") == (1, now_ms + 500)
    assert offset(now_ms + 1) == (1, now_ms + 500)
    assert offset(datetime.fromtimestamp(now_ms / 1000, UTC)) == (0, now_ms)
    assert offset(now_ms + 9_000) is None
    assert (offset("earliest_local"), offset("latest_tiered")) == ((0, -1), None)
    if is_39:
        with pytest.raises(UnsupportedVersionError, match=r"needs brokers since 4\.2"):
            offset("earliest_pending_upload")
    else:
        assert offset("earliest_pending_upload") is None


def test_X2_records_are_deleted_up_to_an_offset(kafka: Any, admin: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    now_ms = int(time.time() * 1000)
    write(kafka, topic, now_ms, now_ms, now_ms)
    assert admin.delete_records({first: 2, second: -1}) == {first: 2, second: 0}
    assert admin.list_offsets({first: "earliest"})[first].offset == 2
    found = admin.outcomes(admin.delete_records, {first: 99, second: -1})
    assert (type(found[first]), found[second]) == (OffsetOutOfRangeError, 0)


# Leaders and replicas


def test_X4_a_partition_whose_preferred_replica_leads_needs_no_election(kafka: Any, admin: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, partitions=2)
    tps, missing = [TopicPartition(topic, 0), TopicPartition(topic, 1)], TopicPartition(new_name(), 0)
    assert admin.elect_leaders("preferred", tps) == dict.fromkeys(tps, False)
    assert admin.elect_leaders("Unclean", tps) == dict.fromkeys(tps, False)
    assert not set(tps) & admin.elect_leaders().keys()
    with pytest.raises(UnknownTopicOrPartitionError, match=f"elect a leader of {missing}") as failed:
        admin.elect_leaders("Preferred", [missing, tps[0]])
    assert failed.value.results == {tps[0]: False}


def test_X4_reassignments_are_refused_for_themselves(kafka: Any, admin: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    node = described(admin, topic)[topic].partitions[0].leader
    found = admin.outcomes(admin.alter_partition_reassignments, {first: [node], second: [node, 77]})
    assert (found[first], found[second].code) == (None, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    with pytest.raises(BrokerError) as failed:
        admin.alter_partition_reassignments({first: None})
    assert failed.value.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert admin.list_partition_reassignments() == admin.list_partition_reassignments([first]) == {}


def test_X4_where_replicas_are(kafka: Any, admin: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, partitions=1)
    write(kafka, topic, int(time.time() * 1000))
    tp, node = TopicPartition(topic, 0), admin.describe_cluster().nodes[0].id
    ((path, folder),) = admin.describe_log_dirs()[node].items()
    assert admin.describe_log_dirs([node])[node].keys() == {path}
    assert (folder.error, folder.is_cordoned) == (None, False)
    assert folder.replicas[tp].size_bytes > 60
    assert folder.replicas[tp][1:] == (0, False)
    replica, missing = lv.TopicPartitionReplica(topic, 0, node), lv.TopicPartitionReplica(topic, 9, node)
    assert admin.describe_replica_log_dirs([replica, missing]) == {replica: (path, 0, None, None), missing: (None, None, None, None)}
    assert admin.alter_replica_log_dirs({replica: path}) == {replica: None}
    with pytest.raises(BrokerError, match=f"move the replica of {tp} on broker {node} to '/nowhere'") as failed:
        admin.alter_replica_log_dirs({replica: "/nowhere"})
    assert failed.value.code is ErrorCode.LOG_DIR_NOT_FOUND


def test_X1_a_question_whose_answer_is_lost_is_asked_again(embedded: EmbeddedKafka) -> None:
    asked: dict[str, Callable[[Any], Any]] = {
        "Metadata": lambda admin: admin.list_topics(),
        "DescribeCluster": lambda admin: admin.describe_cluster().nodes,
        "DescribeTopicPartitions": lambda admin: admin.outcomes(admin.describe_topics, ["none-such"]),
        "DescribeConfigs": lambda admin: admin.describe_configs([("Group", "g")]),
        "DescribeLogDirs": lambda admin: admin.describe_log_dirs(),
    }
    with lv.KafkaAdmin(bootstrap_servers=embedded.bootstrap_servers, retry_backoff_ms=1) as admin:
        admin.describe_features()
        for api, ask in asked.items():
            embedded.faults.disconnect(api)
            assert ask(admin) is not None


@pytest.mark.parametrize("kafka", BOTH_APIS, indirect=True)
def test_X2_a_broker_that_does_not_answer_does_not_hide_the_others(admin: Any) -> None:
    node = admin.describe_cluster().nodes[0].id
    found = admin.outcomes(admin.describe_log_dirs, [node, 77], timeout=0.3)
    assert isinstance(found[77], TimeoutError)
    assert "describe the log dirs of broker 77: not done in time (node 77 is not among" in str(found[77])
    assert found[node]


# Settings


def test_X4_settings_of_a_topic(kafka: Any, admin: Any) -> None:
    topic = lv.ConfigResource(lv.ConfigResourceType.TOPIC, new_name())
    kafka.create_topic(topic.name, 1, {"retention.ms": "60000"})
    found = admin.describe_configs([("topic", topic.name)], include_synonyms=True)[topic]
    kept = found["retention.ms"]
    assert kept[:6] == ("retention.ms", "60000", lv.ConfigSource.DYNAMIC_TOPIC_CONFIG, False, False, lv.ConfigType.LONG)
    assert kept.synonyms[0] == ("retention.ms", "60000", lv.ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert found["segment.bytes"].is_default
    changes = {"retention.ms": None, "max.message.bytes": 5_000, "cleanup.policy": lv.AlterConfigOp("Append", "compact")}
    admin.incremental_alter_configs({topic: changes}, validate_only=True)
    admin.incremental_alter_configs({topic: changes})

    def values() -> Any:
        now = admin.describe_configs([topic])[topic]
        return [now[name].value for name in changes]

    until(lambda: bool(values()[1:] == ["5000", "delete,compact"]))
    assert values()[0] == admin.describe_configs([topic])[topic]["retention.ms"].value != "60000"
    admin.incremental_alter_configs({topic: {"cleanup.policy": lv.AlterConfigOp("subtract", "delete")}})
    until(lambda: bool(values()[2] == "compact"))
    refused = admin.outcomes(admin.incremental_alter_configs, {topic: {"retention.ms": "soon"}, ("Topic", new_name()): {"retention.ms": 1}})
    assert [error.code for error in refused.values()] == [ErrorCode.INVALID_CONFIG, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_X2_settings_of_a_broker_are_its_own(admin: Any) -> None:
    node = admin.describe_cluster().nodes[0].id
    resource = lv.ConfigResource(lv.ConfigResourceType.BROKER, str(node))
    found = admin.describe_configs([resource, ("Broker", "")])
    assert found[resource]["num.partitions"].is_read_only
    assert found[resource]["num.partitions"].type in (lv.ConfigType.INT, lv.ConfigType.LONG)
    assert ("Broker", "") in found
    with pytest.raises(ValueError, match="a broker is named by the broker's id as text, got 'one'"):
        admin.describe_configs([("Broker", "one")])


def test_X4_settings_of_groups_and_subscriptions(admin: Any, is_39: bool) -> None:
    group, asked_for = lv.ConfigResource(lv.ConfigResourceType.GROUP, new_name()), ("ClientMetrics", new_name())
    if is_39:
        admin.incremental_alter_configs({asked_for: {"interval.ms": 1_000}})
        until(lambda: asked_for in admin.list_config_resources(["ClientMetrics"]))
        with pytest.raises(UnsupportedVersionError):
            admin.list_config_resources()
        return
    admin.incremental_alter_configs({group: {"consumer.session.timeout.ms": 46_000}, asked_for: {"interval.ms": 1_000, "metrics": "a.b"}})
    until(lambda: {group, asked_for} <= set(admin.list_config_resources()))
    found = admin.describe_configs([group, asked_for])
    assert found[group]["consumer.session.timeout.ms"][1:3] == ("46000", lv.ConfigSource.DYNAMIC_GROUP_CONFIG)
    assert found[asked_for]["interval.ms"][1:3] == ("1000", lv.ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG)
    assert group not in admin.list_config_resources(["Topic", "Broker"])
    admin.incremental_alter_configs({asked_for: {"interval.ms": None, "metrics": None}})
    until(lambda: asked_for not in admin.list_config_resources(["ClientMetrics"]))


# The cluster


def test_X4_the_cluster(admin: Any, is_39: bool) -> None:
    plain = admin.describe_cluster()
    assert plain.controller in plain.nodes
    assert (plain.authorized_operations, plain.fenced) == (None, frozenset())
    assert lv.AclOperation.CLUSTER_ACTION in admin.describe_cluster(include_authorized_operations=True).authorized_operations
    if is_39:
        with pytest.raises(UnsupportedVersionError):
            admin.describe_cluster(include_fenced_brokers=True)
    else:
        assert admin.describe_cluster(include_fenced_brokers=True).nodes == plain.nodes


def test_X4_features(admin: Any, is_39: bool) -> None:
    found = admin.describe_features()
    if not is_39:
        assert found.finalized["transaction.version"] == (2, 2)
        assert found.supported["transaction.version"] == (0, 2)
        assert found.epoch is not None
        admin.update_features({"transaction.version": 2}, validate_only=True)
        with pytest.raises(BrokerError, match=r"update feature 'transaction\.version'") as failed:
            admin.update_features({"transaction.version": 1}, validate_only=True)
        assert failed.value.code is ErrorCode.INVALID_UPDATE_VERSION
        admin.update_features({"transaction.version": lv.FeatureUpdate(1, lv.UpgradeType.SAFE_DOWNGRADE)}, validate_only=True)
    with pytest.raises(BrokerError, match=r"update feature 'no\.such\.feature'") as failed:
        admin.update_features({"no.such.feature": 1}, validate_only=True)
    assert failed.value.code is ErrorCode.INVALID_UPDATE_VERSION


def test_X4_the_quorum(admin: Any) -> None:
    found = admin.describe_metadata_quorum()
    assert [voter.node_id for voter in found.voters] == [found.leader_id]
    assert found.voters[0].log_end_offset >= found.high_watermark > 0
    assert found.endpoints.keys() == {found.leader_id}
    directory = UUID(int=5)
    with pytest.raises(BrokerError, match=f"add voter 5 with directory {directory}") as failed:
        admin.add_raft_voter(5, directory, [lv.RaftEndpoint("CONTROLLER", "localhost", 9)])
    assert failed.value.code is ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(BrokerError, match=f"remove voter 5 with directory {directory}"):
        admin.remove_raft_voter(5, directory)
    with pytest.raises(BrokerError, match="unregister broker 77") as failed:
        admin.unregister_broker(77)
    assert failed.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
