"""Access rules in the broker: which it is told of, and what it refuses without them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker_kit import Bench, Client, make_batch, produce_request
from levada.acls import AccessControlEntry, AclBinding, AclOperation, PatternType, ResourcePattern, ResourceType
from levada.base.permissions import NEEDS
from levada.broker.apis import SERVED
from levada.broker.cluster.cluster import Cluster
from levada.broker.config.settings import STANDARD_AUTHORIZER, BrokerSettings
from levada.broker.disk.data_dir import DataDir
from levada.error_codes import ErrorCode
from levada.errors import ConfigError
from levada.protocol.api import APIS
from levada.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from levada.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from levada.protocol.messages.describe_acls import DescribeAclsRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

TOPIC, CLUSTER, LITERAL, PREFIXED, ANY, MATCH = 2, 4, 3, 4, 1, 2
READ, WRITE, ALLOW, DENY = 3, 4, 3, 2


def guarded(**settings: Any) -> Bench:
    return Bench(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS", **settings)


def client_of(bench: Bench, principal: str) -> Client:
    client = bench.client()
    bench.node.identify(client.id, principal)
    return client


def creation(name: str = "t", **fields: Any) -> AclCreation:
    usual: dict[str, Any] = {
        "resource_type": TOPIC,
        "resource_pattern_type": LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": WRITE,
        "permission_type": ALLOW,
    }
    return AclCreation(resource_name=name, **{**usual, **fields})


def create(client: Client, *creations: AclCreation) -> list[int]:
    return [result.error_code for result in client.ask(CreateAclsRequest(creations=list(creations))).results]


def described(client: Client, version: int = 3, **wanted: Any) -> list[tuple[str, int, str]]:
    usual: dict[str, Any] = {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY}
    everything: dict[str, Any] = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    answer = client.ask(DescribeAclsRequest(**{**usual, **everything, **wanted}), version)
    assert answer.error_code == 0
    return sorted((one.resource_name, one.pattern_type, acl.principal) for one in answer.resources for acl in one.acls)


def test_every_api_says_what_it_needs() -> None:
    assert not {api.request.NAME for api in SERVED.values()} - NEEDS.keys()
    assert not NEEDS.keys() - {request.NAME for request in APIS.values()}


@pytest.mark.parametrize("version", range(1, 4))
def test_rules_are_created_described_and_deleted(version: int) -> None:
    client = guarded().client()
    assert create(client, creation(), creation("or", resource_pattern_type=PREFIXED), creation("*", principal="User:bob")) == [0, 0, 0]
    assert create(client, creation()) == [0], "one that is there already is no error"
    assert described(client, version) == [("*", LITERAL, "User:bob"), ("or", PREFIXED, "User:alice"), ("t", LITERAL, "User:alice")]
    assert described(client, version, resource_name_filter="orders", pattern_type_filter=MATCH) == [
        ("*", LITERAL, "User:bob"),
        ("or", PREFIXED, "User:alice"),
    ]
    assert described(client, version, principal_filter="User:bob") == [("*", LITERAL, "User:bob")]
    assert described(client, version, operation=READ) == []
    of_alice = DeleteAclsFilter(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter="User:alice",
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    (result,) = client.ask(DeleteAclsRequest(filters=[of_alice]), version).filter_results
    assert sorted(one.resource_name for one in result.matching_acls) == ["or", "t"]
    assert described(client, version) == [("*", LITERAL, "User:bob")]


@pytest.mark.parametrize(
    "fields",
    [
        {"principal": "alice"},
        {"name": ""},
        {"resource_type": CLUSTER, "name": "t"},
    ],
)
def test_a_rule_that_can_be_none_is_refused_alone(fields: dict[str, Any]) -> None:
    client = guarded().client()
    assert create(client, creation(**fields), creation("good")) == [ErrorCode.INVALID_REQUEST, 0]
    assert [name for name, _, _ in described(client)] == ["good"]


@pytest.mark.parametrize(
    "fields",
    [{"resource_type": ANY}, {"resource_type": 99}, {"resource_pattern_type": MATCH}, {"operation": ANY}, {"permission_type": ANY}],
)
def test_what_only_filters_may_have_fails_the_whole_request(fields: dict[str, Any]) -> None:
    client = guarded().client()
    assert create(client, creation(**fields), creation("good")) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert described(client) == []


def test_without_an_authorizer_there_are_no_rules() -> None:
    client = Bench().client()
    assert create(client, creation()) == [ErrorCode.SECURITY_DISABLED]
    assert client.ask(DescribeAclsRequest(resource_type_filter=ANY, operation=ANY, permission_type=ANY)).error_code == 54
    (result,) = client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(resource_type_filter=ANY)])).filter_results
    assert (result.error_code, result.error_message) == (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def test_rules_may_be_changed_only_by_who_may_alter_the_cluster() -> None:
    bench = guarded()
    alice = client_of(bench, "alice")
    assert create(alice, creation()) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    assert alice.ask(DescribeAclsRequest(resource_type_filter=ANY, operation=ANY, permission_type=ANY)).error_code == 31
    assert create(bench.client(), creation("kafka-cluster", resource_type=CLUSTER, operation=AclOperation.ALTER.number)) == [0]
    assert create(alice, creation()) == [0]


def test_what_a_user_may_do_shows_in_its_next_request() -> None:
    bench = guarded()
    bench.node.create_topic("t", 1)
    alice, batch = client_of(bench, "alice"), make_batch(b"v")
    assert alice.produce("t", batch).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    create(bench.client(), creation())
    assert alice.produce("t", batch).error_code == 0
    create(bench.client(), creation(permission_type=DENY))
    assert alice.produce("t", batch).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_without_acks_a_refused_record_ends_the_connection() -> None:
    bench = guarded()
    bench.node.create_topic("t", 1)
    alice = client_of(bench, "alice")
    alice.send(produce_request("t", make_batch(b"v"), acks=0), 12)
    assert alice.closed


def test_of_all_topics_metadata_has_those_that_the_user_may_describe() -> None:
    bench = guarded()
    for name in ("seen", "unseen"):
        bench.node.create_topic(name, 1)
    create(bench.client(), creation("seen"))
    alice = client_of(bench, "alice")
    assert [topic.name for topic in alice.ask(MetadataRequest(topics=None), 12).topics] == ["seen"]
    named = [MetadataRequestTopic(name=name) for name in ("seen", "unseen", "missing")]
    answer = alice.ask(MetadataRequest(topics=named, allow_auto_topic_creation=False), 12)
    assert [(topic.name, topic.error_code, bool(topic.partitions)) for topic in answer.topics] == [
        ("seen", 0, True),
        ("unseen", ErrorCode.TOPIC_AUTHORIZATION_FAILED, False),
        ("missing", ErrorCode.TOPIC_AUTHORIZATION_FAILED, False),
    ]


def test_rules_are_kept_on_disk(tmp_path: Path) -> None:
    settings = BrokerSettings.of(authorizer_class_name=STANDARD_AUTHORIZER)
    rules = [
        AclBinding(
            ResourcePattern(ResourceType.TOPIC, "or", PatternType.PREFIXED), AccessControlEntry("User:alice", AclOperation.READ, host="::1")
        )
    ]
    for expected in ([], rules):
        data_dir = DataDir(tmp_path / "data", settings)
        try:
            authorizer = Cluster(settings, Random(1), data_dir).authorizer
            assert authorizer is not None
            assert data_dir.acls() == expected
            authorizer.add(rules)
        finally:
            data_dir.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"authorizer_class_name": "mine"}, "must be 'org.apache.kafka.metadata.authorizer.StandardAuthorizer' or empty, not 'mine'"),
        ({"super_users": "admin"}, "must be names such as 'User:admin', separated by ';', not 'admin'"),
    ],
)
def test_wrong_settings(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BrokerSettings.of(**settings)
