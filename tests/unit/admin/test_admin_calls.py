"""Flows of administrative calls with canned replies: who is asked, what old brokers cannot, and what a lost answer may mean."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest

from levada.admin import cluster, configs, log_dirs, partitions, topics
from levada.admin.configs import AlterConfigOp, ConfigResource, ConfigResourceType, ConfigSource, ConfigType
from levada.admin.partitions import ElectionType
from levada.admin.per_key import Attempts
from levada.base.clock import ExponentialBackoff
from levada.base.flow import Call, Flow, Sleep
from levada.base.promise import Promise
from levada.client.metadata.snapshot import ClusterSnapshot
from levada.client.requests.destination import ThisNode
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, DisconnectError, TimeoutError, UnsupportedVersionError
from levada.protocol.messages.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult
from levada.protocol.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult
from levada.protocol.messages.describe_log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult
from levada.protocol.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from levada.protocol.messages.update_features import UpdateFeaturesResponse
from levada.types import IsolationLevel, NewPartitions, Node, OffsetSpec, TopicPartition
from settings_kit import new_metadata

TP = TopicPartition("t", 0)
TOO_OLD = UnsupportedVersionError("this broker has no such API")
TOPIC = ConfigResource(ConfigResourceType.TOPIC, "t")


def attempts(retries: int = 10) -> Attempts:
    metadata = new_metadata()
    metadata.snapshot = ClusterSnapshot(controller_id=4, nodes={4: Node(4, "h", 1)})
    return Attempts(metadata, ExponentialBackoff(100, 100, Random(0)), retries)


class Beside:
    """Flows that run beside another one; a test answers them one after the other."""

    def __init__(self) -> None:
        self.started: list[Flow[Any]] = []
        self._promises: list[Promise[Any]] = []

    def start(self, flow: Flow[Any]) -> Promise[Any]:
        self.started.append(flow)
        self._promises.append(Promise())
        return self._promises[-1]

    def cancel(self, promise: Promise[Any]) -> None: ...

    def end(self, number: int, answer: Any) -> Promise[Any]:
        """Give a flow its last answer; return what the flow that waits for it is resumed with."""
        self._promises[number].resolve(returned(self.started[number], answer))
        return self._promises[number]


def returned(flow: Flow[Any], answer: Any) -> Any:
    with pytest.raises(StopIteration) as done:
        flow.send(answer)
    return done.value.value


def test_X2_only_a_broker_itself_is_asked_for_its_settings() -> None:
    beside = Beside()
    wanted = [TOPIC, ConfigResource(ConfigResourceType.BROKER, "7"), ConfigResource(ConfigResourceType.BROKER, "")]
    next(configs.describe_configs(wanted, attempts(), beside, synonyms=True, documentation=False))
    calls = [next(flow) for flow in beside.started]
    assert [(call.node, len(call.request.resources), call.min_version) for call in calls if isinstance(call, Call)] == [
        (None, 2, 1),
        (ThisNode(7), 1, 1),
    ]


@pytest.mark.parametrize(("synonyms", "documentation", "version"), [(False, False, 0), (True, False, 1), (True, True, 3)])
def test_X2_an_old_broker_is_not_asked_for_what_its_version_has_not(synonyms: bool, documentation: bool, version: int) -> None:
    beside = Beside()
    next(configs.describe_configs([TOPIC], attempts(), beside, synonyms=synonyms, documentation=documentation))
    call = next(beside.started[0])
    assert isinstance(call, Call)
    assert call.min_version == version


@pytest.mark.parametrize(
    ("is_default", "source", "known"),
    [(True, -1, ConfigSource.DEFAULT_CONFIG), (False, -1, ConfigSource.UNKNOWN), (False, 99, ConfigSource.UNKNOWN)],
)
def test_X4_what_a_broker_does_not_tell_of_a_setting(is_default: bool, source: int, known: ConfigSource) -> None:
    """Version 0 tells only whether a value is the default; a newer broker may know sources and types that levada does not."""
    beside = Beside()
    flow = configs.describe_configs([TOPIC], attempts(), beside, synonyms=False, documentation=False)
    next(flow)
    next(beside.started[0])
    told = DescribeConfigsResourceResult(
        name="a", value=None, is_sensitive=True, is_default=is_default, config_source=source, config_type=77
    )
    result = DescribeConfigsResult(resource_type=2, resource_name="t", configs=[told])
    entry = returned(flow, beside.end(0, DescribeConfigsResponse(results=[result])))[TOPIC]["a"]
    assert (entry.value, entry.source, entry.type, entry.is_sensitive) == (None, known, ConfigType.UNKNOWN, True)


def test_X4_a_change_of_a_setting_does_not_show_its_value() -> None:
    assert "hunter2" not in repr({TOPIC: {"password": AlterConfigOp("Set", "hunter2")}})


def test_X4_brokers_that_can_only_replace_all_settings_are_named() -> None:
    flow = configs.incremental_alter_configs({TOPIC: {"a": AlterConfigOp("Delete")}}, attempts(), Beside(), validate_only=False)
    next(flow)
    with pytest.raises(UnsupportedVersionError, match=r"brokers before 2\.3 can only replace all settings"):
        flow.throw(TOO_OLD)


@pytest.mark.parametrize(
    ("spec", "level", "oldest", "release"),
    [
        (OffsetSpec.LATEST, IsolationLevel.READ_UNCOMMITTED, 1, "0.10.1"),
        (OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED, 2, "0.11"),
        (OffsetSpec.MAX_TIMESTAMP, IsolationLevel.READ_COMMITTED, 7, "3.0"),
        (OffsetSpec.LATEST_TIERED, IsolationLevel.READ_UNCOMMITTED, 9, "3.9"),
    ],
)
def test_X2_an_offset_that_old_brokers_do_not_know(spec: OffsetSpec, level: IsolationLevel, oldest: int, release: str) -> None:
    beside = Beside()
    flow = partitions.list_offsets({TP: spec}, level, attempts(), beside)
    next(flow)
    assert isinstance(next(beside.started[0]).request, MetadataRequest)  # type: ignore[union-attr]
    parts = [MetadataResponsePartition(partition_index=0, leader_id=4, leader_epoch=1)]
    flow.send(beside.end(0, MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=parts)])))
    turn = beside.started[1]
    call = next(turn)
    assert isinstance(call, Call)
    assert (call.node, call.min_version) == (ThisNode(4), oldest)
    with pytest.raises(UnsupportedVersionError, match=f"what is asked for needs brokers since {release}"):
        turn.throw(TOO_OLD)


def elected(**codes: int) -> ElectLeadersResponse:
    results = [
        ReplicaElectionResult(topic=name, partition_result=[PartitionResult(partition_id=0, error_code=code)])
        for name, code in codes.items()
    ]
    return ElectLeadersResponse(replica_election_results=results)


def test_X4_an_election_of_all_partitions_tells_those_that_it_was_about() -> None:
    flow = partitions.elect_leaders(ElectionType.UNCLEAN, None, attempts(), timeout_ms=1)
    call = next(flow)
    assert isinstance(call, Call)
    assert (call.node, call.min_version, call.request.topic_partitions) == (4, 1, None)
    assert returned(flow, elected(t=0)) == {TP: True}
    flow = partitions.elect_leaders(ElectionType.PREFERRED, None, attempts(), timeout_ms=1)
    next(flow)
    with pytest.raises(BrokerError, match="elect a leader of b-0") as failed:
        flow.send(elected(t=0, b=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE))
    assert failed.value.results == {TP: True}


def test_X4_an_error_of_a_whole_election_is_of_all_partitions() -> None:
    flow = partitions.elect_leaders(ElectionType.PREFERRED, [TP], attempts(0), timeout_ms=1)
    next(flow)
    with pytest.raises(BrokerError) as failed:
        flow.send(ElectLeadersResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert failed.value.outcomes == {TP: failed.value}


def test_X7_partitions_that_an_attempt_without_an_answer_may_have_created() -> None:
    flow = topics.create_partitions({"t": NewPartitions(3)}, attempts(), timeout_ms=1, validate_only=False)
    next(flow)
    assert flow.throw(DisconnectError("gone")) == Sleep(100)
    flow.send(None)
    flow.send(None)
    with pytest.raises(BrokerError, match=r"create partitions of topic 't': it has 3 \(an earlier attempt"):
        result = CreatePartitionsTopicResult(name="t", error_code=ErrorCode.INVALID_PARTITIONS, error_message="it has 3")
        flow.send(CreatePartitionsResponse(results=[result]))


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION])
def test_X4_levels_are_changed_all_or_none(code: ErrorCode) -> None:
    wanted = {"a": cluster.FeatureUpdate(1), "b": cluster.FeatureUpdate(2, cluster.UpgradeType.SAFE_DOWNGRADE)}
    flow = cluster.update_features(wanted, attempts(), timeout_ms=1, validate_only=False)
    call: Any = next(flow)
    assert [(one.feature, one.max_version_level, one.upgrade_type) for one in call.request.feature_updates] == [("a", 1, 1), ("b", 2, 2)]
    if not code:
        assert returned(flow, UpdateFeaturesResponse()) == {"a": None, "b": None}
        return
    with pytest.raises(BrokerError, match="update feature 'a'") as failed:
        flow.send(UpdateFeaturesResponse(error_code=code))
    assert [error.code for error in failed.value.outcomes.values() if isinstance(error, BrokerError)] == [code, code]


def test_X1_a_call_whose_time_is_over_keeps_what_it_has_found() -> None:
    beside = Beside()
    flow = log_dirs.describe_log_dirs([1, 2], attempts(), beside)
    next(flow)
    next(beside.started[0])
    flow.send(beside.end(0, DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir="/a", topics=[])])))
    over = TimeoutError("not done within 5 ms")
    with pytest.raises(TimeoutError) as raised:
        flow.throw(over)
    assert raised.value is over
    assert over.results[1].keys() == {"/a"}
    assert "describe the log dirs of broker 2: not done in time" in str(over.outcomes[2])


def test_X4_a_folder_that_cannot_be_used_says_so() -> None:
    beside = Beside()
    flow = log_dirs.describe_log_dirs([1], attempts(), beside)
    next(flow)
    next(beside.started[0])
    broken = DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir="/a", topics=[])
    found = returned(flow, beside.end(0, DescribeLogDirsResponse(results=[broken])))[1]["/a"]
    assert (found.error.code, found.total_bytes, found.usable_bytes) == (ErrorCode.KAFKA_STORAGE_ERROR, None, None)


def test_X4_a_voter_is_named_with_its_directory() -> None:
    flow = cluster.add_raft_voter(5, UUID(int=7), [cluster.RaftEndpoint("C", "h", 9)], attempts(), cluster_id="x", timeout_ms=1)
    call: Any = next(flow)
    request = call.request
    assert (call.node, request.voter_id, request.voter_directory_id, request.cluster_id) == (None, 5, UUID(int=7), "x")
    assert [(one.name, one.host, one.port) for one in request.listeners] == [("C", "h", 9)]
