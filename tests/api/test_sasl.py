"""Clients log in: every mechanism, with and without TLS, blocking and asyncio, embedded and real brokers; and what a failure says."""

from __future__ import annotations

import asyncio
import logging
import pickle
import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import confluent_kafka
import pytest

import levada as lv
import levada.aio
from kafka_cluster import PASSWORD, USER, KafkaCluster
from levada.errors import SaslAuthenticationError, UnsupportedSaslMechanismError
from levada.net.sasl import scram
from levada.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from levada.testing import EmbeddedKafka

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL")
SALT = b"salt of a test"

SettingsFor = Callable[[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(users={USER: PASSWORD, "o=k,": "of o=k,", "\u00fcrsula": "p\u00e4ss \U0001f511"}) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(users={USER: PASSWORD}, security="SSL") as kafka:
        yield kafka


@pytest.fixture(scope="module", params=["embedded", *(pytest.param(name, marks=pytest.mark.kafka) for name in ("kafka44", "kafka39"))])
def settings_for(request: pytest.FixtureRequest) -> SettingsFor:
    """What USER's client needs to reach a listener of each broker by a mechanism."""
    if request.param == "embedded":
        kafkas = {"SASL_PLAINTEXT": request.getfixturevalue("kafka"), "SASL_SSL": request.getfixturevalue("secured")}
        return lambda listener, mechanism: kafkas[listener].settings_for(USER, mechanism)
    cluster: KafkaCluster = request.getfixturevalue(request.param)
    create_scram_users(cluster)
    login = {"sasl_username": USER, "sasl_password": PASSWORD}
    return lambda listener, mechanism: {**cluster.settings_for(listener), **login, "sasl_mechanism": mechanism}


def create_scram_users(cluster: KafkaCluster) -> None:
    with lv.KafkaClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        for mechanism, number in NUMBERS.items():
            key = scram.salted(mechanism, PASSWORD, SALT, 4096)
            wanted = ScramCredentialUpsertion(name=USER, mechanism=number, iterations=4096, salt=SALT, salted_password=key)
            answer = client.request(AlterUserScramCredentialsRequest(deletions=[], upsertions=[wanted]))
            assert [result.error_code for result in answer.results] == [0]


def names_topic(request: pytest.FixtureRequest) -> str:
    return f"sasl-{request.node.name.replace('[', '-').replace(']', '')}"


@pytest.mark.parametrize(("listener", "mechanism"), list(product(LISTENERS, MECHANISMS)))
def test_M_D6_a_user_logs_in(settings_for: SettingsFor, listener: str, mechanism: str, request: pytest.FixtureRequest) -> None:
    settings, topic = settings_for(listener, mechanism), names_topic(request)
    with lv.KafkaProducer(**settings) as producer:
        producer.send(topic, b"of alice").result()
    assert [record.value for record in lv.scan(topic, **settings)] == [b"of alice"]


def test_M_D6_a_user_logs_in_on_asyncio(settings_for: SettingsFor, request: pytest.FixtureRequest) -> None:
    async def run() -> list[bytes | None]:
        settings, topic = settings_for("SASL_SSL", "SCRAM-SHA-512"), names_topic(request)
        async with levada.aio.KafkaProducer(**settings) as producer:
            await (await producer.send(topic, b"of alice"))
        return [record.value async for record in levada.aio.scan(topic, **settings)]

    assert asyncio.run(run()) == [b"of alice"]


def told(settings: dict[str, Any], **other: Any) -> str:
    """Return what a user reads, who is refused: at once, and not after the time of the call."""
    begun = time.monotonic()
    with pytest.raises(SaslAuthenticationError) as error, lv.KafkaAdmin({**settings, **other}) as admin:
        admin.list_topics(timeout=20)
    assert time.monotonic() - begun < 10
    return str(error.value)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_M_D6_a_wrong_password_ends_the_call_with_the_brokers_words(settings_for: SettingsFor, mechanism: str) -> None:
    settings = settings_for("SASL_PLAINTEXT", mechanism)
    text = told(settings, sasl_password="guessed")
    reason = "Invalid username or password" if mechanism == "PLAIN" else f"invalid credentials with SASL mechanism {mechanism}"
    assert text.startswith(f"{settings['bootstrap_servers']}: {mechanism}: Authentication failed")
    assert reason in text
    assert text == told(settings, sasl_username="nobody"), "an unknown user reads the same"


def test_H15_a_mechanism_that_the_listener_has_not(kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    (listener,) = kafka.node._listeners.values()
    monkeypatch.setattr(listener.logins, "mechanisms", ["PLAIN"])
    expected = r"sasl\.mechanism=SCRAM-SHA-256: this listener offers PLAIN: "
    with pytest.raises(UnsupportedSaslMechanismError, match=expected), lv.KafkaAdmin(kafka.settings_for(USER)) as admin:
        admin.list_topics(timeout=20)


def test_H15_a_client_with_a_login_at_a_listener_without(embedded: EmbeddedKafka) -> None:
    login = {"sasl_mechanism": "PLAIN", "sasl_username": USER, "sasl_password": PASSWORD}
    settings = {"bootstrap_servers": embedded.bootstrap_servers, "security_protocol": "SASL_PLAINTEXT", **login}
    with pytest.raises(UnsupportedSaslMechanismError, match="this listener has no SASL"), lv.KafkaAdmin(settings) as admin:
        admin.list_topics(timeout=20)


def test_E4_before_its_login_a_client_may_do_nothing_else(kafka: EmbeddedKafka) -> None:
    expected = r"closed the connection at the first request: does this listener want a login \(SASL_PLAINTEXT\)\? yours: security\.protocol"
    plain = lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers)
    with pytest.raises(lv.errors.KafkaError, match=expected), plain as admin:
        admin.list_topics(timeout=1)


@pytest.mark.parametrize("user", ["o=k,", "\u00fcrsula"])
def test_M_D6_names_with_the_signs_of_scram_and_beyond_ascii(kafka: EmbeddedKafka, user: str) -> None:
    for mechanism in MECHANISMS:
        with lv.KafkaAdmin(kafka.settings_for(user, mechanism)) as admin:
            admin.list_topics()
            assert f"User:{user}" in {session.principal for session in kafka.node.sessions()}


def test_M_D14_nothing_weaker_than_what_is_configured_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedKafka(users={USER: PASSWORD}) as kafka:
        (listener,) = kafka.node._listeners.values()
        monkeypatch.setattr(listener.logins, "mechanisms", ["PLAIN"])
        with pytest.raises(UnsupportedSaslMechanismError), lv.KafkaAdmin(kafka.settings_for(USER, "SCRAM-SHA-512")) as admin:
            admin.list_topics(timeout=20)
        assert kafka.faults.requests["SaslHandshake"] > 0
        assert kafka.faults.requests["SaslAuthenticate"] == 0


def test_M_D14_a_client_of_tls_says_nothing_to_who_answers_without(kafka: EmbeddedKafka) -> None:
    before = dict(kafka.faults.requests)
    settings = {**kafka.settings_for(USER, "PLAIN"), "security_protocol": "SASL_SSL"}
    with pytest.raises(lv.errors.KafkaError), lv.KafkaAdmin(settings) as admin:
        admin.list_topics(timeout=0.3)
    assert dict(kafka.faults.requests) == before


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_another_client_logs_in_to_the_embedded_broker(kafka: EmbeddedKafka, mechanism: str) -> None:
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers, **login})
    producer.produce(f"of-another-{mechanism}", b"v")
    assert producer.flush(20) == 0
    assert [record.value for record in lv.scan(f"of-another-{mechanism}", kafka.settings_for(USER))] == [b"v"]


def test_M_D8_a_password_without_tls_is_warned_of(kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), lv.KafkaAdmin(kafka.settings_for(USER, "PLAIN")) as admin:
        admin.list_topics()
    assert [record.message for record in caplog.records if "can read the password" in record.message]


def test_sasl_jaas_config_as_java_has_it(kafka: EmbeddedKafka) -> None:
    jaas = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
    with lv.KafkaAdmin({**kafka.client_settings, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas}) as admin:
        admin.list_topics()


def test_M_D11_no_password_is_shown(kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture) -> None:
    planted = "planted-password"
    shown = []
    with caplog.at_level(logging.DEBUG):
        for mechanism in MECHANISMS:
            settings = {**kafka.settings_for(USER, mechanism), "sasl_password": planted}
            shown += [told(settings), repr(lv.config.AdminConfig.parse(settings))]
    assert planted not in "\n".join([*shown, caplog.text])


def test_an_error_with_a_code_is_the_same_after_a_pickle() -> None:
    error = SaslAuthenticationError("node 1: wrong password")
    error.persisted = lv.errors.Persisted.NO
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.code, again.reason, again.persisted) == (str(error), error.code, error.reason, error.persisted)
