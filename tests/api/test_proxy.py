"""Clients whose connections pass through a proxy: SOCKS5 and HTTP CONNECT, blocking and asyncio, with and without TLS and a login."""

from __future__ import annotations

import logging
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import levada as lv
from api_kit import Api, either_api
from invalid_peers import closed_port, serving, silent_server
from levada.errors import BootstrapError, ConfigError, KafkaError, ProxyAuthenticationError, TokenError
from levada.oauth import allow_token_endpoints
from levada.registry import Schema, SchemaRegistryClient
from levada.registry.errors import RegistryUnavailableError
from levada.testing import Authority, EmbeddedKafka, EmbeddedRegistry, EmbeddedTokenEndpoint
from proxies import TestProxy, free_port

USER, PASSWORD = "me", "s3cret:/@"
LOGIN = "me:s3cret%3A%2F%40"
SCHEMES = ("socks5", "socks5h", "http")
CALL_S = 1.5
INSIDE = "broker.inside"


@pytest.fixture(params=["blocking", "asyncio"])
def api(request: pytest.FixtureRequest) -> Iterator[Any]:
    yield from either_api(request)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def inside(**settings: Any) -> EmbeddedKafka:
    """A broker that advertises a name which only the proxy of a test can resolve."""
    kafka = EmbeddedKafka(**settings)
    for server in kafka._servers:
        server._advertised_host = INSIDE
    return kafka


@pytest.fixture(scope="module", params=["PLAINTEXT", "SASL_SSL"])
def kafka(request: pytest.FixtureRequest, authority: Authority) -> Iterator[EmbeddedKafka]:
    secured = {"security": authority.listener(INSIDE, "127.0.0.1"), "users": {"u": "p"}} if request.param == "SASL_SSL" else {}
    with inside(**secured) as kafka:
        yield kafka


@pytest.fixture
def proxy() -> Iterator[TestProxy]:
    with TestProxy(users={USER: PASSWORD}, names={INSIDE: "127.0.0.1"}) as proxy:
        yield proxy


def settings_at(kafka: EmbeddedKafka, authority: Authority) -> dict[str, Any]:
    if not kafka._users:
        return kafka.client_settings
    return {**kafka.settings_for("u"), "ssl_truststore_certificates": authority.certificate}


