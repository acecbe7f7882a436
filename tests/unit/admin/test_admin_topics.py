"""Flows about topics, with canned replies (behaviour X1, X2, X7)."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest

from levada.admin.cluster import describe_cluster
from levada.admin.describing_topics import describe_topics
from levada.admin.per_key import ON_ADMIN_ERROR, Attempts
from levada.admin.topics import CreatedTopic, create_topics, delete_topics, list_topics
from levada.base.clock import ExponentialBackoff
from levada.base.flow import Call, Flow, Sleep, Wait
from levada.client.metadata.snapshot import ClusterSnapshot
from levada.client.requests.retry import Reaction
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, DisconnectError, TopicAlreadyExistsError, UnknownTopicOrPartitionError, UnsupportedVersionError
from levada.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from levada.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from levada.protocol.messages.describe_cluster import DescribeClusterRequest
from levada.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from levada.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic
from levada.types import NewTopic, Node
from settings_kit import new_metadata

ID = UUID(int=9)
TOO_OLD = UnsupportedVersionError("this broker has no such API")


def attempts(retries: int = 10, controller: int = 4) -> Attempts:
    metadata = new_metadata()
    metadata.snapshot = ClusterSnapshot(controller_id=controller, nodes={4: Node(4, "h", 1)})
    return Attempts(metadata, ExponentialBackoff(100, 100, Random(0)), retries)


def creating(*topics: NewTopic, retries: int = 10) -> Flow[dict[str, CreatedTopic]]:
    return create_topics(list(topics), attempts(retries), timeout_ms=1_000, validate_only=False)


def created(**codes: int) -> CreateTopicsResponse:
    results = [CreatableTopicResult(name=name, topic_id=ID, num_partitions=3, replication_factor=1) for name in codes]
    for result in results:
        result.error_code = codes[result.name]
        result.error_message = "why" if result.error_code else None
    return CreateTopicsResponse(topics=results)


def returned(flow: Flow[Any], answer: Any) -> Any:
    with pytest.raises(StopIteration) as done:
        flow.send(answer)
    return done.value.value


def names(step: Any) -> list[str]:
    assert isinstance(step, Call)
    return [topic.name for topic in step.request.topics]


def test_X2_a_broker_without_defaults_needs_the_numbers() -> None:
    flow = creating(NewTopic("a", 3))
    next(flow)
    with pytest.raises(UnsupportedVersionError, match=r"CreateTopics: .*; brokers before 2\.4 need partitions and replication_factor"):
        flow.throw(UnsupportedVersionError("h:1: CreateTopics: versions 4 to 7 are needed, the broker speaks 0 to 2"))
    flow = creating(NewTopic("a", 3, 1))
    next(flow)
    with pytest.raises(UnsupportedVersionError, match=r"^gone: UNSUPPORTED_VERSION \(35\)$"):
        flow.throw(UnsupportedVersionError("gone"))


def test_X2_only_looking_is_younger_than_creating() -> None:
    call: Any = next(create_topics([NewTopic("a", 3, 1)], attempts(), timeout_ms=1_000, validate_only=True))
    assert call.min_version == 1


def test_X2_creation_goes_to_the_controller() -> None:
    flow = creating(NewTopic("a", 3, 1, {"retention.ms": "5"}))
    call: Any = next(flow)
    assert (call.node, call.min_version) == (4, 0)
    (topic,) = call.request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("a", 3, 1)
    assert [(config.name, config.value) for config in topic.configs] == [("retention.ms", "5")]
    assert returned(flow, created(a=0)) == {"a": CreatedTopic("a", ID, 3, 1)}


def test_X7_defaults_of_the_broker_need_version_4() -> None:
    call: Any = next(creating(NewTopic("a")))
    assert call.min_version == 4


def test_without_a_known_controller_any_broker_will_do() -> None:
    call: Any = next(create_topics([NewTopic("a")], attempts(controller=-1), timeout_ms=1, validate_only=True))
    assert call.node is None
    assert call.request.validate_only


def test_X7_all_topics_are_tried_before_the_first_error_is_raised() -> None:
    flow = creating(NewTopic("a"), NewTopic("b"), NewTopic("c"))
    assert names(next(flow)) == ["a", "b", "c"]
    with pytest.raises(BrokerError, match="create topic 'b': why: INVALID_PARTITIONS") as raised:
        flow.send(created(a=0, b=ErrorCode.INVALID_PARTITIONS, c=ErrorCode.POLICY_VIOLATION))
    assert raised.value.__notes__ == ["create topic 'a': ok", "create topic 'c': why: POLICY_VIOLATION (44)"]
    outcomes = raised.value.outcomes
    assert (outcomes["a"], outcomes["b"], str(outcomes["c"])) == (None, raised.value, raised.value.__notes__[1])


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (ErrorCode.TOPIC_ALREADY_EXISTS, "create topic 'a': it exists already: TOPIC_ALREADY_EXISTS (36)"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "create topic 'a': it does not exist: UNKNOWN_TOPIC_OR_PARTITION (3)"),
    ],
)
def test_whether_a_topic_exists_is_said_in_the_same_words_everywhere(code: ErrorCode, text: str) -> None:
    flow = creating(NewTopic("a"))
    next(flow)
    with pytest.raises(BrokerError) as raised:
        flow.send(created(a=code))
    assert str(raised.value) == text


def test_X2_another_controller_is_looked_for_and_asked_for_the_rest() -> None:
    flow = creating(NewTopic("a"), NewTopic("b"))
    next(flow)
    assert flow.send(created(a=0, b=ErrorCode.NOT_CONTROLLER)) == Sleep(100)
    assert isinstance(flow.send(None), Wait)
    assert names(flow.send(None)) == ["b"]
    assert set(returned(flow, created(b=0))) == {"a", "b"}


def test_X7_throttling_is_waited_out() -> None:
    flow = creating(NewTopic("a"))
    next(flow)
    assert flow.send(created(a=ErrorCode.THROTTLING_QUOTA_EXCEEDED)) == Sleep(100)
    assert names(flow.send(None)) == ["a"]


def test_X1_retries_may_run_out() -> None:
    flow = creating(NewTopic("a"), retries=1)
    next(flow)
    flow.send(created(a=ErrorCode.NOT_CONTROLLER))
    flow.send(None)
    flow.send(None)
    with pytest.raises(BrokerError, match="NOT_CONTROLLER"):
        flow.send(created(a=ErrorCode.NOT_CONTROLLER))


def test_a_lost_answer_is_asked_again_and_what_it_may_have_done_is_said() -> None:
    flow = creating(NewTopic("a"))
    next(flow)
    assert flow.throw(DisconnectError("gone")) == Sleep(100)
    assert isinstance(flow.send(None), Wait)
    assert names(flow.send(None)) == ["a"]
    with pytest.raises(TopicAlreadyExistsError, match="an earlier attempt of this call got no answer, and may have done it"):
        flow.send(created(a=ErrorCode.TOPIC_ALREADY_EXISTS))


def test_a_topic_left_out_of_the_answer_is_an_error() -> None:
    flow = creating(NewTopic("a"))
    next(flow)
    with pytest.raises(BrokerError, match="create topic 'a': the broker left it out of its answer"):
        flow.send(created())


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
def test_M_B7_every_code(code: ErrorCode) -> None:
    flow = creating(NewTopic("a"))
    next(flow)
    if ON_ADMIN_ERROR.reaction(code) is Reaction.RAISE:
        with pytest.raises(BrokerError, match=code.name):
            flow.send(created(a=code))
    else:
        assert isinstance(flow.send(created(a=code)), Sleep)


def test_deletion_by_name() -> None:
    flow = delete_topics(["a", "b", "a"], attempts(), timeout_ms=7)
    call: Any = next(flow)
    assert (call.request.topic_names, call.request.timeout_ms, call.max_version) == (["a", "b"], 7, 5)
    results = [DeletableTopicResult(name="a"), DeletableTopicResult(name="b", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    with pytest.raises(UnknownTopicOrPartitionError, match="delete topic 'b'"):
        flow.send(DeleteTopicsResponse(responses=results))


def described(**codes: int) -> MetadataResponse:
    parts = [MetadataResponsePartition(partition_index=n, leader_id=4, leader_epoch=1, replica_nodes=[4], isr_nodes=[4]) for n in (1, 0)]
    topics = [MetadataResponseTopic(name=name, error_code=code, topic_id=ID, partitions=parts) for name, code in codes.items()]
    brokers = [MetadataResponseBroker(node_id=node, host=f"h{node}", port=9092) for node in (5, 4)]
    return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=4, topics=topics)


def describing(*topics: str) -> Flow[Any]:
    """The flow, which has asked for partitions first."""
    flow = describe_topics(topics, attempts())
    assert isinstance(next(flow).request, DescribeTopicPartitionsRequest)  # type: ignore[union-attr]
    return flow


def test_description_creates_nothing_and_sorts_partitions() -> None:
    flow = describing("a")
    call: Any = flow.throw(TOO_OLD)
    assert (call.request.allow_auto_topic_creation, call.min_version) == (False, 4)
    description = returned(flow, described(a=0))["a"]
    assert (description.topic_id, [info.partition for info in description.partitions]) == (ID, [0, 1])


def test_a_topic_with_a_partition_without_a_leader_is_described() -> None:
    by_metadata = describing("a")
    by_metadata.throw(TOO_OLD)
    assert len(returned(by_metadata, described(a=ErrorCode.LEADER_NOT_AVAILABLE))["a"].partitions) == 2
    topic = DescribeTopicPartitionsResponseTopic(name="a", error_code=ErrorCode.LEADER_NOT_AVAILABLE)
    assert returned(describing("a"), DescribeTopicPartitionsResponse(topics=[topic]))["a"].name == "a"


@pytest.mark.parametrize("answer", [described(a=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), described()])
def test_a_topic_that_does_not_exist_is_named(answer: MetadataResponse) -> None:
    flow = describing("a")
    flow.throw(TOO_OLD)
    with pytest.raises(UnknownTopicOrPartitionError, match="describe topic 'a': it does not exist: UNKNOWN_TOPIC"):
        flow.send(answer)


def test_description_tells_the_outcome_of_every_topic() -> None:
    flow = describing("a", "b", "c")
    flow.throw(TOO_OLD)
    with pytest.raises(UnknownTopicOrPartitionError, match="describe topic 'b'") as raised:
        flow.send(described(a=0))
    assert [name for name, error in raised.value.outcomes.items() if error] == ["b", "c"]
    assert raised.value.__notes__ == ["describe topic 'a': ok", "describe topic 'c': it does not exist: UNKNOWN_TOPIC_OR_PARTITION (3)"]


def test_listing_asks_for_all_topics_and_sorts() -> None:
    flow = list_topics(attempts(), internal=False)
    call: Any = next(flow)
    assert call.request.topics is None
    response = described(b=0, a=0, __x=0)
    response.topics[-1].is_internal = True
    assert returned(flow, response) == ["a", "b"]


def test_the_cluster() -> None:
    flow = describe_cluster(attempts())
    assert isinstance(next(flow).request, DescribeClusterRequest)  # type: ignore[union-attr]
    call: Any = flow.throw(TOO_OLD)
    assert call.request.topics == []
    cluster = returned(flow, described())
    assert (cluster.cluster_id, [node.id for node in cluster.nodes], cluster.controller.id) == ("c", [4, 5], 4)
