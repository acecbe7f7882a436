"""Settings of brokers: the embedded broker lists, takes, refuses and tells those that Kafka 4.4 has, as it does (KIP-226).

Left out is what belongs to a cluster of its own: addresses, folders, and min.insync.replicas, which Kafka sets for all brokers and holds
fast while its feature eligible.leader.replicas.version is on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import pytest

from levada.broker.config.checks import Kind
from levada.broker.config.kafka_settings import Update, kafka_settings
from levada.broker.config.settings import HOW_IT_IS_STARTED
from levada.broker.foreground import setting
from levada.protocol.messages.alter_configs import AlterableConfig as WhollyAlterable
from levada.protocol.messages.alter_configs import AlterConfigsRequest
from levada.protocol.messages.alter_configs import AlterConfigsResource as WhollyAltered
from levada.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from levada.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from levada.testing import EmbeddedKafka
from wire import Wire

pytestmark = pytest.mark.kafka

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT, UNKNOWN = range(5)
ONE, ALL = "1", ""
PATIENCE_S = 20
OWN = HOW_IT_IS_STARTED | {
    "controller.listener.names",
    "controller.quorum.voters",
    "inter.broker.listener.name",
    "log.dir",
    "min.insync.replicas",
    "sasl.kerberos.kinit.cmd",
}
"""What two clusters do not have in common."""
CHANGED_MEANWHILE = "log.retention.hours"
STARTED_WITH = {
    "log.roll.ms": 7_000_000,
    "message.max.bytes": 2_000_000,
    "log.cleanup.policy": "delete,compact",
    "unclean.leader.election.enable": "true",
    "ssl.key.password": "of nobody",
    "max.connections": 2_147_483_647,
    "max.connections.per.ip": 1000,
    "queued.max.request.bytes": -1,
}


class Setting(NamedTuple):
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    type: int
    synonyms: list[tuple[str, str | None, int]]


class Side:
    """One of the two brokers."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def describe(
        self, name: str, *keys: str, kind: int = BROKER, version: int = 4, synonyms: bool = True
    ) -> tuple[int, dict[str, Setting]]:
        wanted = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
        (result,) = self._wire.ask(DescribeConfigsRequest(resources=[wanted], include_synonyms=synonyms), version).results
        return result.error_code, {
            one.name: Setting(
                one.value,
                one.config_source,
                one.read_only,
                one.is_sensitive,
                one.config_type,
                [(synonym.name, synonym.value, synonym.source) for synonym in one.synonyms],
            )
            for one in result.configs
            if one.name not in OWN
        }

    def alter(self, name: str, *changes: tuple[str, int, str | None], check_only: bool = False, kind: int = BROKER) -> int:
        configs = [AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=check_only)
        return int(self._wire.ask(request, 1).responses[0].error_code)

    def replace(self, name: str, changes: dict[str, str]) -> int:
        configs = [WhollyAlterable(name=key, value=value) for key, value in changes.items()]
        resource = WhollyAltered(resource_type=BROKER, resource_name=name, configs=configs)
        return int(self._wire.ask(AlterConfigsRequest(resources=[resource]), 2).responses[0].error_code)


@pytest.fixture(scope="module")
def sides(start_real_kafka: Callable[..., AbstractContextManager[Any]]) -> Iterator[tuple[Side, Side]]:
    """A Kafka of its own, since its settings are changed, and an embedded broker that was started with the same."""
    with start_real_kafka("4.4.0", properties=STARTED_WITH) as real:
        given = {name: str(value) for name, value in real.nodes[0]._properties().items() if name not in OWN}
        settings: dict[str, Any] = dict(setting(f"{name}={value}") for name, value in given.items() if name in kafka_settings())
        with EmbeddedKafka(**settings) as embedded, Wire(real.bootstrap_servers) as theirs, Wire(embedded.bootstrap_servers) as ours:
            for kafka in (real, embedded):
                kafka.create_topic("t", 1)
            yield Side(theirs), Side(ours)


