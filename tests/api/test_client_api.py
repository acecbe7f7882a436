"""KafkaClient: any request to any node, with real sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import levada as lv
from invalid_peers import closed_port
from kafka_cluster import KafkaCluster
from levada.error_codes import ErrorCode
from levada.errors import BootstrapError, ClosedError, ConnectError, TimeoutError, UnsupportedVersionError
from levada.protocol.messages.describe_cluster import DescribeClusterRequest
from levada.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from levada.protocol.messages.list_groups import ListGroupsRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from levada.testing import EmbeddedKafka

TOPIC = 2
"""The number of topics among DescribeConfigs' kinds of resources."""


@pytest.fixture
def client(any_kafka: Any) -> Iterator[lv.KafkaClient]:
    with lv.KafkaClient(bootstrap_servers=any_kafka.bootstrap_servers) as client:
        yield client


def test_a_request_in_every_version_both_sides_speak(client: lv.KafkaClient, any_kafka: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(any_kafka, partitions=2)
    oldest, newest = client.api_versions()["Metadata"]
    assert newest >= 12
    for version in range(oldest, newest + 1):
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        assert [len(topic.partitions) for topic in client.request(request, version=version).topics] == [2], version


def test_a_request_to_a_node_and_to_the_controller(client: lv.KafkaClient) -> None:
    known = client.request(MetadataRequest(topics=[]))
    for node in (known.brokers[0].node_id, "controller"):
        assert client.request(MetadataRequest(topics=[]), node=node).cluster_id == known.cluster_id


def test_an_error_code_is_handed_out_and_not_raised(client: lv.KafkaClient) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="no-such-topic-here")], allow_auto_topic_creation=False)
    assert client.request(request).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_only_real_brokers_do(real_kafka: KafkaCluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(real_kafka, config={"retention.ms": "123456"})
    with lv.KafkaClient(bootstrap_servers=real_kafka.bootstrap_servers) as client:
        cluster = client.request(DescribeClusterRequest())
        assert (cluster.error_code, len(cluster.brokers)) == (0, 1)
        assert client.request(ListGroupsRequest(), node=cluster.brokers[0].broker_id).error_code == 0
        resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=["retention.ms"])
        described = client.request(DescribeConfigsRequest(resources=[resource])).results[0]
        assert {config.name: config.value for config in described.configs} == {"retention.ms": "123456"}


def test_an_api_that_the_embedded_broker_lacks_is_named(embedded: Any) -> None:
    with (
        lv.KafkaClient(bootstrap_servers=embedded.bootstrap_servers) as client,
        pytest.raises(UnsupportedVersionError, match=f"{embedded.bootstrap_servers}: the broker does not know StreamsGroupDescribe"),
    ):
        client.request(StreamsGroupDescribeRequest())


def test_an_admin_sends_any_request_too(embedded: Any) -> None:
    with lv.KafkaAdmin(bootstrap_servers=embedded.bootstrap_servers) as admin:
        assert admin.request(MetadataRequest(topics=[])).cluster_id == admin.describe_cluster().cluster_id


def test_with_a_fallback_the_versions_are_those_of_that_release(embedded: Any) -> None:
    with lv.KafkaClient(bootstrap_servers=embedded.bootstrap_servers, broker_version_fallback="0.9.0") as client:
        versions = client.api_versions()
        assert (versions["Fetch"], versions["ListGroups"]) == ((0, 1), (0, 0))
        assert "ApiVersions" not in versions
    with pytest.raises(ClosedError):
        client.api_versions()


def test_a_node_that_is_not_there(embedded: Any) -> None:
    with lv.KafkaClient(bootstrap_servers=embedded.bootstrap_servers) as client, pytest.raises(ConnectError, match="node 77"):
        client.request(MetadataRequest(), node=77)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("Metadata",), "expected a request"),
        ((MetadataRequest,), "expected a request, .* got the class MetadataRequest; call it"),
        ((MetadataRequest(), {"node": "leader"}), "node must be a node id, 'controller' or None, got 'leader'"),
        ((MetadataRequest(), {"version": "newest"}), "version must be a whole number"),
        ((MetadataRequest(), {"timeout": "1 s"}), "a timeout is a number of seconds"),
    ],
)
def test_wrong_arguments_are_named(embedded: Any, arguments: tuple[Any, ...], text: str) -> None:
    message, options = (*arguments, {})[:2]
    with lv.KafkaClient(bootstrap_servers=embedded.bootstrap_servers) as client, pytest.raises(TypeError, match=text):
        client.request(message, **options)


def test_an_answer_that_does_not_come() -> None:
    with EmbeddedKafka() as kafka, lv.KafkaClient(bootstrap_servers=kafka.bootstrap_servers) as client:
        client.request(MetadataRequest(topics=[]))
        kafka.faults.drop_response("Metadata")
        with pytest.raises(TimeoutError, match="Metadata request: not done within 300 ms"):
            client.request(MetadataRequest(topics=[]), timeout=0.3)


def test_no_broker_at_all() -> None:
    with lv.KafkaClient(bootstrap_servers=closed_port()) as client, pytest.raises(BootstrapError, match="refused"):
        client.request(MetadataRequest(), timeout=0.5)


def test_a_closed_client_says_so(embedded: Any) -> None:
    client = lv.KafkaClient(bootstrap_servers=embedded.bootstrap_servers)
    client.close()
    with pytest.raises(ClosedError, match="client 'levada-client-"):
        client.request(MetadataRequest())