def round_trip(api: Any, settings: dict[str, Any], topic: str) -> None:
    """Create a topic, write, and read in a group, with a client of each kind."""
    with api.KafkaAdmin(**settings) as admin:
        admin.create_topics([lv.NewTopic(topic, 1)])
    with api.KafkaProducer(**settings) as producer:
        for number in range(3):
            producer.send(topic, value=b"%d" % number)
        producer.flush()
    with api.KafkaConsumer(**settings, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        values: list[bytes] = []
        while len(values) < 3:
            values += [record.value for record in consumer.poll(1.0)]
        consumer.commit()
    assert values == [b"0", b"1", b"2"]


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
def test_all_clients_reach_brokers_whose_names_only_the_proxy_knows(
    api: Any, kafka: EmbeddedKafka, proxy: TestProxy, authority: Authority, scheme: str, request: pytest.FixtureRequest
) -> None:
    settings = {**settings_at(kafka, authority), "proxy_url": proxy.url(scheme, LOGIN)}
    round_trip(api, settings, f"t-{abs(hash(request.node.name))}")
    port = settings["bootstrap_servers"].rpartition(":")[2]
    assert set(proxy.asked) == {f"{INSIDE}:{port}"}
    assert set(proxy.logins) == {USER}


def test_socks5_has_names_looked_up_here_and_certificates_have_the_name(api: Any, proxy: TestProxy, authority: Authority) -> None:
    with EmbeddedKafka(security=authority.listener("localhost")) as kafka:
        for server in kafka._servers:
            server.node.advertise("localhost", kafka_port(kafka), "SSL")
        settings = {**authority.trust(), "bootstrap_servers": f"localhost:{kafka_port(kafka)}", "proxy_url": proxy.url("socks5", LOGIN)}
        round_trip(api, settings, "t")
        assert f"127.0.0.1:{kafka_port(kafka)}" in proxy.asked
        assert not [asked for asked in proxy.asked if "localhost" in asked]


def kafka_port(kafka: EmbeddedKafka) -> int:
    return int(kafka.bootstrap_servers.rpartition(":")[2])


def test_a_certificate_has_to_have_the_name_of_the_broker_and_not_of_the_proxy(proxy: TestProxy, authority: Authority) -> None:
    with inside(security=authority.listener("127.0.0.1")) as kafka:
        text = failure({**kafka.client_settings, **authority.trust(), "proxy_url": proxy.url("socks5h", LOGIN)})
    assert f"{INSIDE}:" in text
    assert "its certificate is not accepted" in text


def failure(settings: dict[str, Any], kind: type[KafkaError] = KafkaError, api: Any = lv) -> str:
    """The text of the error of a call, which comes in time and has no password in it."""
    began = time.monotonic()
    with pytest.raises(kind) as raised, api.KafkaAdmin(**settings) as admin:
        admin.list_topics(timeout=CALL_S)
    assert time.monotonic() - began < CALL_S + 2
    text = str(raised.value)
    assert "s3cret" not in text
    assert len(text) < 700
    return text


def test_a_proxy_that_cannot_be_reached(api: Any) -> None:
    dead = closed_port()
    text = failure({"bootstrap_servers": "broker.inside:9092", "proxy_url": f"socks5h://{LOGIN}@{dead}"}, BootstrapError, api)
    assert f"broker.inside:9092  through the proxy socks5h://{dead}: connection refused: nothing listens there; is the proxy up" in text


def test_a_proxy_whose_name_does_not_resolve() -> None:
    text = failure({"bootstrap_servers": "b", "proxy_url": "http://proxy.invalid:3128"}, BootstrapError)
    assert "b:9092  through the proxy http://proxy.invalid:3128: a host name does not resolve (proxy.invalid: " in text


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("login", "words"), [("me:s3cret", "it refuses the user or the password"), ("", "it wants a login")])
def test_a_refused_login_ends_calls_at_once(api: Any, proxy: TestProxy, scheme: str, login: str, words: str) -> None:
    began = time.monotonic()
    settings = {"bootstrap_servers": "127.0.0.1:9", "proxy_url": proxy.url(scheme, login)}
    with api.KafkaAdmin(**settings) as admin, pytest.raises(ProxyAuthenticationError) as raised:
        admin.list_topics(timeout=30)
    assert time.monotonic() - began < 10
    text = str(raised.value)
    assert f"127.0.0.1:9: through the proxy {scheme}://127.0.0.1:{proxy.port}: {words}" in text
    assert "s3cret" not in text
    assert not raised.value.retriable


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
def test_a_broker_that_the_proxy_does_not_reach(proxy: TestProxy, scheme: str) -> None:
    dead = closed_port()
    text = failure({"bootstrap_servers": dead, "proxy_url": proxy.url(scheme, LOGIN)}, BootstrapError)
    words = "HTTP 502 Bad Gateway" if scheme == "http" else f"{dead} refused its connection: nothing listens there"
    assert f"{dead}  through the proxy {scheme}://127.0.0.1:{proxy.port}: " in text
    assert words in text
    proxy.refused.add(dead)
    text = failure({"bootstrap_servers": dead, "proxy_url": proxy.url(scheme, LOGIN)}, BootstrapError)
    assert ("HTTP 403 Forbidden" if scheme == "http" else "its rules do not allow a connection to") in text


def closing(connection: socket.socket) -> None:
    connection.recv(1000)


