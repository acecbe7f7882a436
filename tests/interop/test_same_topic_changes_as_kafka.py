"""DeleteRecords, DescribeConfigs and IncrementalAlterConfigs: the embedded broker answers as a real one does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from broker_kit import make_batch, produce_request
from kafka_cluster import KafkaCluster
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from levada.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from levada.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.schema import Request
from levada.testing import EmbeddedKafka
from wire import Wire

pytestmark = pytest.mark.kafka

TOPIC = 2
SET_ON_THE_TOPIC = 1
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture(scope="module")
def embedded_kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        yield running


@pytest.fixture
def topics(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka) -> tuple[str, str]:
    """A topic of three records, and a compacted one, on both."""
    name = f"changed-{uuid4().hex}"
    for kafka in (kafka44, embedded_kafka):
        kafka.create_topic(name, 1)
        kafka.create_topic(f"{name}-compacted", 1, {"cleanup.policy": "compact"})
        for topic in (name, f"{name}-compacted"):
            answer = until_known(kafka, produce_request(topic, make_batch(b"a", b"b", b"c")), 12)
            assert answer.responses[0].partition_responses[0].error_code == 0
    return name, f"{name}-compacted"


def ask(servers: str, request: Request, version: int) -> Any:
    with Wire(servers) as wire:
        return wire.ask(request, version)


def creation(*names: str) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=5000)


def test_names_that_collide_in_metrics(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka) -> None:
    name = f"collides-{uuid4().hex}"
    questions = [[f"{name}.a"], [f"{name}_a"], [f"{name}.a"], [f"{name}.b", f"{name}_b"], [f"{name}_b"], [f"{name}.b"]]

    def told(kafka: Any) -> list[Any]:
        created = [ask(kafka.bootstrap_servers, creation(*names), 7).topics for names in questions]
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name=f"{name}_a")], allow_auto_topic_creation=True)
        (described,) = ask(kafka.bootstrap_servers, wanted, 12).topics
        return [*([(one.name, one.error_code) for one in topics] for topics in created), described.error_code]

    assert told(embedded_kafka) == told(kafka44)


def deletion(topic: str, *wanted: tuple[int, int]) -> DeleteRecordsRequest:
    partitions = [DeleteRecordsPartition(partition_index=partition, offset=offset) for partition, offset in wanted]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=5000)


def test_delete_records(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka, topics: tuple[str, str]) -> None:
    name, compacted = topics
    questions: list[tuple[DeleteRecordsRequest, int]] = [(deletion(name, (0, 1)), version) for version in range(3)]
    questions += [(deletion(name, (0, offset)), 2) for offset in (4, -2, 0, 2, -1, 1)]
    questions += [(deletion(name, (1, 0)), 2), (deletion(compacted, (0, 1)), 2), (deletion("none-such", (0, 1)), 2)]

    def told(kafka: Any) -> list[Any]:
        answers = [ask(kafka.bootstrap_servers, request, version) for request, version in questions]
        return [
            (topic.name, one.partition_index, one.error_code, one.low_watermark)
            for answer in answers
            for topic in answer.topics
            for one in topic.partitions
        ]

    assert told(embedded_kafka) == told(kafka44)


def change(topic: str, *changes: tuple[str, int, str | None]) -> IncrementalAlterConfigsRequest:
    configs = [AlterableConfig(name=name, config_operation=operation, value=value) for name, operation, value in changes]
    return IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=configs)])


def test_changes_of_settings(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka, topics: tuple[str, str]) -> None:
    name, _ = topics
    questions: list[IncrementalAlterConfigsRequest] = [
        change(name, ("retention.ms", SET, "5000"), ("cleanup.policy", APPEND, "compact")),
        change(name, ("retention.ms", SET, "soon")),
        change(name, ("retention.msx", SET, "1")),
        change(name, ("retention.ms", APPEND, "1")),
        change(name, ("cleanup.policy", APPEND, "forget")),
        change(name, ("retention.ms", SET, None)),
        change(name, ("retention.ms", SET, "1"), ("retention.ms", DELETE, None)),
        change(name, ("segment.ms", DELETE, None)),
        change(name, ("cleanup.policy", SUBTRACT, "delete")),
        change("none-such", ("retention.ms", SET, "1")),
    ]

    def told(kafka: Any) -> list[int]:
        return [ask(kafka.bootstrap_servers, request, 1).responses[0].error_code for request in questions]

    assert told(embedded_kafka) == told(kafka44)
    described = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=TOPIC, resource_name=name, configuration_keys=["retention.ms", "cleanup.policy", "segment.ms"]
            )
        ]
    )
    ours, theirs = (settings_of(kafka, described) for kafka in (embedded_kafka, kafka44))
    assert ours == theirs


def test_descriptions_of_settings(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka, topics: tuple[str, str]) -> None:
    wanted = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=None) for topic in (*topics, "none-such")
    ]
    for version in range(1, 5):
        question = DescribeConfigsRequest(resources=wanted)
        ours, theirs = (settings_of(kafka, question, version) for kafka in (embedded_kafka, kafka44))
        assert [code for code, _ in ours] == [code for code, _ in theirs]
        for (_, mine), (_, real) in zip(ours, theirs, strict=True):
            assert {name: mine[name][3] for name in mine} == {name: real[name][3] for name in mine}
            # What the tests' real node sets on its own differs.
            assert {name: value for name, value in mine.items() if value[1] == 1} == {
                name: value for name, value in real.items() if value[1] == 1
            }


def of_the_topic(settings: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    return {name: value for name, value in settings.items() if value[1] == SET_ON_THE_TOPIC}


def settings_of(kafka: Any, question: DescribeConfigsRequest, version: int = 4) -> list[tuple[int, dict[str, tuple[Any, ...]]]]:
    return [
        (result.error_code, {one.name: (one.value, one.config_source, one.is_sensitive, one.config_type) for one in result.configs})
        for result in ask(kafka.bootstrap_servers, question, version).results
    ]


def until_known(kafka: Any, request: Request, version: int) -> Any:
    """Ask until the topic is known to every thread of the broker."""
    for _ in range(200):
        answer = ask(kafka.bootstrap_servers, request, version)
        if answer.responses[0].partition_responses[0].error_code != 3:
            break
    return answer
