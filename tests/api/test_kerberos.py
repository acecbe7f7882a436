"""Clients log in with Kerberos tickets: blocking and asyncio, embedded and real brokers, and another client beside ours."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import aiokafka
import pytest

import levada as lv
import levada.aio
from kafka_cluster import KafkaCluster
from kdc import REALM, Kdc, running
from levada.errors import ConfigError, SaslAuthenticationError, TokenError
from levada.testing import EmbeddedKafka

BROKER = "kafka/127.0.0.1"
_MODULE = "com.sun.security.auth.module.Krb5LoginModule required"

pytestmark = pytest.mark.xdist_group("kerberos")


class Starts(Protocol):
    def __call__(self, version: str, **arguments: Any) -> AbstractContextManager[KafkaCluster]: ...


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc]:
    with running() as kdc:
        yield kdc


@pytest.fixture(scope="module")
def embedded_kafka(kdc: Kdc) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(keytab=kdc.keytab(BROKER)) as kafka:
        yield kafka


@pytest.fixture(scope="module", params=["embedded", *(pytest.param(version, marks=pytest.mark.kafka) for version in ("4.4.0", "3.9.2"))])
def servers(request: pytest.FixtureRequest, kdc: Kdc, start_real_kafka: Starts) -> Iterator[dict[str, Any]]:
    """How a client reaches each broker, but for its ticket."""
    if request.param == "embedded":
        yield {**request.getfixturevalue("embedded_kafka").client_settings, "sasl_mechanism": "GSSAPI"}
        return
    keys = f'{_MODULE} useKeyTab=true storeKey=true keyTab="{kdc.keytab(BROKER)}" principal="{BROKER}@{REALM}";'
    properties = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": keys,
        "listener.name.sasl_ssl.gssapi.sasl.jaas.config": keys,
    }
    arguments = [f"-Djava.security.krb5.conf={kdc.config}", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    authority = lv.testing.Authority()
    with start_real_kafka(request.param, authority=authority, properties=properties, jvm_args=arguments) as cluster:
        yield {**cluster.settings_for("SASL_SSL"), "sasl_mechanism": "GSSAPI"}


@pytest.fixture
def settings(servers: dict[str, Any], kdc: Kdc) -> dict[str, Any]:
    return {**servers, "sasl_kerberos_keytab": str(kdc.keytab("alice"))}


def round_trip(settings: dict[str, Any], topic: str) -> list[bytes | None]:
    with lv.KafkaProducer(**settings) as producer:
        producer.send(topic, b"of alice").result()
    return [record.value for record in lv.scan(topic, **settings)]


def told(settings: dict[str, Any], error: type[Exception] = SaslAuthenticationError) -> str:
    begun = time.monotonic()
    with pytest.raises(error) as raised, lv.KafkaAdmin(settings) as admin:
        admin.list_topics(timeout=20)
    assert time.monotonic() - begun < 10
    return str(raised.value)


def test_M_D6_a_user_logs_in_with_a_keytab(settings: dict[str, Any]) -> None:
    assert round_trip(settings, "keytab") == [b"of alice"]


def test_M_D6_a_user_logs_in_with_a_keytab_on_asyncio(settings: dict[str, Any]) -> None:
    async def run() -> list[bytes | None]:
        async with levada.aio.KafkaProducer(**settings) as producer:
            await (await producer.send("asyncio", b"of alice"))
        return [record.value async for record in levada.aio.scan("asyncio", **settings)]

    assert asyncio.run(run()) == [b"of alice"]


def test_M_D6_a_user_logs_in_with_the_tickets_of_kinit(
    servers: dict[str, Any], kdc: Kdc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    assert "no tickets of kinit: No Kerberos credentials available" in told(servers)
    subprocess.run(["kinit", "-k", "-t", kdc.keytab("alice"), f"alice@{REALM}"], check=True)
    assert round_trip(servers, "kinit") == [b"of alice"]


def test_M_D6_settings_of_a_job_of_the_spark_connector(servers: dict[str, Any], kdc: Kdc) -> None:
    keys = f'{_MODULE} useKeyTab=true storeKey=true useTicketCache=false serviceName="kafka"'
    jaas = f'{keys} keyTab="{kdc.keytab("alice")}" principal="alice@{REALM}";'
    assert round_trip({**servers, "sasl.jaas.config": jaas}, "jaas") == [b"of alice"]


def test_M_D6_a_service_that_nobody_knows(settings: dict[str, Any]) -> None:
    text = told({**settings, "sasl_kerberos_service_name": "zookeeper"})
    assert f"{settings['bootstrap_servers']}: GSSAPI: " in text
    assert "zookeeper/127.0.0.1@LEVADA.TEST not found in Kerberos database" in text


def test_M_D6_a_principal_whose_key_is_another(settings: dict[str, Any], kdc: Kdc) -> None:
    kdc.keytab("bob")
    text = told({**settings, "sasl_kerberos_principal": f"bob@{REALM}"})
    assert f"no keys in {settings['sasl_kerberos_keytab']} of bob@{REALM}: " in text


def test_M_D6_who_logs_in_has_the_first_part_of_its_principal_as_name(embedded_kafka: EmbeddedKafka, kdc: Kdc) -> None:
    settings = embedded_kafka.settings_for(f"etl/node7@{REALM}", "GSSAPI")
    with lv.KafkaAdmin({**settings, "sasl_kerberos_keytab": str(kdc.keytab("etl/node7"))}) as admin:
        admin.list_topics()
        assert "User:etl" in {session.principal for session in embedded_kafka.connections()}


def test_M_D6_a_session_is_renewed_with_tickets(kdc: Kdc) -> None:
    with EmbeddedKafka(keytab=kdc.keytab(BROKER), connections_max_reauth_ms=300) as kafka:
        settings = {**kafka.client_settings, "sasl_mechanism": "GSSAPI", "sasl_kerberos_keytab": str(kdc.keytab("alice"))}
        with lv.KafkaAdmin(settings) as admin:
            begun = time.monotonic()
            while time.monotonic() - begun < 1:
                admin.list_topics()
            to_the_address, to_the_node = 1, 2
            assert {session.connection_id for session in kafka.connections()} <= {to_the_address, to_the_node}
            assert kafka.faults.requests["SaslHandshake"] > 4


def test_M_D6_a_ticket_server_that_is_down_is_asked_again(kdc: Kdc, embedded_kafka: EmbeddedKafka) -> None:
    settings = {**embedded_kafka.client_settings, "sasl_mechanism": "GSSAPI", "sasl_kerberos_keytab": str(kdc.keytab("carol"))}
    kdc.stop()
    try:
        with pytest.raises((TokenError, lv.errors.TimeoutError), match="Cannot contact any KDC"), lv.KafkaAdmin(settings) as admin:
            admin.list_topics(timeout=3)
    finally:
        kdc.start()
    with lv.KafkaAdmin(settings) as admin:
        admin.list_topics()


def test_M_D6_aiokafka_logs_in_as_well(servers: dict[str, Any], kdc: Kdc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    protocol, authority = servers["security_protocol"], servers.get("ssl_truststore_certificates")
    login: dict[str, Any] = {"security_protocol": protocol, "sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": "kafka"}
    if authority is not None:
        login["ssl_context"] = ssl.create_default_context(cadata=authority)

    async def run() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=servers["bootstrap_servers"], **login) as producer:
            await producer.send_and_wait("of-aiokafka", b"v")

    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kdc.keytab("alice")))
    # Not in memory: a ticket of a ticket server that is gone would be used again.
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    asyncio.run(run())
    assert [record.value for record in lv.scan("of-aiokafka", **servers)] == [b"v"]


def test_M_D6_a_keytab_that_is_not_there_is_a_mistake_in_the_configuration(kdc: Kdc, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:1", "security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}
    with pytest.raises(ConfigError, match=r"'sasl\.kerberos\.keytab': .*none is no file that can be read"):
        lv.KafkaAdmin({**settings, "sasl_kerberos_keytab": str(tmp_path / "none")})
    with pytest.raises(ConfigError, match=r"the keytab .*none cannot be used: "):
        EmbeddedKafka(keytab=tmp_path / "none")


@pytest.mark.parametrize(
    ("name", "text"), [("fifo", "no file that can be read"), ("zero\0byte", "has no zero byte"), ("folder", "no file that can be read")]
)
def test_M_D6_a_keytab_that_is_no_file_is_a_mistake_in_the_configuration(kdc: Kdc, tmp_path: Path, name: str, text: str) -> None:
    # Kerberos would wait for the other end of a FIFO.
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    settings = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}
    with pytest.raises(ConfigError, match=text):
        lv.KafkaAdmin({**settings, "sasl.kerberos.keytab": str(tmp_path / name)})
    with pytest.raises(ConfigError, match="no file that can be read"):
        EmbeddedKafka(keytab=tmp_path / name)
