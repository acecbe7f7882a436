"""A missing permission ends a call at once, and the error says which operation on what is needed. Embedded and real brokers, both APIs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import pytest

import levada as lv
from api_kit import AsyncioApi
from guarded_kafka import ALICE, BOB, ROOT, GuardedKafka, guarded_embedded
from levada.errors import (
    AuthorizationError,
    ClusterAuthorizationError,
    GroupAuthorizationError,
    TopicAuthorizationError,
    TransactionAbortableError,
    TransactionalIdAuthorizationError,
)
from levada.testing import Authority, EmbeddedKafka

Op, Type = lv.AclOperation, lv.ResourceType
AT_ONCE_S = 10
"""Far less than the calls may take."""

_numbers = count(1)


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedKafka]:
    with guarded_embedded(auto_create_topics_enable=False, group_consumer_heartbeat_interval_ms=200) as running:
        yield running


# The APIs share what they say, so a real broker is asked through one of them.
PLACES = [("guarded", "sync"), ("guarded", "aio"), pytest.param(("kafka44_acls", "sync"), marks=pytest.mark.kafka)]


@pytest.fixture(scope="module", params=PLACES, ids="-".join)
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    broker_and_api: tuple[str, str] = request.param
    return broker_and_api


@pytest.fixture(scope="module")
def kafka(place: tuple[str, str], request: pytest.FixtureRequest) -> GuardedKafka:
    return GuardedKafka(request.getfixturevalue(place[0]))


@pytest.fixture
def api(place: tuple[str, str]) -> Iterator[Any]:
    if place[1] == "sync":
        yield lv
        return
    api = AsyncioApi()
    yield api
    api.close()


@pytest.fixture
def name() -> str:
    """A name that nothing else has, for topics, groups and transactional ids."""
    return f"permission-{next(_numbers)}"


@contextmanager
def refused(kind: type[Exception], *texts: str) -> Iterator[None]:
    """Expect an error, at once, that has these texts."""
    begun = time.monotonic()
    with pytest.raises(kind) as caught:
        yield
    assert time.monotonic() - begun < AT_ONCE_S
    for text in texts:
        assert text in str(caught.value)


def test_a_producer_that_may_not_describe_the_topic(kafka: GuardedKafka, api: Any, name: str) -> None:
    with (
        api.KafkaProducer(kafka.settings_of(BOB)) as producer,
        refused(TopicAuthorizationError, f"needs the permission DESCRIBE on topic '{name}'"),
    ):
        producer.send(name, b"v").result()


def test_a_producer_that_may_not_write(kafka: GuardedKafka, api: Any, name: str) -> None:
    kafka.create_topic(name)
    kafka.allow(ALICE, Op.DESCRIBE, Type.TOPIC, name)
    with (
        api.KafkaProducer(kafka.settings_of(ALICE), enable_idempotence=False) as producer,
        refused(TopicAuthorizationError, f"{name}-0: ", f"this user needs the permission WRITE on topic '{name}'", "persisted: no"),
    ):
        producer.send(name, b"v").result()


def test_a_producer_that_may_not_write_idempotently(kafka: GuardedKafka, api: Any, name: str) -> None:
    kafka.create_topic(name)
    kafka.allow(BOB, Op.DESCRIBE, Type.TOPIC, name)
    with (
        api.KafkaProducer(kafka.settings_of(BOB)) as producer,
        refused(ClusterAuthorizationError, "this user needs the permission IDEMPOTENT_WRITE on the cluster", "enable.idempotence=false"),
    ):
        producer.send(name, b"v").result()


def test_a_producer_goes_on_when_its_permission_has_come_back(kafka: GuardedKafka, api: Any, name: str) -> None:
    kafka.create_topic(name)
    kafka.allow(ALICE, Op.WRITE, Type.TOPIC, name)
    with api.KafkaProducer(kafka.settings_of(ALICE)) as producer:
        assert producer.send(name, b"before").result().offset == 1
        kafka.forbid(Type.TOPIC, name)
        with refused(TopicAuthorizationError, f"on topic '{name}'"):
            while True:
                producer.send(name, b"meanwhile").result()
        kafka.allow(ALICE, Op.WRITE, Type.TOPIC, name)
        assert send_at_last(producer, name, TopicAuthorizationError) >= 2


def test_a_producer_that_was_denied_from_the_start_goes_on_once_it_may(kafka: GuardedKafka, api: Any, name: str) -> None:
    kafka.create_topic(name)
    with api.KafkaProducer(kafka.settings_of(BOB)) as producer:
        with refused(TopicAuthorizationError, f"needs the permission DESCRIBE on topic '{name}'"):
            producer.send(name, b"v").result()
        kafka.allow(BOB, Op.DESCRIBE, Type.TOPIC, name)
        with refused(ClusterAuthorizationError, "this user needs the permission IDEMPOTENT_WRITE on the cluster"):
            send_at_last(producer, name, TopicAuthorizationError)
        kafka.allow(BOB, Op.WRITE, Type.TOPIC, name)
        assert send_at_last(producer, name, ClusterAuthorizationError) == 1
    # Whoever may write to any topic may do so idempotently.
    kafka.forbid(Type.TOPIC, name)


def send_at_last(producer: Any, topic: str, before: type[Exception]) -> int:
    """Send again for as long as this is raised, which is much less than metadata.max.age.ms; return the offset."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with suppress(before):
            offset: int = producer.send(topic, b"v").result().offset
            return offset
    pytest.fail("it is still refused")