def compare(sides: tuple[Side, Side], name: str, *keys: str, kind: int = BROKER, **how: Any) -> None:
    """Compare descriptions, once a real cluster has applied what its controller has decided."""
    theirs, ours = sides
    mine = ours.describe(name, *keys, kind=kind, **how)
    deadline = time.monotonic() + PATIENCE_S
    while (differ := differences(mine, theirs.describe(name, *keys, kind=kind, **how))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert differ == {}


def differences(ours: tuple[int, dict[str, Setting]], theirs: tuple[int, dict[str, Setting]]) -> dict[str, Any]:
    """Return where answers differ, ours first."""
    (code, mine), (real_code, real) = ours, theirs
    differ: dict[str, Any] = {key: (mine.get(key), real.get(key)) for key in mine | real if mine.get(key) != real.get(key)}
    if CHANGED_MEANWHILE in mine and CHANGED_MEANWHILE in real and mine[CHANGED_MEANWHILE][1:] == real[CHANGED_MEANWHILE][1:]:
        # While log.retention.ms is changed, Kafka tells the default of log.retention.hours, and not its value.
        differ.pop(CHANGED_MEANWHILE, None)
    return {"error_code": (code, real_code)} if code != real_code else differ


def test_all_settings_with_values_types_sources_and_synonyms(sides: tuple[Side, Side]) -> None:
    compare(sides, ONE)
    compare(sides, ALL)


@pytest.mark.parametrize("version", range(1, 5))
@pytest.mark.parametrize("synonyms", [True, False])
def test_every_version_describes_alike(sides: tuple[Side, Side], version: int, synonyms: bool) -> None:
    compare(sides, ONE, "message.max.bytes", "log.retention.ms", "none-such", version=version, synonyms=synonyms)


def test_other_brokers_are_refused_alike(sides: tuple[Side, Side]) -> None:
    names = ("2", "-1", "01", "one", " ", "99999999999")
    codes = [
        [(side.describe(name)[0], side.alter(name, ("message.max.bytes", SET, "5"), check_only=True)) for name in names] for side in sides
    ]
    assert codes[1] == codes[0]


def test_which_settings_can_be_changed_and_for_whom(sides: tuple[Side, Side]) -> None:
    values = {name: value.value for name, value in sides[0].describe(ONE)[1].items()}
    good = {Kind.BOOLEAN: "true", Kind.DOUBLE: "0.5", Kind.PASSWORD: "secret", Kind.STRING: "x", Kind.LIST: "x"}
    differ = {}
    for name, known in kafka_settings().items():
        if name in OWN or known.check.kind is Kind.CLASS:
            continue
        value = values[name] or good.get(known.check.kind, "1")
        theirs, ours = ([side.alter(of, (name, SET, value), check_only=True) for of in (ONE, ALL)] for side in sides)
        if ours != theirs:
            differ[name] = (value, ours, theirs)
    assert differ == {}


def test_values_are_checked_alike(sides: tuple[Side, Side]) -> None:
    names = [name for name, known in kafka_settings().items() if known.update is Update.CLUSTER and name not in OWN]
    values = ("x", "-3", "-1", "0", "1", "2", "99999999999", "0.5", "1.5", "TRUE", "gzip", "none")
    free = {Kind.STRING, Kind.LIST, Kind.CLASS}
    differ: dict[tuple[str, str], tuple[int, int]] = {}
    for name in names:
        if kafka_settings()[name].check.kind in free and name not in (
            "log.cleanup.policy",
            "compression.type",
            "log.message.timestamp.type",
        ):
            continue
        for value in values:
            theirs, ours = (side.alter(ONE, (name, SET, value), check_only=True) for side in sides)
            if ours != theirs:
                differ[name, value] = (ours, theirs)
    assert differ == {}


CHANGES: list[tuple[str, list[tuple[str, int, str | None]]]] = [
    (ONE, [("message.max.bytes", SET, "3000000")]),
    (ALL, [("message.max.bytes", SET, "4000000"), ("log.retention.ms", SET, "1000000")]),
    (ONE, [("message.max.bytes", DELETE, None)]),
    (ONE, [("message.max.bytes", SET, None)]),
    (ONE, [("message.max.bytes", APPEND, "1")]),
    (ONE, [("message.max.bytes", UNKNOWN, "1")]),
    (ONE, [("message.max.bytes", SET, "5"), ("message.max.bytes", SET, "6")]),
    (ONE, [("message.max.bytes", SET, "5"), ("node.id", SET, "1")]),
    (ONE, [("node.id", DELETE, None)]),
    (ONE, [("log.retention.ms", SET, "-5")]),
    (ONE, [("log.retention.ms", SET, "0")]),
    (ALL, [("log.roll.ms", SET, "9000000")]),
    (ALL, [("log.flush.interval.ms", SET, "9000")]),
    (ONE, [("log.roll.jitter.ms", SET, "9")]),
    (ONE, [("log.cleanup.policy", APPEND, "compact")]),
    (ONE, [("log.cleanup.policy", SUBTRACT, "delete")]),
    (ONE, [("log.cleanup.policy", SUBTRACT, "compact")]),
    (ONE, [("log.cleanup.policy", DELETE, None)]),
    (ONE, [("unclean.leader.election.enable", SET, "False")]),
    (ONE, [("compression.type", SET, "gzip")]),
    (ALL, [("compression.gzip.level", SET, "3")]),
    (ALL, [("num.io.threads", SET, "9")]),
    (ONE, [("num.io.threads", SET, "1000")]),
    (ONE, [("num.io.threads", SET, "4")]),
    (ONE, [("num.io.threads", SET, "3")]),
    (ONE, [("max.connections", SET, "500")]),
    (ALL, [("max.connections", SET, "600")]),
    (ONE, [("listener.name.plaintext.max.connections", SET, "400")]),
    (ALL, [("listener.name.plaintext.max.connections", SET, "300")]),
    (ALL, [("listener.name.plaintext.ssl.key.password", SET, "secret")]),
    (ONE, [("listener.name.plaintext.ssl.key.password", SET, "secret")]),
    (ONE, [("ssl.key.password", SET, "secret")]),
    (ALL, [("ssl.cipher.suites", SET, "one")]),
    (ONE, [("my.own.setting", SET, "x")]),
    (ALL, [("my.other.setting", SET, "y")]),
    (ONE, [("my.own.setting", APPEND, "y")]),
    (ONE, [("my.own.setting", DELETE, None)]),
    (ONE, [("leader.replication.throttled.rate", SET, "100000")]),
    (ONE, [("leader.replication.throttled.rate", SET, "x")]),
    (ONE, [("leader.replication.throttled.rate", SET, "-1")]),
    (ONE, [("leader.replication.throttled.rate", SET, "0")]),
    (ALL, [("follower.replication.throttled.rate", SET, "100000")]),
    (ONE, [("replica.alter.log.dirs.io.max.bytes.per.second", SET, "100000")]),
    (ONE, [("group.consumer.assignment.interval.ms", SET, "7")]),
    (ONE, [("max.connections.per.ip.overrides", SET, "127.0.0.1:900,10.0.0.1:5")]),
    (ONE, [("max.connections.per.ip.overrides", SET, "x")]),
    (ONE, [("cordoned.log.dirs", SET, "/none")]),
]


def test_changes_are_taken_or_refused_and_told_alike(sides: tuple[Side, Side]) -> None:
    for name, changes in CHANGES:
        theirs, ours = (side.alter(name, *changes) for side in sides)
        assert ours == theirs, (name, changes)
        compare(sides, ONE)
        compare(sides, ALL)
    compare(sides, "t", kind=TOPIC)
    compare(sides, "g", kind=GROUP)
    for side in sides:
        assert side.alter("t", ("max.message.bytes", SET, "5"), ("compression.type", SET, "zstd"), kind=TOPIC) == 0
    compare(sides, "t", kind=TOPIC)


def test_all_changes_are_replaced_at_once_alike(sides: tuple[Side, Side]) -> None:
    for changes in ({"message.max.bytes": "9000000", "my.own": "x"}, {"node.id": "1"}, {"log.retention.ms": "soon"}, {}):
        theirs, ours = (side.replace(ONE, changes) for side in sides)
        assert ours == theirs, changes
        compare(sides, ONE)
    (theirs, ours) = (side.describe(ONE, "message.max.bytes")[1]["message.max.bytes"].source for side in sides)
    assert ours == theirs
