"""Settings of brokers: which are told, what can be changed while a broker runs, and what such a change does (KIP-226)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_kit import START_MS, Bench, Client, make_batch
from disk_kit import kept
from levada.broker.config.broker_config import DEFAULT_SOURCE, OWN_SOURCE, SHARED_SOURCE, STARTED_SOURCE
from levada.broker.config.checks import Kind
from levada.broker.config.kafka_settings import Update, kafka_settings
from levada.broker.config.settings import BrokerSettings
from levada.broker.disk.properties_file import read_properties
from levada.broker.foreground import properties, setting
from levada.error_codes import ErrorCode
from levada.errors import ConfigError
from levada.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult
from levada.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from levada.record.compression import Codec
from replica_kit import Trio

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE = range(2)
ONE, ALL = "1", ""
DAY_MS = 86_400_000


def told(client: Client, name: str = ONE, *, kind: int = BROKER, documented: bool = False) -> dict[str, DescribeConfigsResourceResult]:
    wanted = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=True, include_documentation=documented)
    return {one.name: one for one in client.ask(request).results[0].configs}


def value(client: Client, setting: str, name: str = ONE, *, kind: int = BROKER) -> tuple[str | None, int]:
    found = told(client, name, kind=kind)[setting]
    return found.value, found.config_source


def alter(client: Client, broker: str, check_only: bool = False, **changes: str | None) -> int:
    configs = [
        AlterableConfig(name=name.replace("_", "."), config_operation=DELETE if text is None else SET, value=text)
        for name, text in changes.items()
    ]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=configs)
    return int(client.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=check_only)).responses[0].error_code)


def client_of(**settings: Any) -> Client:
    bench = Bench(**settings)
    bench.node.create_topic("t")
    return bench.client()


# What is told


def test_a_broker_tells_how_it_was_started() -> None:
    client = Bench(node_id=0, host="::1", port=9999, rack="r1", num_partitions=4).client()
    found = {name: one.value for name, one in told(client, "0").items()}
    wanted = {
        "node.id": "0",
        "broker.id": "0",
        "broker.rack": "r1",
        "listeners": "PLAINTEXT://[::1]:9999",
        "advertised.listeners": "PLAINTEXT://[::1]:9999",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
        "log.dirs": "memory",
        "process.roles": "broker,controller",
        "num.partitions": "4",
        "num.io.threads": "8",
    }
    assert {name: found[name] for name in wanted} == wanted
    assert found.keys() == kafka_settings().keys()


def test_values_come_from_the_first_layer_that_has_them() -> None:
    client = client_of(message_max_bytes=3)
    assert alter(client, ALL, message_max_bytes="2") == 0
    assert alter(client, ONE, message_max_bytes="1") == 0
    name = "message.max.bytes"
    layers = [(name, "1", OWN_SOURCE), (name, "2", SHARED_SOURCE), (name, "3", STARTED_SOURCE), (name, "1048588", DEFAULT_SOURCE)]
    found = told(client)[name]
    assert (found.value, found.config_source) == ("1", OWN_SOURCE)
    assert [(one.name, one.value, one.source) for one in found.synonyms] == layers
    of_topic = told(client, "t", kind=TOPIC)["max.message.bytes"]
    assert (of_topic.value, of_topic.config_source) == ("1", OWN_SOURCE)
    assert [(one.name, one.value, one.source) for one in of_topic.synonyms] == layers
    assert {one: (found.value, found.config_source) for one, found in told(client, ALL).items()} == {name: ("2", SHARED_SOURCE)}
    for broker, left in ((ONE, ("2", SHARED_SOURCE)), (ALL, ("3", STARTED_SOURCE))):
        assert alter(client, broker, message_max_bytes=None) == 0
        assert value(client, name) == left


def test_secrets_and_what_kafka_has_not_are_told_to_nobody() -> None:
    client = client_of(ssl_key_password="planted", delegation_token_secret_key="planted", super_users="User:planted")
    assert alter(client, ONE, my_plugin="planted", listener_name_plaintext_ssl_key_password="planted") == 0
    found = told(client)
    for name in ("ssl.key.password", "delegation.token.secret.key", "super.users", "my.plugin", "listener.name.plaintext.ssl.key.password"):
        assert (found[name].value, found[name].is_sensitive) == (None, True)
        assert {one.value for one in found[name].synonyms} == {None}
    assert "planted" not in repr(BrokerSettings.of(ssl_key_password="planted"))


def test_documentation_says_what_a_setting_does_here() -> None:
    client = client_of()
    assert {one.documentation for one in told(client).values()} == {None}
    texts = {name: one.documentation for name, one in told(client, documented=True).items()}
    assert texts["num.partitions"] == "It has effect here. It cannot be changed while the broker runs."
    assert texts["message.max.bytes"] == "It has effect here. It can be changed for all brokers or for one."
    assert texts["num.io.threads"] == "It is kept and shown, and has no effect here. It can be changed for all brokers or for one."
    assert texts["ssl.key.password"] == "It is kept and shown, and has no effect here. It can be changed for one listener of a broker."
    assert all(texts.values())


# Given at the start


def test_every_setting_of_kafka_can_be_given() -> None:
    client = client_of(num_io_threads=4, log_flush_scheduler_interval_ms="7", auto_leader_rebalance_enable=False)
    assert value(client, "num.io.threads") == ("4", STARTED_SOURCE)
    assert value(client, "log.flush.scheduler.interval.ms") == ("7", STARTED_SOURCE)
    assert value(client, "auto.leader.rebalance.enable") == ("false", STARTED_SOURCE)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"num_io_thread": 4}, "unknown broker setting 'num_io_thread'; did you mean 'num_io_threads'?"),
        ({"num_io_threads": "many"}, "broker setting 'num_io_threads' must be a whole number, not 'many'"),
        ({"num_io_threads": 0}, "broker setting 'num_io_threads' must be between 1 and 2147483647, not '0'"),
        ({"log_dirs": "/x"}, "broker setting 'log_dirs' follows from how the broker is started, and cannot be given as a setting"),
    ],
)
def test_what_cannot_be_given_is_refused(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerSettings.of(**given)
    assert str(refused.value) == fault


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        ({"log_retention_hours": 2}, 7_200_000),
        ({"log_retention_hours": 2, "log_retention_minutes": 3}, 180_000),
        ({"log_retention_hours": 2, "log_retention_ms": 5}, 5),
        ({"log_retention_hours": -1}, -1),
        ({}, 7 * DAY_MS),
    ],
)
def test_retention_can_be_given_in_other_units(given: dict[str, Any], ms: int) -> None:
    client = client_of(**given)
    assert value(client, "retention.ms", "t", kind=TOPIC)[0] == str(ms)
    assert told(client)["log.retention.ms"].value == (str(ms) if "log_retention_ms" in given else None)


def test_a_file_of_properties_has_settings(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "# a comment\n! another\n\nnode.id=0\nnum.partitions = 3\nlog.retention.hours: 2\ncompression.type gzip\n"
        "max.connections.per.ip.overrides=127.0.0.1\\:5,\\\n    10.0.0.1:7\nbroker.rack=\n"
    )
    assert properties(str(file)) == {
        "node_id": "0",
        "num_partitions": 3,
        "log_retention_hours": "2",
        "compression_type": "gzip",
        "max_connections_per_ip_overrides": "127.0.0.1:5,10.0.0.1:7",
        "broker_rack": "",
    }
    file.write_text("num.partition=3\n")
    with pytest.raises(ConfigError, match=r"server\.properties: unknown broker setting 'num\.partition'; did you mean 'num\.partitions'\?"):
        properties(str(file))
    with pytest.raises(ConfigError, match="none: the file cannot be read: No such file or directory"):
        properties(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("# C:\\dir\\\na=1\n", {"a": "1"}),
        ("  ! x\\\r\na=1\r\n", {"a": "1"}),
        ("a=x\\\\\nb=2\n", {"a": "x\\", "b": "2"}),
        ("a=x\\\\\\\n  y\nb=2\n", {"a": "x\\y", "b": "2"}),
        ("a=1,\\\n# no comment\nb=2\n", {"a": "1,# no comment", "b": "2"}),
        ("a=1,\\\n\n  b=2\n", {"a": "1,", "b": "2"}),
        ("\\\n# a comment\na=1\n", {"a": "1"}),
        ("a=1\\", {"a": "1"}),
        ("a=1\\ \nb=2  \n", {"a": "1 ", "b": "2  "}),
        ("a\\\n  b=1\rc\\ d:2", {"ab": "1", "c d": "2"}),
        ("a = = 1\nb\n=c\nd\fe", {"a": "= 1", "b": "", "": "c", "d": "e"}),
        ("a=\\t\\u0041\\q\\\\n\n", {"a": "\tAq\\n"}),
        ("a=1\u2028b=2\x85\n\xa0c=3\xa0\n", {"a": "1\u2028b=2\x85", "\xa0c": "3\xa0"}),
    ],
)
def test_properties_are_read_as_java_reads_them(tmp_path: Path, text: str, read: dict[str, str]) -> None:
    """What is expected is what java.util.Properties made of the same texts."""
    file = tmp_path / "server.properties"
    file.write_bytes(text.encode())
    assert dict(read_properties(str(file))) == read


def test_a_broken_escape_in_a_file_of_properties_is_told(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=C:\\users\n")
    with pytest.raises(ConfigError, match=r"server\.properties: the file cannot be read: '\\u' is to be followed by four"):
        properties(str(file))


def test_what_options_say_is_not_given_as_a_setting() -> None:
    with pytest.raises(ConfigError, match=r"broker setting 'listeners' cannot be given; give --host and --port"):
        setting("listeners=PLAINTEXT://:9092")
    with pytest.raises(ConfigError, match=r"broker setting 'process\.roles' cannot be given; leave it out"):
        setting("process.roles=broker")


# Changed while the broker runs


def test_the_default_of_topics_holds_from_then_on() -> None:
    client = client_of()
    assert alter(client, ALL, message_max_bytes="100", compression_type="zstd") == 0
    assert client.produce("t", make_batch(b"x" * 100)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    client.bench.node.create_topic("new")
    for topic in ("t", "new"):
        assert client.produce(topic, make_batch(b"x")).error_code == 0
        (batch,) = client.bench.node.log(topic).batches()
        assert batch.codec is Codec.ZSTD
    assert alter(client, ALL, message_max_bytes=None, compression_type=None) == 0
    assert client.produce("t", make_batch(b"x" * 100)).error_code == 0


def test_what_a_topic_has_set_itself_holds_over_its_broker() -> None:
    client = client_of()
    client.bench.node.create_topic("own", 1, {"max.message.bytes": "1000"})
    assert alter(client, ALL, message_max_bytes="100") == 0
    assert client.produce("own", make_batch(b"x" * 500)).error_code == 0


def test_retention_follows() -> None:
    client = client_of(log_retention_check_interval_ms=1000)
    client.produce("t", make_batch(b"x", timestamp=START_MS))
    client.bench.advance(5000)
    assert client.bench.node.log("t").start_offset == 0
    assert alter(client, ONE, log_retention_ms="2000") == 0
    client.bench.advance(5000)
    assert client.bench.node.log("t").start_offset == 1


def test_the_cleaner_rests_for_as_long_as_it_is_told() -> None:
    client = client_of(log_cleaner_backoff_ms=1_000_000)
    client.bench.node.create_topic("c", 1, {"cleanup.policy": "compact", "segment.bytes": "120", "min.cleanable.dirty.ratio": "0.01"})
    client.bench.advance()
    for _ in range(4):
        client.produce("c", make_batch(b"x" * 30))
    assert alter(client, ONE, log_cleaner_backoff_ms="10") == 0
    client.bench.advance(1_000_000)
    assert client.bench.node.log("c").clean_until == 3
    for _ in range(4):
        client.produce("c", make_batch(b"x" * 30))
    client.bench.advance(20)
    assert client.bench.node.log("c").clean_until == 7


def test_one_broker_of_three_may_have_settings_of_its_own() -> None:
    trio = Trio()
    assert alter(trio.clients[2], "2", message_max_bytes="100") == 0
    assert trio.leader.produce("t", make_batch(b"x" * 100)).error_code == 0, "node 1 leads"
    trio.elect(2)
    assert trio.leader.produce("t", make_batch(b"x" * 100)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert [value(trio.clients[node], "max.message.bytes", "t", kind=TOPIC)[0] for node in (1, 2, 3)] == ["1048588", "100", "1048588"]
    trio.cluster.add(trio.cluster.plan("new", 1, assignment={0: (2,)}))
    assert trio.clients[2].produce("new", make_batch(b"x" * 100)).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_setting_without_effect_is_kept_and_shown() -> None:
    client = client_of()
    assert alter(client, ONE, num_io_threads="16", sasl_kerberos_service_name="k") == 0
    assert value(client, "num.io.threads") == ("16", OWN_SOURCE)
    assert value(client, "sasl.kerberos.service.name") == ("k", OWN_SOURCE)


@pytest.mark.parametrize(
    ("broker", "changes"),
    [
        (ONE, {"message_max_bytes": "5", "node_id": "1"}),
        (ONE, {"message_max_bytes": "5", "num_partitions": "2"}),
        (ONE, {"message_max_bytes": "many"}),
        (ONE, {"message_max_bytes": "-1"}),
        (ONE, {"compression_type": "lzma"}),
        (ONE, {"ssl_key_password": "x"}),
        (ALL, {"ssl_cipher_suites": "x"}),
        (ALL, {"listener_name_plaintext_ssl_cipher_suites": "x"}),
        (ONE, {"num_io_threads": "17"}),
        (ONE, {"max_connections": "0"}),
        (ONE, {"listeners": "PLAINTEXT://127.0.0.1:1"}),
        (ONE, {"log_cleaner_dedupe_buffer_size": "1000"}),
        ("2", {"message_max_bytes": "5"}),
        ("one", {"message_max_bytes": "5"}),
    ],
)
def test_a_wrong_change_leaves_all_as_it_was(broker: str, changes: dict[str, Any]) -> None:
    client = client_of()
    before = told(client)
    assert alter(client, broker, **changes) == ErrorCode.INVALID_REQUEST
    assert told(client) == before


def test_a_check_changes_nothing() -> None:
    client = client_of()
    assert alter(client, ONE, check_only=True, message_max_bytes="5") == 0
    assert value(client, "message.max.bytes")[1] == DEFAULT_SOURCE


def test_listeners_may_be_changed_to_what_they_are() -> None:
    client = client_of()
    assert alter(client, ONE, listeners=told(client)["listeners"].value) == 0


def test_every_setting_takes_its_own_default() -> None:
    for known in kafka_settings().values():
        if known.default is not None and known.check.kind is not Kind.CLASS:
            known.check.parse(known.default)
    assert {known.update for known in kafka_settings().values()} == set(Update)


def test_changes_outlive_the_broker(tmp_path: Path) -> None:
    with kept(tmp_path) as bench:
        bench.node.create_topic("t")
        client = bench.client()
        assert alter(client, ONE, message_max_bytes="100", my_plugin="x") == 0
        assert alter(client, ALL, num_io_threads="16") == 0
    with kept(tmp_path) as bench:
        client = bench.client()
        assert value(client, "message.max.bytes") == ("100", OWN_SOURCE)
        assert value(client, "num.io.threads") == ("16", SHARED_SOURCE)
        assert client.produce("t", make_batch(b"x" * 100)).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert alter(client, ONE, message_max_bytes=None, my_plugin=None) == 0
    with kept(tmp_path) as bench:
        assert value(bench.client(), "message.max.bytes")[1] == DEFAULT_SOURCE


def test_groups_take_their_defaults_from_brokers() -> None:
    client = client_of()
    assert value(client, "consumer.assignment.interval.ms", "g", kind=GROUP) == ("1000", DEFAULT_SOURCE)
    assert alter(client, ALL, group_consumer_assignment_interval_ms="7") == 0
    assert value(client, "consumer.assignment.interval.ms", "g", kind=GROUP) == ("7", SHARED_SOURCE)
