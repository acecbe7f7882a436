"""DescribeConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker_kit import Bench, Client, make_batch
from levada.broker.apis.configs import describe_configs
from levada.broker.config.broker_config import DescribedSetting, settings_of_broker
from levada.broker.config.checks import Kind
from levada.broker.config.settings import Layers
from levada.error_codes import ErrorCode
from levada.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from levada.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(
    client: Client, name: str = "t", *, kind: int = TOPIC, version: int = 4, keys: list[str] | None = None
) -> DescribeConfigsResult:
    wanted = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    (result,) = client.ask(DescribeConfigsRequest(resources=[wanted], include_synonyms=True), version).results
    found: DescribeConfigsResult = result
    return found


def setting(client: Client, name: str) -> DescribeConfigsResourceResult:
    (found,) = describe(client, keys=[name]).configs
    return found


def alter(
    client: Client, *changes: tuple[str, int, str | None], name: str = "t", kind: int = TOPIC, check_only: bool = False, version: int = 1
) -> int:
    configs = [AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=check_only), version).responses
    code: int = answer.error_code
    return code


def test_a_broker_that_has_not_changed_is_not_described_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has some 300 settings, and a question about them is a few bytes."""
    client = Bench(log_retention_ms=12_345).client()

    def retention() -> tuple[str | None, int]:
        (found,) = describe(client, "1", kind=BROKER, keys=["log.retention.ms"]).configs
        return found.value, found.config_source

    worked_out = []

    def counted(layers: Layers) -> Iterator[DescribedSetting]:
        worked_out.append(layers)
        return settings_of_broker(layers)

    monkeypatch.setattr(describe_configs, "settings_of_broker", counted)
    assert [retention() for _ in range(3)] == [("12345", 4)] * 3
    assert len(worked_out) <= 1
    assert alter(client, ("log.retention.ms", SET, "54321"), name="1", kind=BROKER) == 0
    assert [retention() for _ in range(3)] == [("54321", 2)] * 3
    assert len(worked_out) <= 2


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_tells_values_and_where_they_come_from(version: int) -> None:
    bench = Bench(log_retention_bytes=7)
    bench.node.create_topic("t", 1, {"retention.ms": "5"})
    result = describe(bench.client(), version=version)
    found = {one.name: (one.value, one.config_source) for one in result.configs}
    assert (found["retention.ms"], found["retention.bytes"], found["segment.bytes"]) == (("5", 1), ("7", 4), ("1073741824", 5))
    if version >= 3:
        kinds = {one.name: one.config_type for one in result.configs}
        assert (kinds["retention.ms"], kinds["cleanup.policy"], kinds["segment.bytes"]) == (Kind.LONG, Kind.LIST, Kind.INT)


def test_synonyms_tell_what_would_hold_instead() -> None:
    bench = Bench(log_retention_ms=9)
    bench.node.create_topic("t", 1, {"retention.ms": "5"})
    synonyms = setting(bench.client(), "retention.ms").synonyms
    assert [(one.name, one.value, one.source) for one in synonyms] == [
        ("retention.ms", "5", 1),
        ("log.retention.ms", "9", 4),
        ("log.retention.hours", "168", 5),
    ]


def test_a_broker_describes_itself_only() -> None:
    client = Bench(num_partitions=3).client()
    found = {one.name: (one.value, one.read_only) for one in describe(client, "1", kind=BROKER).configs}
    assert found["num.partitions"] == ("3", True)
    assert describe(client, "2", kind=BROKER).error_code == ErrorCode.INVALID_REQUEST
    assert describe(client, "1", kind=BROKER_LOGGER).error_code == ErrorCode.INVALID_REQUEST
    assert describe(client, "", kind=CLIENT_METRICS).error_code == ErrorCode.INVALID_REQUEST
    assert describe(client, "none").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(2))
def test_every_version_changes_settings_one_by_one(client: Client, version: int) -> None:
    assert alter(client, ("retention.ms", SET, "5"), ("cleanup.policy", APPEND, "compact"), version=version) == 0
    assert (setting(client, "retention.ms").value, setting(client, "cleanup.policy").value) == ("5", "delete,compact")
    assert alter(client, ("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete"), version=version) == 0
    assert (setting(client, "retention.ms").value, setting(client, "cleanup.policy").value) == ("604800000", "compact")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("retention.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
        (("retention.msx", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (("cleanup.policy", APPEND, "forget"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_wrong_change_leaves_all_as_it_was(client: Client, change: tuple[str, int, str | None], code: ErrorCode) -> None:
    assert alter(client, ("segment.ms", SET, "5"), change) == code
    assert setting(client, "segment.ms").value == "604800000"


def test_nothing_is_changed_where_nothing_can_be_or_is_to_be(client: Client) -> None:
    assert alter(client, ("retention.ms", SET, "5"), check_only=True) == 0
    assert setting(client, "retention.ms").value == "604800000"
    assert alter(client, ("retention.ms", SET, "5"), ("retention.ms", SET, "6")) == ErrorCode.INVALID_REQUEST
    assert alter(client, ("retention.ms", SET, "5"), name="none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(client, ("num.partitions", SET, "5"), name="1", kind=BROKER) == ErrorCode.INVALID_REQUEST
    twice = AlterConfigsResource(resource_type=TOPIC, resource_name="t")
    answers = client.ask(IncrementalAlterConfigsRequest(resources=[twice, twice])).responses
    assert [one.error_code for one in answers] == [ErrorCode.INVALID_REQUEST] * 2


def test_settings_of_groups_hold_over_those_of_brokers() -> None:
    client = Bench(group_share_delivery_count_limit=7).client()
    assert alter(client, ("share.isolation.level", SET, "read_committed"), name="g", kind=GROUP) == 0
    found = {one.name: (one.value, one.config_source) for one in describe(client, "g", kind=GROUP).configs}
    assert found["share.isolation.level"] == ("read_committed", 8)
    assert found["share.delivery.count.limit"] == ("7", 4)
    assert found["share.record.lock.duration.ms"] == ("30000", 5)
    assert alter(client, ("share.isolation.level", DELETE, None), name="g", kind=GROUP) == 0
    (other,) = describe(client, "g", kind=GROUP, keys=["share.isolation.level"]).configs
    assert (other.value, other.config_source, other.config_type) == ("read_uncommitted", 5, Kind.STRING)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.auto.offset.reset", "none"),
        ("share.auto.offset.reset", "by_duration:soon"),
        ("share.delivery.count.limit", "11"),
        ("share.session.timeout.ms", "1"),
        ("share.isolation.level", "committed"),
        ("retention.ms", "1"),
    ],
)
def test_wrong_settings_of_groups_are_refused(client: Client, name: str, value: str) -> None:
    assert alter(client, (name, SET, value), name="g", kind=GROUP) == ErrorCode.INVALID_CONFIG
    assert alter(client, ("share.isolation.level", SET, "read_committed"), name="", kind=GROUP) == ErrorCode.INVALID_REQUEST


def test_a_changed_setting_holds_from_then_on() -> None:
    bench = Bench(log_retention_check_interval_ms=1000)
    bench.node.create_topic("t")
    client = bench.client()
    for _ in range(3):
        client.produce("t", make_batch(b"x" * 100))
    bench.advance(5000)
    assert bench.node.log("t").start_offset == 0
    alter(client, ("retention.ms", SET, "2000"), ("max.message.bytes", SET, "50"))
    bench.advance(5000)
    assert bench.node.log("t").start_offset == 3
    assert client.produce("t", make_batch(b"x" * 100)).error_code == ErrorCode.MESSAGE_TOO_LARGE