def test_a_transactional_producer_whose_id_is_taken_from_it(kafka: GuardedKafka, api: Any, name: str) -> None:
    kafka.create_topic(name)
    kafka.allow(ALICE, Op.WRITE, Type.TRANSACTIONAL_ID, name)
    kafka.allow(ALICE, Op.WRITE, Type.TOPIC, name)
    with api.KafkaProducer(kafka.settings_of(ALICE), transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(name, b"v").result()
        kafka.forbid(Type.TRANSACTIONAL_ID, name)
        delivery = producer.send(name, b"v")
        with refused(TransactionalIdAuthorizationError, f"this user needs the permission WRITE on transactional id '{name}'"):
            delivery.result()
        with refused(TransactionalIdAuthorizationError, f"transactional id '{name}'"):
            producer.commit_transaction()
    kafka.allow(ALICE, Op.WRITE, Type.TRANSACTIONAL_ID, name)
    with api.KafkaProducer(kafka.settings_of(ALICE), transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(name, b"v").result()
        producer.commit_transaction()


def test_a_transactional_producer_that_may_not_use_its_id(kafka: GuardedKafka, api: Any, name: str) -> None:
    with api.KafkaProducer(kafka.settings_of(ALICE), transactional_id=name) as producer:
        with refused(TransactionalIdAuthorizationError, f"needs the permission DESCRIBE on transactional id '{name}'"):
            producer.init_transactions()
        kafka.allow(ALICE, Op.DESCRIBE, Type.TRANSACTIONAL_ID, name)
        with refused(TransactionalIdAuthorizationError, f"needs the permission WRITE on transactional id '{name}'"):
            producer.init_transactions()
        kafka.allow(ALICE, Op.WRITE, Type.TRANSACTIONAL_ID, name)
        producer.init_transactions()


def test_a_transaction_that_may_not_write_to_a_topic(kafka: GuardedKafka, api: Any, name: str) -> None:
    kafka.create_topic(name)
    kafka.allow(ALICE, Op.WRITE, Type.TRANSACTIONAL_ID, name)
    kafka.allow(ALICE, Op.DESCRIBE, Type.TOPIC, name)
    with api.KafkaProducer(kafka.settings_of(ALICE), transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        delivery = producer.send(name, b"v")
        with refused(TransactionAbortableError, f"this user needs the permission WRITE on topic '{name}'"):
            producer.commit_transaction()
        with refused(lv.KafkaError, name):
            delivery.result()
        producer.abort_transaction()


def test_a_transaction_that_may_not_commit_offsets_of_a_group(kafka: GuardedKafka, api: Any, name: str) -> None:
    kafka.create_topic(name)
    kafka.allow(ALICE, Op.WRITE, Type.TRANSACTIONAL_ID, name)
    offsets = {lv.TopicPartition(name, 0): 1}
    with api.KafkaProducer(kafka.settings_of(ALICE), transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with refused(TransactionAbortableError, "on group 'of nobody'"):
            producer.send_offsets_to_transaction(offsets, lv.ConsumerGroupMetadata("of nobody"))
        producer.abort_transaction()


def test_a_transaction_that_may_not_read_the_topic_whose_offsets_it_commits(kafka: GuardedKafka, api: Any, name: str) -> None:
    kafka.create_topic(name)
    kafka.find_coordinators()
    kafka.allow(ALICE, Op.WRITE, Type.TRANSACTIONAL_ID, name)
    kafka.allow(ALICE, Op.READ, Type.GROUP, name)
    with api.KafkaProducer(kafka.settings_of(ALICE), transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with refused(TransactionAbortableError, f"group '{name}', {name}-0; this user needs the permission READ on topic '{name}'"):
            producer.send_offsets_to_transaction({lv.TopicPartition(name, 0): lv.OffsetAndMetadata(1)}, name)
        producer.abort_transaction()


def test_a_consumer_that_may_not_describe_or_read_a_topic(kafka: GuardedKafka, api: Any, name: str) -> None:
    kafka.create_topic(name)
    with api.KafkaConsumer(kafka.settings_of(ALICE), auto_offset_reset="earliest") as consumer:
        consumer.assign([lv.TopicPartition(name, 0)])
        with refused(TopicAuthorizationError, f"this user needs the permission DESCRIBE on topic '{name}'"):
            consumer.poll(20)
        kafka.allow(ALICE, Op.DESCRIBE, Type.TOPIC, name)
        with refused(TopicAuthorizationError, f"{name}-0: fetch", f"this user needs the permission READ on topic '{name}'"):
            read(consumer, "DESCRIBE")
        kafka.allow(ALICE, Op.READ, Type.TOPIC, name)
        assert [record.value for record in read(consumer, "READ")] == [b"first"]


def read(consumer: Any, refused_with: str) -> list[Any]:
    """Poll until records come, or another error than one that may have waited since before a permission was given."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if records := list(consumer.poll(1)):
                return records
        except TopicAuthorizationError as error:
            if refused_with not in str(error):
                raise
    pytest.fail("nothing came")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_may_not_read_its_group(kafka: GuardedKafka, api: Any, name: str, protocol: str) -> None:
    kafka.create_topic(name)
    kafka.allow(ALICE, Op.READ, Type.TOPIC, name)
    for operation in (Op.DESCRIBE, Op.READ):
        # With the newer protocol a member that was refused stays so.
        with api.KafkaConsumer(kafka.settings_of(ALICE), group_id=name, group_protocol=protocol) as consumer:
            consumer.subscribe([name])
            with refused(GroupAuthorizationError, f"group '{name}'", f"this user needs the permission {operation.name} on group '{name}'"):
                consumer.poll(20)
        kafka.allow(ALICE, operation, Type.GROUP, name)


def test_a_pattern_matches_only_topics_that_the_member_may_describe(kafka: GuardedKafka, api: Any, name: str) -> None:
    for topic in (f"{name}-seen", f"{name}-unseen"):
        kafka.create_topic(topic)
    kafka.allow(ALICE, Op.READ, Type.GROUP, name)
    kafka.allow(ALICE, Op.READ, Type.TOPIC, f"{name}-seen")
    with api.KafkaConsumer(kafka.settings_of(ALICE), group_id=name, group_protocol="consumer", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(pattern=lv.SubscriptionPattern(f"{name}-.*"))
        assert {record.topic for record in consumer.poll(20)} == {f"{name}-seen"}
        assert consumer.assignment() == {lv.TopicPartition(f"{name}-seen", 0)}


def test_a_consumer_that_may_not_commit(kafka: GuardedKafka, api: Any, name: str) -> None:
    kafka.create_topic(name)
    kafka.allow(ALICE, Op.DESCRIBE, Type.GROUP, name)
    kafka.allow(ALICE, Op.READ, Type.TOPIC, name)
    with api.KafkaConsumer(kafka.settings_of(ALICE), group_id=name, enable_auto_commit=False) as consumer:
        consumer.assign([lv.TopicPartition(name, 0)])
        with refused(GroupAuthorizationError, f"{name}-0: commit", f"this user needs the permission READ on group '{name}'"):
            consumer.commit({lv.TopicPartition(name, 0): 1})


def test_a_member_of_a_share_group_that_may_not_read(kafka: GuardedKafka, api: Any, name: str) -> None:
    kafka.create_topic(name)
    kafka.allow(ALICE, Op.DESCRIBE, Type.TOPIC, name)
    with api.KafkaShareConsumer(kafka.settings_of(ALICE), group_id=name) as consumer:
        consumer.subscribe([name])
        with refused(GroupAuthorizationError, f"needs the permission DESCRIBE on group '{name}'"):
            consumer.poll(20)
    kafka.allow(ALICE, Op.READ, Type.GROUP, name)
    with api.KafkaShareConsumer(kafka.settings_of(ALICE), group_id=name) as consumer:
        consumer.subscribe([name])
        with refused(TopicAuthorizationError, f"{name}-0: share fetch", f"this user needs the permission READ on topic '{name}'"):
            consumer.poll(20)


ADMIN_CALLS: dict[str, tuple[Callable[[Any, str], Any], type[AuthorizationError], str]] = {
    "create_topics": (lambda admin, name: admin.create_topics([lv.NewTopic(name, 1)]), TopicAuthorizationError, "CREATE on topic '{}'"),
    "delete_topics": (lambda admin, name: admin.delete_topics([name]), TopicAuthorizationError, "DELETE on topic '{}'"),
    "describe_topics": (lambda admin, name: admin.describe_topics([name]), TopicAuthorizationError, "DESCRIBE on topic '{}'"),
    "describe_groups": (lambda admin, name: admin.describe_consumer_groups([name]), GroupAuthorizationError, "DESCRIBE on group '{}'"),
    "delete_groups": (lambda admin, name: admin.delete_consumer_groups([name]), GroupAuthorizationError, "DESCRIBE on group '{}'"),
    "describe_transactions": (
        lambda admin, name: admin.describe_transactions([name]),
        TransactionalIdAuthorizationError,
        "DESCRIBE on transactional id '{}'",
    ),
    "describe_acls": (lambda admin, name: admin.describe_acls(), ClusterAuthorizationError, "DESCRIBE on the cluster"),
    "create_acls": (
        lambda admin, name: admin.create_acls(
            [lv.AclBinding(lv.ResourcePattern(Type.TOPIC, name), lv.AccessControlEntry("User:bob", Op.READ))]
        ),
        ClusterAuthorizationError,
        "ALTER on the cluster",
    ),
    "delete_acls": (lambda admin, name: admin.delete_acls([lv.AclBindingFilter()]), ClusterAuthorizationError, "ALTER on the cluster"),
}


@pytest.mark.parametrize("call", ADMIN_CALLS)
def test_an_administrator_without_permission(kafka: GuardedKafka, api: Any, name: str, call: str) -> None:
    ask, kind, needed = ADMIN_CALLS[call]
    with api.KafkaAdmin(kafka.settings_of(BOB)) as admin, refused(kind, f"this user needs the permission {needed.format(name)}"):
        ask(admin, name)


def test_rules_are_created_described_and_deleted(kafka: GuardedKafka, api: Any, name: str) -> None:
    allowed = lv.AclBinding(
        lv.ResourcePattern(Type.TOPIC, name, lv.PatternType.PREFIXED), lv.AccessControlEntry(f"User:{name}", Op.READ, host="10.0.0.1")
    )
    denied = lv.AclBinding(lv.ResourcePattern(Type.GROUP, name), lv.AccessControlEntry(f"User:{name}", Op.ALL, lv.AclPermissionType.DENY))
    of_user = lv.AclBindingFilter(entry_filter=lv.AccessControlEntryFilter(principal=f"User:{name}"))
    of_groups = lv.AclBindingFilter(lv.ResourcePatternFilter(Type.GROUP, name), lv.AccessControlEntryFilter(principal=f"User:{name}"))
    with api.KafkaAdmin(kafka.settings_of(ROOT)) as admin:
        assert admin.create_acls([allowed, denied, allowed]) == {allowed: None, denied: None}
        kafka.create([allowed, denied])
        assert set(admin.describe_acls(of_user)) == {allowed, denied}
        covering = lv.ResourcePatternFilter(Type.TOPIC, f"{name}-more", lv.PatternType.MATCH)
        assert admin.describe_acls(lv.AclBindingFilter(covering)) == [allowed]
        removed = admin.delete_acls([of_groups, of_user])
        assert removed[of_groups] == [denied]
        assert set(removed[of_user]) == {allowed, denied}


def test_without_an_authorizer_there_are_no_rules(embedded: EmbeddedKafka) -> None:
    with (
        lv.KafkaAdmin(bootstrap_servers=embedded.bootstrap_servers) as admin,
        pytest.raises(lv.KafkaError, match=r"describe ACLs: No Authorizer is configured\.: SECURITY_DISABLED"),
    ):
        admin.describe_acls()


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        (("User:a", "READ"), "expected an AclBinding"),
        (lv.AclBinding(lv.ResourcePattern(Type.ANY, "t"), lv.AccessControlEntry("User:a", Op.READ)), "ResourceType.ANY is for filters"),
        (lv.AclBinding(lv.ResourcePattern(Type.TOPIC, "t"), lv.AccessControlEntry("a", Op.READ)), "such as 'User:a'"),
        (lv.AclBinding(lv.ResourcePattern(Type.CLUSTER, "t"), lv.AccessControlEntry("User:a", Op.READ)), "is 'kafka-cluster', not 't'"),
        (
            lv.AclBinding(lv.ResourcePattern(Type.TOPIC, "t"), lv.AccessControlEntry("User:a", "RAED")),  # type: ignore[arg-type]
            "no AclOperation is 'RAED'; did you mean 'READ'",
        ),
    ],
)
def test_a_rule_that_can_be_none_is_refused_here(embedded: EmbeddedKafka, binding: Any, message: str) -> None:
    with lv.KafkaAdmin(bootstrap_servers=embedded.bootstrap_servers) as admin, pytest.raises((TypeError, ValueError), match=message):
        admin.create_acls([binding])


def test_words_stand_for_enumerations(kafka: GuardedKafka, name: str) -> None:
    binding = lv.AclBinding(
        lv.ResourcePattern("transactional_id", name, "literal"),  # type: ignore[arg-type]
        lv.AccessControlEntry("User:carol", "Describe", "deny"),  # type: ignore[arg-type]
    )
    with lv.KafkaAdmin(kafka.settings_of(ROOT)) as admin:
        (made,) = admin.create_acls([binding])
    assert made.entry.permission_type is lv.AclPermissionType.DENY
    assert str(made) == f"DENY User:carol from * DESCRIBE on TRANSACTIONAL_ID {name}"


def test_a_client_is_who_its_certificate_says() -> None:
    authority = Authority()
    listener = authority.listener("127.0.0.1", client_auth="requested")
    with EmbeddedKafka(security=listener, acls=[]) as kafka:
        settings = {**kafka.client_settings, **authority.trust()}
        with lv.KafkaAdmin({**settings, **authority.client("carol")}) as admin:
            assert admin.list_topics() == []
            (principal,) = {session.principal for session in kafka.connections()}
        assert principal.startswith("User:CN=carol,OU=Testing cert ")
        with lv.KafkaAdmin(settings) as admin:
            assert admin.list_topics() == []
            assert "User:ANONYMOUS" in {session.principal for session in kafka.connections()}
