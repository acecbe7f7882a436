"""Services that speak Kafka's protocol with peculiarities of their own, imitated by the embedded broker (kits/services)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import levada as lv
from altered_answers import altered
from api_kit import Api, either_api
from levada.errors import BrokerError, DeliveryTimeout, KafkaError, RecordTooLargeError, UnsupportedVersionError
from levada.net.sasl import jwt
from levada.testing import EmbeddedKafka
from services import EVENT_HUBS_USER, event_hubs, without

TP = lv.TopicPartition("t", 0)


@pytest.fixture(params=["blocking", "asyncio"])
def api(request: pytest.FixtureRequest) -> Iterator[Any]:
    yield from either_api(request)


def round_trip(api: Any, settings: dict[str, Any], *, records: int = 3, **of_producer: Any) -> None:
    """Write to topic t, and read it in a group that commits; a second member goes on where the first has ended."""
    with api.KafkaProducer(**settings, **of_producer) as producer:
        for number in range(records):
            producer.send("t", value=b"%d" % number)
        producer.flush()
    group = {**settings, "group_id": "g", "auto_offset_reset": "earliest"}
    with api.KafkaConsumer(**group) as consumer:
        consumer.subscribe(["t"])
        assert sorted(read(consumer, records)) == sorted(b"%d" % number for number in range(records))
        consumer.commit()
    with api.KafkaProducer(**settings, **of_producer) as producer:
        producer.send("t", value=b"more")
        producer.flush()
    with api.KafkaConsumer(**group) as consumer:
        consumer.subscribe(["t"])
        assert read(consumer, 1) == [b"more"]


def read(consumer: Any, count: int) -> list[bytes]:
    values: list[bytes] = []
    deadline = time.monotonic() + 30
    while len(values) < count and time.monotonic() < deadline:
        values += [record.value for record in consumer.poll(10.0)]  # A poll that ends before the client has connected writes a warning.
    return values


# Azure Event Hubs


@pytest.mark.parametrize("api_versions", [1, 3])
def test_clients_step_down_to_the_versions_of_event_hubs_and_remember_that(
    api: Any, api_versions: int, caplog: pytest.LogCaptureFixture
) -> None:
    with event_hubs(api_versions=api_versions) as kafka, caplog.at_level(logging.INFO):
        settings = kafka.settings_for(EVENT_HUBS_USER, "PLAIN")
        with api.KafkaAdmin(**settings) as admin:
            admin.create_topics([lv.NewTopic("t", 2, 1)])
            refused = hang_ups(caplog)
            assert refused == (4 if api_versions == 1 else 2), "twice with each version that it does not know"
            assert set(admin.describe_topics(["t"])) == {"t"}
            admin.list_groups()
            admin.delete_topics(["t"])
            admin.create_topics([lv.NewTopic("t", 2, 1)])
            assert hang_ups(caplog) == refused, "connections for other purposes begin with the version that was answered"
        caplog.clear()
        round_trip(api, settings)
    assert hang_ups(caplog) == 4 * refused, "once per client"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def hang_ups(caplog: pytest.LogCaptureFixture) -> int:
    """How often the broker has closed a connection because of the version of ApiVersions."""
    return sum("API 18 version" in record.getMessage() for record in caplog.records)


def test_an_api_that_event_hubs_lacks_is_named_at_once(api: Any) -> None:
    with event_hubs() as kafka:
        kafka.create_topic("t")
        settings = kafka.settings_for(EVENT_HUBS_USER, "PLAIN")
        topic = lv.ConfigResource(lv.ConfigResourceType.TOPIC, "t")
        with api.KafkaAdmin(**settings) as admin:
            with pytest.raises(UnsupportedVersionError, match="the broker does not know DescribeConfigs"):
                admin.describe_configs([topic])
            with pytest.raises(UnsupportedVersionError, match="the broker does not know CreatePartitions"):
                admin.create_partitions({"t": 2})
            with pytest.raises(UnsupportedVersionError, match=r"brokers before 2\.4 need partitions and replication_factor"):
                admin.create_topics([lv.NewTopic("other")])
        with api.KafkaProducer(**settings, transactional_id="x") as producer:
            producer.init_transactions()
            with pytest.raises(KafkaError, match="AddPartitionsToTxn") as raised:
                producer.begin_transaction()
                producer.send("t", value=b"x").result(timeout=10)
                producer.commit_transaction()
            assert not raised.value.retriable


def test_requests_that_event_hubs_closes_the_connection_for_are_explained(api: Any, caplog: pytest.LogCaptureFixture) -> None:
    hint = "more than 1,000,000 bytes under way; if that repeats, the broker does not accept such a request: set max.request.size lower"
    with event_hubs() as kafka:
        kafka.create_topic("t")
        settings = {**kafka.settings_for(EVENT_HUBS_USER, "PLAIN"), "compression_type": "none"}
        with api.KafkaProducer(**settings, delivery_timeout_ms=1500, request_timeout_ms=1000, linger_ms=0) as producer:
            delivery = producer.send("t", value=bytes(1_047_500))
            with pytest.raises(DeliveryTimeout) as raised:
                delivery.result(timeout=20)
        assert hint in str(raised.value)
        assert hint in caplog.text
        with api.KafkaProducer(**settings, max_request_size=1_000_000, linger_ms=200) as producer:
            deliveries = [producer.send("t", value=bytes(1_000)) for _ in range(4_000)]
            producer.flush()
            with pytest.raises(RecordTooLargeError, match=r"max\.request\.size=1000000"):
                producer.send("t", value=bytes(1_047_500)).result(timeout=20)
        assert len({delivery.result().offset for delivery in deliveries}) == 4_000


# APIs that are missing, and errors that Kafka does not give there


def test_without_producer_ids_the_error_names_the_setting(api: Any) -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        without(kafka, "InitProducerId")
        with api.KafkaProducer(**kafka.client_settings) as producer, pytest.raises(KafkaError) as raised:
            producer.send("t", value=b"x").result(timeout=10)
        assert "set enable.idempotence=false" in str(raised.value)
        assert not raised.value.retriable
        round_trip(api, kafka.client_settings, enable_idempotence=False)


@pytest.mark.parametrize(
    "apis",
    [
        ["OffsetForLeaderEpoch"],
        ["DescribeConfigs", "DescribeCluster", "DescribeTopicPartitions", "GetTelemetrySubscriptions", "ConsumerGroupHeartbeat"],
        ["AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"],
        ["SaslAuthenticate", "SaslHandshake", "ListGroups"],
    ],
    ids=lambda apis: apis[0],
)
def test_what_writing_and_reading_do_not_need_may_be_missing(api: Any, apis: list[str]) -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        without(kafka, *apis)
        round_trip(api, {**kafka.client_settings, "enable_metrics_push": True})


def test_a_consumer_goes_on_after_an_election_without_offset_for_leader_epoch(api: Any) -> None:
    with EmbeddedKafka(brokers=2) as kafka:
        kafka.create_topic("t")
        without(kafka, "OffsetForLeaderEpoch")
        with (
            api.KafkaProducer(**kafka.client_settings) as producer,
            api.KafkaConsumer(**kafka.client_settings, auto_offset_reset="earliest", metadata_max_age_ms=200) as consumer,
        ):
            consumer.assign([TP])
            producer.send("t", value=b"before").result(timeout=10)
            assert read(consumer, 1) == [b"before"]
            kafka.elect_leader("t", node=2)
            kafka.elect_leader("t", node=1)
            producer.send("t", value=b"after").result(timeout=10)
            assert read(consumer, 1) == [b"after"]


@pytest.mark.parametrize("code", ["UNKNOWN_SERVER_ERROR", "THROTTLING_QUOTA_EXCEEDED", "POLICY_VIOLATION", "INVALID_CONFIG"])
def test_errors_of_a_service_come_out_of_the_call_with_their_name(code: str) -> None:
    with EmbeddedKafka() as kafka:
        kafka.faults.fail_next("CreateTopics", code, times=1_000)
        with lv.KafkaAdmin(**kafka.client_settings) as admin, pytest.raises(KafkaError) as raised:
            admin.create_topics([lv.NewTopic("t", 1, 1)], timeout=0.5)
        assert code in str(raised.value)


def test_a_service_error_in_the_middle_is_retried_or_told() -> None:
    """Errors that Kafka does not give for these requests, as services in front of other logs do."""
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        kafka.faults.fail_next("Produce", "UNKNOWN_SERVER_ERROR", topic="t")
        with lv.KafkaProducer(**kafka.client_settings) as producer, pytest.raises(BrokerError, match="UNKNOWN_SERVER_ERROR"):
            producer.send("t", value=b"x").result(timeout=10)
        for api, code in (
            ("Metadata", "UNKNOWN_SERVER_ERROR"),
            ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
            ("Fetch", "UNKNOWN_SERVER_ERROR"),
        ):
            kafka.faults.fail_next(api, code, times=2)
        round_trip(Api(), kafka.client_settings)


# Tokens that end soon, and Amazon MSK


@pytest.mark.parametrize("renewable", [True, False], ids=["renewed", "closed"])
def test_tokens_that_rotate_every_second(api: Any, renewable: bool) -> None:
    """renewable: whether the broker tells when a session ends. Else it closes the connection, as services do, and a new one logs in."""
    given: list[str] = []

    def token() -> lv.OAuthToken:
        given.append(f"token {len(given)}")
        return lv.OAuthToken(jwt.unsecured({"sub": "alice", "iat": time.time(), "exp": time.time() + 1.2}))

    with EmbeddedKafka(oauth="unsecured", connections_max_reauth_ms=1_000) as kafka:
        kafka.create_topic("t")
        if not renewable:
            kafka.faults.cap_version("SaslAuthenticate", 0)
        settings = {**kafka.client_settings, "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": token}
        settings |= {"sasl_login_refresh_min_period_seconds": 0, "sasl_login_refresh_buffer_seconds": 0}
        with (
            api.KafkaProducer(**settings) as producer,
            api.KafkaConsumer(**settings, group_id="g", auto_offset_reset="earliest") as consumer,
        ):
            consumer.subscribe(["t"])
            values: list[bytes] = []
            deadline = time.monotonic() + 4
            sent = 0
            while time.monotonic() < deadline:
                producer.send("t", value=b"%d" % sent).result(timeout=10)
                sent += 1
                values += [record.value for record in consumer.poll(0.05)]
            values += read(consumer, sent - len(values))
        assert values == [b"%d" % number for number in range(sent)]
        assert len(given) >= 4


def test_msk_serverless_with_iam_and_its_limits(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """IAM only, 8 MiB per record, and no APIs for access rules, users and quotas."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    limit = 8 << 20
    with EmbeddedKafka(aws_accounts={"AKIDEXAMPLE": "secret"}, message_max_bytes=limit) as kafka:
        kafka.create_topic("t")
        without(kafka, "CreateAcls", "DescribeAcls", "DescribeUserScramCredentials", "AlterClientQuotas", "ConsumerGroupHeartbeat")
        settings = {**kafka.client_settings, "sasl_mechanism": "AWS_MSK_IAM", "sasl_aws_region": "eu-west-1"}
        round_trip(api, settings)
        with api.KafkaAdmin(**settings) as admin, pytest.raises(UnsupportedVersionError, match="does not know DescribeAcls"):
            admin.describe_acls()
        with api.KafkaProducer(**settings, max_request_size=2 * limit, compression_type="none") as producer:
            producer.send("t", value=bytes(limit - 1_000)).result(timeout=20)
            with pytest.raises(RecordTooLargeError):
                producer.send("t", value=bytes(limit)).result(timeout=20)
        with (
            api.KafkaConsumer(**settings, group_id="new", group_protocol="consumer") as consumer,
            pytest.raises(UnsupportedVersionError, match=r"group\.protocol|ConsumerGroupHeartbeat"),
        ):
            consumer.subscribe(["t"])
            consumer.poll(5.0)


