"""Several listeners of one broker: each has its address, its protocol and its logins."""

from __future__ import annotations

from typing import Any

import pytest

import levada as lv
from broker_kit import Bench
from levada.broker.network.connection import Listener
from levada.errors import ConfigError
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.metadata import MetadataRequest
from levada.testing import EmbeddedKafka
from levada.testing.listening import Listening
from login_kit import logins_for


@pytest.fixture
def bench() -> Bench:
    listeners = [Listener("INSIDE"), Listener("OUTSIDE"), Listener("LOGINS", "SASL_PLAINTEXT", logins_for({}))]
    bench = Bench(listeners=listeners, host="inside", port=1)
    bench.node.advertise("outside", 2, "OUTSIDE")
    return bench


def test_a_client_is_told_the_addresses_of_the_listener_it_came_by(bench: Bench) -> None:
    for listener, address in {"": ("inside", 1), "INSIDE": ("inside", 1), "OUTSIDE": ("outside", 2)}.items():
        client = bench.client(listener)
        (broker,) = client.ask(MetadataRequest(topics=[]), 9).brokers
        coordinator = client.ask(FindCoordinatorRequest(key="g"), 3)
        assert (broker.host, broker.port) == (coordinator.host, coordinator.port) == address


def test_logins_are_those_of_the_listener(bench: Bench) -> None:
    client = bench.client("LOGINS")
    client.send(MetadataRequest(topics=[]), 9)
    assert client.closed
    assert [session.login for session in bench.node.sessions()] == []


def test_every_listener_serves_the_same_records() -> None:
    with EmbeddedKafka(listeners=["PLAINTEXT", "SASL_PLAINTEXT"], users={"alice": "secret"}) as kafka:
        settings = kafka.settings_for("alice")
        with lv.KafkaProducer(**kafka.client_settings) as producer, lv.KafkaAdmin(**settings) as admin:
            producer.send("t", b"v").result()
            assert admin.list_topics() == ["t"]
            listeners = {(session.listener.name, session.principal) for session in kafka.node.sessions()}
        assert [record.value for record in lv.scan("t", **settings)] == [b"v"]
        assert settings["bootstrap_servers"] != kafka.bootstrap_servers
        assert listeners == {("PLAINTEXT", "User:ANONYMOUS"), ("SASL_PLAINTEXT", "User:alice")}


def test_a_node_that_starts_again_has_its_old_addresses() -> None:
    with EmbeddedKafka(listeners={"A": "PLAINTEXT", "B": "PLAINTEXT"}) as kafka:
        before = [kafka.settings_at(name)["bootstrap_servers"] for name in ("A", "B")]
        kafka.stop_node(1)
        kafka.start_node(1)
        assert [kafka.settings_at(name)["bootstrap_servers"] for name in ("A", "B")] == before
        with lv.KafkaAdmin(bootstrap_servers=before[1]) as admin:
            assert [node.address for node in admin.describe_cluster().nodes] == [before[1]]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((["SASL_SLL"], None, False), "listener 'SASL_SLL': unknown protocol 'SASL_SLL'; did you mean 'SASL_SSL'?"),
        (("PLAINTEXT", None, False), "listeners is a list of protocols, or a mapping of names to protocols; got 'PLAINTEXT'"),
        (([], None, False), "listeners is a list of protocols"),
        ((["PLAINTEXT"], None, True), "logins are given, but no listener has them: PLAINTEXT"),
        ((["SASL_PLAINTEXT"], "SSL", True), "security is given, but no listener has TLS: SASL_PLAINTEXT"),
    ],
)
def test_listeners_that_contradict_the_other_arguments(arguments: Any, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        Listening(arguments[0], arguments[1], has_logins=arguments[2])
    assert str(error.value).startswith(told)


def test_a_listener_that_there_is_not() -> None:
    with (
        EmbeddedKafka(listeners=["PLAINTEXT"]) as kafka,
        pytest.raises(ConfigError, match="there is no listener 'SSL'; there are PLAINTEXT"),
    ):
        kafka.settings_at("SSL")


def test_without_listeners_there_is_one_as_security_and_users_say() -> None:
    assert list(Listening(None, None, has_logins=False).protocols) == ["PLAINTEXT"]
    assert list(Listening(None, None, has_logins=True).protocols) == ["SASL_PLAINTEXT"]
