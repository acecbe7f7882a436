"""Clients and brokers over TLS: blocking and asyncio, embedded and real, and what users read when it does not come about."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import levada as lv
import levada.aio
from levada.errors import BootstrapError, SslAuthenticationError
from levada.testing import Authority, EmbeddedKafka

RECORDS = 2_000


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(security="SSL", group_initial_rebalance_delay_ms=0) as kafka:
        yield kafka


@pytest.fixture(params=["embedded", pytest.param("kafka44", marks=pytest.mark.kafka), pytest.param("kafka39", marks=pytest.mark.kafka)])
def settings(request: pytest.FixtureRequest, kafka: EmbeddedKafka) -> dict[str, Any]:
    """What a client needs to reach each broker's TLS listener."""
    return kafka.client_settings if request.param == "embedded" else dict(request.getfixturevalue(request.param).settings_for("SSL"))


def topic_for(request: pytest.FixtureRequest) -> str:
    return f"tls-{request.node.name.replace('[', '-').replace(']', '')}"


def test_M_D1_records_travel_both_ways(settings: dict[str, Any], request: pytest.FixtureRequest) -> None:
    topic = topic_for(request)
    with lv.KafkaProducer(**settings) as producer:
        for number in range(RECORDS):
            producer.send(topic, b"%d" % number, partition=0)
        producer.send(topic, bytes(900_000), partition=0).result()
    with lv.KafkaConsumer(**settings, auto_offset_reset="earliest", group_id=f"{topic}-group") as consumer:
        consumer.subscribe([topic])
        values: list[bytes | None] = []
        while len(values) <= RECORDS:
            values += [record.value for record in consumer.poll(10)]
    assert values == [*(b"%d" % number for number in range(RECORDS)), bytes(900_000)]
    assert lv.scan(topic, **settings).to_table().num_rows == RECORDS + 1


def test_M_D1_records_travel_both_ways_on_asyncio(settings: dict[str, Any], request: pytest.FixtureRequest) -> None:
    topic = topic_for(request)

    async def run() -> list[bytes | None]:
        async with levada.aio.KafkaProducer(**settings) as producer:
            for number in range(RECORDS):
                await producer.send(topic, b"%d" % number, partition=0)
            await producer.flush()
        async with levada.aio.KafkaConsumer(**settings, auto_offset_reset="earliest") as consumer:
            consumer.assign([lv.TopicPartition(topic, 0)])
            values: list[bytes | None] = []
            while len(values) < RECORDS:
                values += [record.value for record in await consumer.poll(10)]
        return values

    assert asyncio.run(run()) == [b"%d" % number for number in range(RECORDS)]


def test_another_client_speaks_tls_to_the_embedded_broker(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text(kafka.client_settings["ssl_truststore_certificates"])
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "security.protocol": "SSL", "ssl.ca.location": str(authority)}
    producer = confluent_kafka.Producer(settings)
    errors: list[object] = []
    for number in range(100):
        producer.produce("of-another", b"%d" % number, callback=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    assert errors == [None] * 100
    ours = {**settings, "ssl.ca.location": str(authority)}
    assert lv.scan("of-another", ours).to_table().num_rows == 100


def told(expected: type[Exception], settings: dict[str, Any], timeout: float = 5) -> str:
    """Return what a user reads, who asks for something."""
    with pytest.raises(expected) as error, lv.KafkaAdmin(**settings) as admin:
        admin.list_topics(timeout=timeout)
    return str(error.value)


def test_M_D2_an_authority_that_is_not_trusted_ends_the_call_at_once(kafka: EmbeddedKafka) -> None:
    begun = time.monotonic()
    text = told(SslAuthenticationError, {**kafka.client_settings, **Authority().trust()})
    assert text.startswith(f"{kafka.bootstrap_servers}: its certificate is not accepted: no authority that is trusted here has signed it")
    assert time.monotonic() - begun < 4, "it is not retried"


def test_M_D2_a_producer_is_told_why_its_records_are_not_sent(kafka: EmbeddedKafka) -> None:
    settings = {**kafka.client_settings, "ssl_truststore_certificates": Authority().certificate}
    with lv.KafkaProducer(**settings, max_block_ms=5_000) as producer:
        error = producer.send("t", b"v").exception()
    assert isinstance(error, SslAuthenticationError)


def test_M_D4_a_broker_is_verified_by_the_host_in_metadata() -> None:
    with EmbeddedKafka(security=(authority := Authority()).listener("127.0.0.1")) as kafka:
        kafka.node.advertise("localhost", int(kafka.bootstrap_servers.rpartition(":")[2]))
        settings = {"bootstrap_servers": f"127.0.0.1:{kafka.bootstrap_servers.rpartition(':')[2]}", **authority.trust()}
        with lv.KafkaProducer(**settings, request_timeout_ms=1_000, delivery_timeout_ms=5_000, linger_ms=0) as producer:
            error = producer.send("t", b"v").exception()
    assert "it is for 127.0.0.1, and not for 'localhost'" in str(error)


def test_M_D3_accepting_any_name_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedKafka(security=(authority := Authority()).listener("another.example")) as kafka:
        settings = {**kafka.client_settings, **authority.trust()}
        assert "it is for another.example, and not for '127.0.0.1'" in told(SslAuthenticationError, settings)
        with caplog.at_level(logging.WARNING), lv.KafkaAdmin(**settings, ssl_dangerously_accept_any_host_name=True) as admin:
            admin.list_topics()
    assert any("can pass for a broker" in record.message for record in caplog.records)


def test_M_D5_client_certificates() -> None:
    authority = Authority()
    with EmbeddedKafka(security=authority.listener(client_auth="required")) as kafka:
        with lv.KafkaAdmin({**kafka.client_settings, **authority.trust(), **authority.client("reader")}) as admin:
            admin.list_topics()
        unnamed = told(SslAuthenticationError, {**kafka.client_settings, **authority.trust()})
        assert "it wants a certificate of the client; set ssl.keystore.location" in unnamed
        stranger = {**kafka.client_settings, **authority.trust(), **Authority().client()}
        assert "it does not trust who signed the certificate" in told(SslAuthenticationError, stranger)


def test_a_plaintext_client_at_a_tls_port(kafka: EmbeddedKafka) -> None:
    assert "a listener that expects TLS or SASL" in told(BootstrapError, {"bootstrap_servers": kafka.bootstrap_servers}, 0.5)


def test_a_tls_client_at_a_plaintext_port(embedded: EmbeddedKafka) -> None:
    text = told(BootstrapError, {"bootstrap_servers": embedded.bootstrap_servers, "security_protocol": "SSL"}, 0.5)
    assert "it closed the connection during the TLS handshake: is this a listener for PLAINTEXT or SASL_PLAINTEXT?" in text


def test_a_context_of_the_users_own(kafka: EmbeddedKafka) -> None:
    context = ssl.create_default_context(cadata=kafka.client_settings["ssl_truststore_certificates"])
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers, security_protocol="SSL", ssl_context=context) as admin:
        admin.list_topics()


def test_M_D11_no_secret_is_shown(kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture) -> None:
    planted = "planted-secret"
    client = Authority().client()
    sealed = client["ssl_keystore_key"].splitlines()[1]
    settings = {**kafka.client_settings, **client, "ssl_key_password": planted, **Authority().trust()}
    with caplog.at_level(logging.DEBUG):
        text = told(SslAuthenticationError, settings)
        config = repr(lv.config.AdminConfig.parse(settings))
    shown = "\n".join([text, config, caplog.text])
    assert planted not in shown
    assert sealed not in shown