# Codes that Kafka does not have

UNKNOWN_CODE = 9_999


def with_code(struct: Any) -> None:
    """Put an unknown error code into each place of an answer that has one."""
    if hasattr(struct, "error_code"):
        struct.error_code = UNKNOWN_CODE
    for name in getattr(type(struct), "__slots__", ()):
        for item in value if isinstance(value := getattr(struct, name, None), list) else ():
            with_code(item)


@pytest.mark.parametrize("api_name", ["Produce", "CreateTopics", "OffsetCommit", "ListOffsets", "InitProducerId", "FindCoordinator"])
def test_the_number_of_an_unknown_error_is_told(api_name: str) -> None:
    with EmbeddedKafka() as kafka, altered(api_name, with_code):
        kafka.create_topic("t")
        kafka.faults.cap_version("FindCoordinator", 3)  # Newer versions have a code for each key, and none for the answer.
        with (
            lv.KafkaAdmin(**kafka.client_settings) as admin,
            lv.KafkaProducer(**kafka.client_settings) as producer,
            lv.KafkaConsumer(**kafka.client_settings, group_id="g") as consumer,
        ):
            consumer.assign([TP])
            calls: dict[str, Callable[[], object]] = {
                "Produce": lambda: producer.send("t", value=b"x").result(timeout=10),
                "InitProducerId": lambda: producer.send("t", value=b"x").result(timeout=10),
                "CreateTopics": lambda: admin.create_topics([lv.NewTopic("other", 1, 1)]),
                "OffsetCommit": lambda: consumer.commit({TP: lv.OffsetAndMetadata(0)}),
                "FindCoordinator": lambda: consumer.commit({TP: lv.OffsetAndMetadata(0)}, timeout=1.0),
                "ListOffsets": lambda: consumer.end_offsets([TP], timeout=1.0),
            }
            with pytest.raises(KafkaError) as raised:
                calls[api_name]()
            assert str(UNKNOWN_CODE) in str(raised.value)