def mumbling(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.sendall(b"220 mail.example ESMTP\r\n" * 100_000)


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
@pytest.mark.parametrize(
    ("peer", "words"), [(closing, "it closed the connection"), (mumbling, "it answers with bytes that are not"), (silent_server, "")]
)
def test_a_server_that_is_no_proxy(api: Any, scheme: str, peer: Callable[[socket.socket], None], words: str) -> None:
    with serving(peer) as address:
        settings = {"bootstrap_servers": "broker.inside:9092", "proxy_url": f"{scheme}://{LOGIN}@{address}"}
        text = failure({**settings, "socket_connection_setup_timeout_ms": 300}, BootstrapError, api)
    assert f"broker.inside:9092  through the proxy {scheme}://{address}: " in text
    assert (words or "did not connect to the broker in time") in text


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_client_connects_again_after_the_proxy_was_down(api: Any, scheme: str) -> None:
    with EmbeddedKafka() as kafka, TestProxy() as proxy:
        kafka.create_topic("t")
        settings = {**kafka.client_settings, "proxy_url": proxy.url(scheme), "reconnect_backoff_max_ms": 100}
        with api.KafkaProducer(**settings) as producer, api.KafkaConsumer(**settings, auto_offset_reset="earliest") as consumer:
            consumer.assign([lv.TopicPartition("t", 0)])
            producer.send("t", value=b"before")
            producer.flush()
            assert [record.value for record in consumer.poll(10.0)] == [b"before"]
            proxy.stop()
            delivery = producer.send("t", value=b"after")
            assert consumer.poll(0.5) == []
            proxy.start()
            assert delivery.result(timeout=20).offset == 1
            assert [record.value for record in consumer.poll(20.0)] == [b"after"]


def test_no_password_is_shown(proxy: TestProxy, caplog: pytest.LogCaptureFixture) -> None:
    settings: dict[str, Any] = {"bootstrap_servers": closed_port(), "proxy_url": proxy.url("socks5h", LOGIN)}
    with caplog.at_level(logging.DEBUG), lv.KafkaAdmin(**settings) as admin, pytest.raises(BootstrapError):
        admin.list_topics(timeout=0.5)
    assert proxy.asked
    assert "s3cret" not in caplog.text + repr(admin)


# The registry, and endpoints for tokens


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_registrys_client_uses_its_own_proxy(proxy: TestProxy, scheme: str) -> None:
    quick: dict[str, Any] = {"retries_wait_ms": 10, "retries_max_wait_ms": 20}
    with EmbeddedRegistry() as server:
        with SchemaRegistryClient(schema_registry_url=server.url, proxy_url=proxy.url(scheme, LOGIN)) as registry:
            assert registry.register_schema("orders-value", Schema('"int"')) == 1
            assert registry.get_schema(1) == Schema('"int"')
        assert len(proxy.asked) == 1, "the connection is used again"
        wrong: dict[str, Any] = {"schema_registry_url": server.url, "proxy_url": proxy.url(scheme, "me:s3cret"), **quick}
        with SchemaRegistryClient(**wrong) as registry, pytest.raises(RegistryUnavailableError) as raised:
            registry.get_subjects()
    assert f"through the proxy {scheme}://127.0.0.1:{proxy.port}: it refuses the user or the password" in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_a_registry_with_tls_behind_a_proxy_has_its_own_name_verified(proxy: TestProxy, authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(authority.certificate)
    context = authority_context(authority, INSIDE)
    with EmbeddedRegistry(ssl_context=context) as server:
        port = server.url.rpartition(":")[2].strip("/")
        settings: dict[str, Any] = {"ssl_ca_location": str(tmp_path / "ca.pem"), "proxy_url": proxy.url("http", LOGIN), "max_retries": 0}
        with SchemaRegistryClient(schema_registry_url=f"https://{INSIDE}:{port}", **settings) as registry:
            assert registry.register_schema("a", Schema('"int"')) == 1
        with (
            SchemaRegistryClient(schema_registry_url=f"https://127.0.0.1:{port}", **settings) as registry,
            pytest.raises(RegistryUnavailableError, match="its certificate is not trusted"),
        ):
            registry.get_subjects()


def authority_context(authority: Authority, *names: str) -> Any:
    from levada.net.tls.context import TlsSettings, server_context

    tls = authority.listener(*names)
    return server_context(TlsSettings(keystore_certificate_chain=tls.certificate_chain, keystore_key=tls.key), client_auth="none")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_token_endpoint_has_a_proxy_of_its_own(proxy: TestProxy, scheme: str) -> None:
    with EmbeddedTokenEndpoint({"alice": "wonder"}) as tokens, EmbeddedKafka(oauth=tokens.validator()) as kafka:
        allow_token_endpoints([tokens.url])
        try:
            settings = {**kafka.client_settings, **tokens.settings_for("alice")}
            with lv.KafkaAdmin({**settings, "sasl_oauthbearer_token_endpoint_proxy_url": proxy.url(scheme, LOGIN)}) as admin:
                admin.list_topics()
            assert [asked for asked in proxy.asked if asked in tokens.url], "the endpoint only, not the broker"
            assert len(proxy.asked) == 1
            wrong = {**settings, "sasl_oauthbearer_token_endpoint_proxy_url": proxy.url(scheme, "me:s3cret")}
            with lv.KafkaAdmin(wrong) as admin, pytest.raises(KafkaError, match="it refuses the user or the password") as raised:
                admin.list_topics(timeout=CALL_S)
            assert isinstance(raised.value, TokenError | BootstrapError)
            assert "s3cret" not in str(raised.value)
        finally:
            allow_token_endpoints(None)


@pytest.mark.kafka
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
def test_a_real_kafka_behind_a_proxy(kafka44: Any, proxy: TestProxy, scheme: str, listener: str) -> None:
    settings = {"bootstrap_servers": kafka44.bootstrap_servers} if listener == "PLAINTEXT" else kafka44.settings_for(listener)
    round_trip(Api(), {**settings, "proxy_url": proxy.url(scheme, LOGIN)}, f"proxied-{scheme}-{listener}")
    assert proxy.asked


# Proxies that people run


@contextmanager
def running(port: int, *command: str) -> Iterator[None]:
    """Run a proxy program on a port, if it is installed."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 10
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert time.monotonic() < deadline, f"{command[0]} does not listen"
                    time.sleep(0.05)
            yield
        finally:
            process.terminate()
            process.wait(10)


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_microsocks(api: Any, scheme: str) -> None:
    port = free_port()
    with running(port, "microsocks", "-i", "127.0.0.1", "-p", str(port), "-u", USER, "-P", "s3cret"), EmbeddedKafka() as kafka:
        url = f"{scheme}://me:s3cret@127.0.0.1:{port}"
        round_trip(api, {**kafka.client_settings, "proxy_url": url}, "t")
        refused = failure({**kafka.client_settings, "proxy_url": url.replace("me:", "you:")}, ProxyAuthenticationError, api)
        assert "it refuses the user or the password" in refused
        assert "refused its connection" in failure({"bootstrap_servers": closed_port(), "proxy_url": url}, BootstrapError, api)


def test_tinyproxy(api: Any, tmp_path: Path) -> None:
    port = free_port()
    with EmbeddedKafka() as kafka:
        allowed = kafka.bootstrap_servers.rpartition(":")[2]
        lines = [f"Port {port}", "Listen 127.0.0.1", "Allow 127.0.0.1", f"ConnectPort {allowed}", f"BasicAuth {USER} s3cret"]
        (tmp_path / "tinyproxy.conf").write_text("\n".join([*lines, f'LogFile "{tmp_path}/log"', ""]))
        with running(port, "tinyproxy", "-d", "-c", str(tmp_path / "tinyproxy.conf")):
            url = f"http://me:s3cret@127.0.0.1:{port}"
            round_trip(api, {**kafka.client_settings, "proxy_url": url}, "t")
            refused = failure({**kafka.client_settings, "proxy_url": url.replace("me:", "you:")}, KafkaError, api)
            assert f"through the proxy http://127.0.0.1:{port}: it refuses" in refused
            assert "HTTP 403" in failure({"bootstrap_servers": closed_port(), "proxy_url": url}, BootstrapError, api)


def test_dante(api: Any, tmp_path: Path) -> None:
    port = free_port()
    rules = ["clientmethod: none", "socksmethod: none", "client pass { from: 127.0.0.0/8 to: 0.0.0.0/0 }"]
    with EmbeddedKafka() as kafka:
        allowed = kafka.bootstrap_servers.rpartition(":")[2]
        rules += [f"socks pass {{ from: 127.0.0.0/8 to: 127.0.0.0/8 port = {allowed} }}", "socks block { from: 0.0.0.0/0 to: 0.0.0.0/0 }"]
        head = [f"logoutput: {tmp_path}/log", f"internal: 127.0.0.1 port = {port}", "external: lo"]
        (tmp_path / "danted.conf").write_text("\n".join([*head, *rules, ""]))
        with running(port, "danted", "-f", str(tmp_path / "danted.conf"), "-p", str(tmp_path / "pid")):
            url = f"socks5h://127.0.0.1:{port}"
            round_trip(api, {**kafka.client_settings, "proxy_url": url}, "t")
            assert "its rules do not allow" in failure({"bootstrap_servers": closed_port(), "proxy_url": url}, BootstrapError, api)


# Settings


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("proxy:1080", "expected socks5://, socks5h:// or http://"),
        ("ftp://proxy:1", "expected socks5://, socks5h:// or http://"),
        ("socks://proxy", "name the version: socks5:// or socks5h://"),
        ("socks4://proxy", "only version 5 of SOCKS is supported"),
        ("https://proxy:443", "TLS to the proxy itself is not supported"),
        ("http://me:s3cret@proxy", "a proxy with http:// needs a port"),
        ("http://me:s3cret/x@proxy:3128", "write special characters of a password as in %2F"),
        ("socks5://me:s3cret#x@proxy:1080", "write special characters of a password as in %2F"),
        ("socks5://me:s3cret@proxy:1080/path", "and nothing behind"),
        ("socks5://me:s3cret@:1080", "expected socks5://"),
        ("socks5://:s3cret@proxy", "has a password without a user"),
        (f"socks5://me:{'s3cret' * 50}@proxy", "up to 255 bytes each"),
        ("http://a%3Ab:s3cret@proxy:1", "a user with a colon cannot log in"),
        ("http://proxy:99999", "is no URL"),
        (5, "expected socks5://, socks5h:// or http://, then host:port, or user:password@host:port, got int"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_when_the_client_is_made(url: Any, text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        lv.KafkaProducer(bootstrap_servers="a", proxy_url=url)
    assert str(raised.value).startswith("'proxy.url': ")
    assert text in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_names_are_looked_up_here_or_by_the_proxy() -> None:
    canonical: dict[str, Any] = {"bootstrap_servers": "localhost", "client_dns_lookup": "resolve_canonical_bootstrap_servers_only"}
    with pytest.raises(ConfigError, match=r"looks names up here, and 'proxy\.url' has the proxy do that"):
        lv.KafkaAdmin(**canonical, proxy_url="socks5h://p")
    lv.KafkaAdmin(**canonical, proxy_url="socks5://p").close()
