"""Clients log in with tokens: of a function, of a token endpoint, of nobody; blocking and asyncio, embedded and real brokers."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

import levada as lv
import levada.aio
from kafka_cluster import SESSION_MS, TOKENS, USER, KafkaCluster
from levada.aio.connect import finish_in
from levada.credentials import BlockingStep, Exchange, SaslError
from levada.errors import ConfigError, SaslAuthenticationError, TokenError, UnsupportedSaslMechanismError
from levada.net.sasl import jwt
from levada.oauth import allow_token_endpoints
from levada.testing import Authority, EmbeddedKafka, EmbeddedTokenEndpoint, TokenIssuer
from levada.testing.tokens import TokenAnswer, jwks_validator
from odd_error import OddError

SECRET = "planted-client-secret"
EMBEDDED_SESSION_MS = 300
UNSECURED = f'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{USER}";'


@pytest.fixture(scope="module")
def tokens() -> Iterator[EmbeddedTokenEndpoint]:
    with EmbeddedTokenEndpoint({USER: SECRET, "bob": "s+/%"}) as tokens:
        yield tokens


@pytest.fixture(scope="module")
def signed(tokens: EmbeddedTokenEndpoint) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(oauth=tokens.validator()) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def unsecured() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(oauth="unsecured", users={USER: "p"}) as kafka:
        yield kafka


@pytest.fixture(autouse=True)
def allowed(tokens: EmbeddedTokenEndpoint) -> Iterator[None]:
    allow_token_endpoints([tokens.url])
    yield
    allow_token_endpoints(None)


@pytest.fixture
def settings(signed: EmbeddedKafka) -> dict[str, Any]:
    return {"bootstrap_servers": signed.bootstrap_servers, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}


@pytest.fixture(scope="module", params=["embedded", *(pytest.param(name, marks=pytest.mark.kafka) for name in ("kafka44", "kafka39"))])
def of_any_kafka(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What USER's client needs to reach a listener that believes unsigned tokens."""
    if request.param == "embedded":
        kafka: EmbeddedKafka = request.getfixturevalue("unsecured")
        return kafka.settings_for(USER, "OAUTHBEARER")
    cluster: KafkaCluster = request.getfixturevalue(request.param)
    return {**cluster.settings_for("SASL_SSL"), "sasl_mechanism": "OAUTHBEARER", "sasl_jaas_config": UNSECURED}


def use(settings: dict[str, Any], topic: str) -> None:
    with lv.KafkaProducer(**settings) as producer:
        producer.send(topic, b"of alice").result()
    assert [record.value for record in lv.scan(topic, **settings)] == [b"of alice"]


def test_M_D6_tokens_without_a_signature(of_any_kafka: dict[str, Any]) -> None:
    use(of_any_kafka, "unsigned")


def test_KIP255_a_function_gives_the_token(of_any_kafka: dict[str, Any]) -> None:
    called: list[str] = []

    def token() -> lv.OAuthToken:
        called.append(threading.current_thread().name)
        # Whole seconds: the broker's clock has milliseconds, and a token issued later in the same one is refused.
        now_s = int(time.time())
        return lv.OAuthToken(jwt.unsecured({"sub": USER, "iat": now_s, "exp": now_s + 600}), now_s + 600)

    settings = {name: value for name, value in of_any_kafka.items() if name != "sasl_jaas_config"}
    with lv.KafkaProducer(**settings, sasl_oauth_token_provider=token) as producer:
        producer.send("of-a-function", b"v").result()
        assert called == ["levada-login"], "once for all connections, in a thread of its own"


@pytest.fixture(scope="module", params=["embedded", *(pytest.param(name, marks=pytest.mark.kafka) for name in ("kafka44", "kafka39"))])
def of_signed(request: pytest.FixtureRequest) -> Iterator[tuple[dict[str, Any], TokenIssuer]]:
    """What a client needs to reach a listener that believes signed tokens, ends sessions soon, and who gives out the tokens."""
    if request.param == "embedded":
        issuer = TokenIssuer()
        with EmbeddedKafka(oauth=issuer.validator(), connections_max_reauth_ms=EMBEDDED_SESSION_MS) as kafka:
            yield {**kafka.client_settings, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}, issuer
        return
    cluster: KafkaCluster = request.getfixturevalue(request.param)
    assert cluster.tokens is not None
    yield {**cluster.settings_for(TOKENS), "sasl_mechanism": "OAUTHBEARER"}, cluster.tokens


def test_M_D6_signed_tokens(of_signed: tuple[dict[str, Any], TokenIssuer]) -> None:
    settings, issuer = of_signed
    use({**settings, "sasl_oauth_token_provider": lambda: issuer.issue(USER)}, "signed")
    text = told(SaslAuthenticationError, settings, sasl_oauth_token_provider=lambda: issuer.issue(USER, aud="others"))
    assert "OAUTHBEARER" in text
    assert "invalid_token" in text


@pytest.mark.parametrize("of_signed", ["embedded", pytest.param("kafka44", marks=pytest.mark.kafka)], indirect=True)
def test_M_D13_sessions_are_renewed_while_records_flow(
    of_signed: tuple[dict[str, Any], TokenIssuer], request: pytest.FixtureRequest
) -> None:
    settings, issuer = of_signed
    settings = {**settings, "sasl_oauth_token_provider": lambda: issuer.issue(USER)}
    session_ms = EMBEDDED_SESSION_MS if request.node.callspec.params["of_signed"] == "embedded" else SESSION_MS
    end = time.monotonic() + 1.5 * session_ms / 1000
    sent = 0
    with lv.KafkaProducer(**settings, linger_ms=0) as producer, lv.KafkaConsumer(**settings, auto_offset_reset="earliest") as consumer:
        producer.send("renewed", b"0").result()
        consumer.assign([lv.TopicPartition("renewed", 0)])
        read = []
        while time.monotonic() < end:
            sent += 1
            producer.send("renewed", b"%d" % sent).result()
            read += [record.value for record in consumer.poll(timeout=0.02)]
        read += [record.value for record in consumer.poll(timeout=5)] if len(read) <= sent else []
        ended = [client.metrics().value("connection-close-total") for client in (producer, consumer)]
    assert read == [b"%d" % number for number in range(sent + 1)]
    assert sum(ended) == 0, "no session's end has closed a connection"


def test_KIP768_a_token_endpoint_gives_the_token(signed: EmbeddedKafka, settings: dict[str, Any], tokens: EmbeddedTokenEndpoint) -> None:
    before = tokens.issued
    with lv.KafkaAdmin(**{**settings, **tokens.settings_for(USER)}, sasl_oauthbearer_scope="kafka write") as admin:
        admin.list_topics()
        assert {session.principal for session in signed.connections()} == {f"User:{USER}"}
    assert tokens.issued == before + 1
    assert tokens.forms[-1] == {"grant_type": "client_credentials", "scope": "kafka write"}


def test_KIP768_javas_way_to_write_it(settings: dict[str, Any], tokens: EmbeddedTokenEndpoint) -> None:
    module = "kafkashaded.org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    jaas = f'{module} required clientId="{USER}" clientSecret="{SECRET}" scope="s" extension_traceId="7";'
    handler = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
    java = {"sasl.jaas.config": jaas, "sasl.login.callback.handler.class": handler, "sasl.oauthbearer.token.endpoint.url": tokens.url}
    with lv.KafkaAdmin({**settings, **java}) as admin:
        admin.list_topics()


def test_KIP1139_an_assertion_is_given_for_a_token(settings: dict[str, Any], tmp_path: Any) -> None:
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    secret = serialization.BestAvailableEncryption(b"pass")
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)
    (tmp_path / "key.pem").write_bytes(private)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
    with EmbeddedTokenEndpoint({}, trusted_key=public) as tokens, EmbeddedKafka(oauth=tokens.validator()) as kafka:
        allow_token_endpoints([tokens.url])
        asked = {
            **settings,
            "bootstrap_servers": kafka.bootstrap_servers,
            "sasl_oauthbearer_token_endpoint_url": tokens.url,
            "sasl_oauthbearer_assertion_private_key_file": str(tmp_path / "key.pem"),
            "sasl_oauthbearer_assertion_private_key_passphrase": "pass",
            "sasl_oauthbearer_assertion_algorithm": "ES256",
            "sasl_oauthbearer_assertion_claim_sub": "signer",
            "sasl_oauthbearer_assertion_claim_aud": "kafka",
            "sasl_oauthbearer_assertion_claim_jti_include": True,
        }
        with lv.KafkaAdmin(**asked) as admin:
            admin.list_topics()
            assert {session.principal for session in kafka.connections()} == {"User:signer"}
        with pytest.raises(ConfigError, match=r"'sasl\.oauthbearer\.assertion\.private\.key\.passphrase': it does not open the key in "):
            lv.KafkaAdmin(**{**asked, "sasl_oauthbearer_assertion_private_key_passphrase": "wrong"})


def test_asyncio_awaits_a_coroutine_in_its_loop(settings: dict[str, Any], tokens: EmbeddedTokenEndpoint) -> None:
    async def run() -> None:
        ran_in: list[Any] = []

        async def token() -> str:
            await asyncio.sleep(0)
            ran_in.append(asyncio.get_running_loop())
            return tokens.issue("async")

        async with levada.aio.KafkaAdmin(**settings, sasl_oauth_token_provider=token) as admin:
            await admin.list_topics()
        assert ran_in == [asyncio.get_running_loop()]

    asyncio.run(run())


def test_asyncio_calls_a_plain_function_beside_its_loop(settings: dict[str, Any], tokens: EmbeddedTokenEndpoint) -> None:
    threads: list[str] = []

    def token() -> str:
        threads.append(threading.current_thread().name)
        return tokens.issue("plain")

    async def run() -> None:
        async with levada.aio.KafkaAdmin(**settings, sasl_oauth_token_provider=token) as admin:
            await admin.list_topics()

    asyncio.run(run())
    assert threads == ["levada-login"]


def test_a_coroutine_function_is_refused_by_the_blocking_clients(settings: dict[str, Any]) -> None:
    async def token() -> str:
        return ""

    with pytest.raises(ConfigError, match=r"coroutine function; only the clients of levada\.aio await it"):
        lv.KafkaAdmin(**settings, sasl_oauth_token_provider=token)


class PeersProvider:
    """As kafka-python and aiokafka want theirs."""

    def __init__(self, tokens: EmbeddedTokenEndpoint) -> None:
        self._tokens = tokens

    def token(self) -> str:
        return self._tokens.issue("peer")

    def extensions(self) -> dict[str, str]:
        return {"traceId": "1"}


def test_another_clients_provider_works(settings: dict[str, Any], tokens: EmbeddedTokenEndpoint) -> None:
    with lv.KafkaAdmin(**settings, sasl_oauth_token_provider=PeersProvider(tokens)) as admin:
        admin.list_topics()


def told(kind: type[Exception], settings: dict[str, Any], **other: Any) -> str:
    """Return what a user reads at once, and not after the time of the call."""
    begun = time.monotonic()
    with pytest.raises(kind) as error, lv.KafkaAdmin({**settings, **other}) as admin:
        admin.list_topics(timeout=20)
    assert time.monotonic() - begun < 10
    return str(error.value)


def test_M_D6_a_token_that_is_not_believed(settings: dict[str, Any], tokens: EmbeddedTokenEndpoint) -> None:
    for token in (jwt.unsecured({"sub": "a", "exp": time.time() + 60}), tokens.issue("a", aud="others"), "opaque"):
        text = told(SaslAuthenticationError, settings, sasl_oauth_token_provider=lambda token=token: token)
        assert "OAUTHBEARER" in text
        assert "invalid_token" in text
        assert token not in text


def test_a_validator_without_an_audience_takes_any(tokens: EmbeddedTokenEndpoint) -> None:
    validate = jwks_validator(tokens.jwks, issuer=tokens.issuer)
    for audience in ("kafka", "others", None):
        assert validate(tokens.issue("a", aud=audience), int(time.time() * 1000)).user == "a"
    with pytest.raises(SaslError):
        jwks_validator(tokens.jwks, audience="kafka")(tokens.issue("a", aud="others"), int(time.time() * 1000))


def test_a_form_without_an_assertion_gets_no_token() -> None:
    endpoint = EmbeddedTokenEndpoint({}, trusted_key="a key")
    assert endpoint.respond("", {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}).status == 401


def test_M_D6_a_token_of_a_megabyte() -> None:
    with EmbeddedKafka(oauth="unsecured", users={USER: "p"}, sasl_server_max_receive_size=2 << 20) as generous:
        log_in_with_a_large_token(generous)


def log_in_with_a_large_token(kafka: EmbeddedKafka) -> None:
    settings = {**kafka.settings_for(USER, "OAUTHBEARER")}
    settings.pop("sasl_jaas_config")
    token = jwt.unsecured({"sub": "large", "exp": time.time() + 60, "x": "y" * (1 << 20)})
    with lv.KafkaAdmin(**settings, sasl_oauth_token_provider=lambda: token) as admin:
        admin.list_topics()


def test_a_refusal_of_the_token_endpoint_ends_the_call(settings: dict[str, Any], tokens: EmbeddedTokenEndpoint) -> None:
    wrong = {**tokens.settings_for(USER), "sasl_oauthbearer_client_credentials_client_secret": "guessed"}
    text = told(TokenError, settings, **wrong)
    assert f"{tokens.url} answered with HTTP 401, 'invalid_client', 'unknown client'" in text
    assert "guessed" not in text


def test_an_endpoint_that_is_down_for_a_moment_is_asked_again(settings: dict[str, Any], tokens: EmbeddedTokenEndpoint) -> None:
    tokens.answers.extend([TokenAnswer(503), TokenAnswer(429)])
    with lv.KafkaAdmin({**settings, **tokens.settings_for(USER)}) as admin:
        admin.list_topics()


def test_an_endpoint_that_stays_down_is_named(settings: dict[str, Any], tokens: EmbeddedTokenEndpoint) -> None:
    tokens.answers.extend([TokenAnswer(503)] * 50)
    try:
        with (
            pytest.raises(lv.errors.BootstrapError, match=f"{tokens.url} answered with HTTP 503"),
            lv.KafkaAdmin({**settings, **tokens.settings_for(USER)}) as admin,
        ):
            admin.list_topics(timeout=0.4)
        assert len(tokens.answers) > 40, "not every attempt to connect asks again"
    finally:
        tokens.answers.clear()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (TokenAnswer(302, headers={"Location": "http://169.254.169.254/"}), "a redirect, which is not followed"),
        (TokenAnswer(body=b'{"access_token":"' + b"x" * (64 << 10) + b'"}'), "longer than 65536 bytes"),
        (TokenAnswer(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}), "a compressed body"),
        (TokenAnswer(body=b"<html>"), "without an access_token"),
        (TokenAnswer(body=b'{"access_token":7}'), "without an access_token"),
        (TokenAnswer(body=b'{"access_token":"a\\u0001b"}'), "cannot be sent"),
        (TokenAnswer(body=b'{"access_token":"t","expires_in":3600}', delay_s=0.1, trickle=True), "no answer within"),
        (TokenAnswer(body=b"{}", delay_s=0.3), "no answer within"),
    ],
)
def test_M_D9_answers_that_are_not_taken(
    settings: dict[str, Any], tokens: EmbeddedTokenEndpoint, answer: TokenAnswer, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "no answer" in why:
        monkeypatch.setattr("levada.oauth.endpoint.DEADLINE_S", 0.1)
    tokens.answers.extend([answer] * 20)
    try:
        with (
            pytest.raises((TokenError, lv.errors.BootstrapError), match=why),
            lv.KafkaAdmin({**settings, **tokens.settings_for(USER)}) as admin,
        ):
            admin.list_topics(timeout=0.4)
    finally:
        tokens.answers.clear()


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "http://169.254.169.254/latest", "ftp://a/b", "https://", "https://u:p@a/", "nonsense"]
)
def test_M_D9_addresses_that_are_not_asked(settings: dict[str, Any], tokens: EmbeddedTokenEndpoint, url: str) -> None:
    asked = {**settings, **tokens.settings_for(USER), "sasl_oauthbearer_token_endpoint_url": url}
    for allowed in (None, [tokens.url]):
        allow_token_endpoints(allowed)
        with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.token\.endpoint\.url") as error:
            lv.KafkaAdmin(**asked)
        assert SECRET not in str(error.value)


def test_M_D9_only_what_the_program_allows_is_asked(settings: dict[str, Any], tokens: EmbeddedTokenEndpoint) -> None:
    allow_token_endpoints(["https://elsewhere.test/token"])
    with pytest.raises(ConfigError, match="is not among the addresses that this program allows"):
        lv.KafkaAdmin({**settings, **tokens.settings_for(USER)})
    allow_token_endpoints(None)
    with pytest.raises(ConfigError, match="is not https"):
        lv.KafkaAdmin({**settings, **tokens.settings_for(USER)})


def test_M_D9_https_and_whom_to_trust(settings: dict[str, Any], tmp_path: Any) -> None:
    from levada.net.tls.context import TlsSettings, server_context

    authority = Authority()
    tls = authority.listener()
    context = server_context(TlsSettings(keystore_certificate_chain=tls.certificate_chain, keystore_key=tls.key), client_auth="none")
    (tmp_path / "ca.pem").write_text(authority.certificate)
    with EmbeddedTokenEndpoint({USER: SECRET}, ssl_context=context) as secured, EmbeddedKafka(oauth=secured.validator()) as kafka:
        allow_token_endpoints(None)
        asked = {**settings, **secured.settings_for(USER), "bootstrap_servers": kafka.bootstrap_servers}
        assert "certificate is not accepted" in told(TokenError, asked)
        with lv.KafkaAdmin(**asked, https_ca_location=str(tmp_path / "ca.pem")) as admin:
            admin.list_topics()
        (tmp_path / "empty.pem").touch()
        for wrong in ("empty.pem", "missing.pem"):
            with pytest.raises(ConfigError, match=rf"'https\.ca\.location': .*{wrong} cannot be read as certificates in PEM"):
                lv.KafkaAdmin(**asked, https_ca_location=str(tmp_path / wrong))


def test_M_D9_a_proxy_of_the_environment(settings: dict[str, Any], tokens: EmbeddedTokenEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing listens there: that it is asked shows.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(lv.errors.BootstrapError, match="refused"), lv.KafkaAdmin({**settings, **tokens.settings_for(USER)}) as admin:
        admin.list_topics(timeout=0.3)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with lv.KafkaAdmin({**settings, **tokens.settings_for(USER)}) as admin:
        admin.list_topics()


def test_a_function_that_raises_ends_the_call_with_its_error_as_the_cause(settings: dict[str, Any]) -> None:
    def token() -> str:
        raise KeyError(SECRET)

    with (
        pytest.raises(TokenError, match="the function that gives tokens raised KeyError") as error,
        lv.KafkaAdmin(**settings, sasl_oauth_token_provider=token) as admin,
    ):
        admin.list_topics(timeout=20)
    assert SECRET not in str(error.value)
    assert isinstance(error.value.__cause__, KeyError)


def test_a_function_that_would_end_the_program_ends_the_call(settings: dict[str, Any]) -> None:
    def token() -> str:
        raise SystemExit(1)

    with (
        pytest.raises(TokenError, match="the function that gives tokens raised SystemExit") as error,
        lv.KafkaAdmin(**settings, sasl_oauth_token_provider=token) as admin,
    ):
        admin.list_topics(timeout=20)
    assert isinstance(error.value.__cause__, SystemExit)


def test_asyncio_an_error_of_a_coroutine_is_the_programs(settings: dict[str, Any]) -> None:
    async def token() -> str:
        raise RuntimeError("mine")

    async def run() -> None:
        async with levada.aio.KafkaAdmin(**settings, sasl_oauth_token_provider=token) as admin:
            await admin.list_topics(timeout=20)

    with pytest.raises(TokenError, match="the function that gives tokens raised RuntimeError") as error:
        asyncio.run(run())
    assert str(error.value.__cause__) == "mine"


def test_a_helper_of_a_loop_that_has_ended_says_so() -> None:
    async def token() -> str:
        return "t"

    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(lv.errors.ClosedError, match="the event loop ended before a token was fetched"):
        finish_in(loop)(token())


def test_a_function_that_never_returns_is_not_waited_for_for_ever(settings: dict[str, Any]) -> None:
    asked = threading.Event()
    end = threading.Event()

    def token() -> str:
        asked.set()
        end.wait()
        return ""

    try:
        with (
            pytest.raises(lv.errors.BootstrapError, match=r"credentials for OAUTHBEARER: not there within 200 ms|no token within 200 ms"),
            lv.KafkaAdmin(**settings, sasl_oauth_token_provider=token, request_timeout_ms=200) as admin,
        ):
            admin.list_topics(timeout=0.4)
        assert asked.is_set()
    finally:
        end.set()


def test_M_D11_no_token_is_shown(settings: dict[str, Any], tokens: EmbeddedTokenEndpoint, caplog: pytest.LogCaptureFixture) -> None:
    token = tokens.issue("planted")
    with caplog.at_level(logging.DEBUG):
        with lv.KafkaAdmin(**settings, sasl_oauth_token_provider=lambda: lv.OAuthToken(token)) as admin:
            admin.list_topics()
        told(TokenError, {**settings, **tokens.settings_for(USER), "sasl_oauthbearer_client_credentials_client_secret": "planted-too"})
    assert token not in caplog.text + repr(lv.OAuthToken(token))
    assert "planted-too" not in caplog.text


def test_confluent_kafka_logs_in_with_a_token(signed: EmbeddedKafka, tokens: EmbeddedTokenEndpoint) -> None:
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    given = {"oauth_cb": lambda config: (tokens.issue("confluent"), time.time() + 300)}
    producer = confluent_kafka.Producer({"bootstrap.servers": signed.bootstrap_servers, **login, **given})
    producer.produce("of-confluent", b"v")
    assert producer.flush(20) == 0
    assert "User:confluent" in {session.principal for session in signed.connections()}


def test_aiokafka_logs_in_with_a_token(signed: EmbeddedKafka, tokens: EmbeddedTokenEndpoint) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return tokens.issue("aiokafka")

    async def run() -> None:
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Provider()}
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=signed.bootstrap_servers, **login) as producer:
            await producer.send_and_wait("of-aiokafka", b"v")

    asyncio.run(run())


class Sealed:
    """A mechanism of a program's own, that waits for something and brings its own words."""

    name = "SCRAM-SHA-256"

    def __init__(self, make: Callable[[str], Exchange]) -> None:
        self._make = make

    def begin(self, host: str) -> Exchange:
        return self._make(host)


def test_a_mechanism_of_the_programs_own(unsecured: EmbeddedKafka) -> None:
    from levada.net.sasl import scram

    hosts: list[str] = []

    def exchange(host: str) -> Exchange:
        hosts.append(host)
        password = yield BlockingStep(lambda: "p")
        yield from scram.client("SCRAM-SHA-256", USER, password)

    settings = {**unsecured.client_settings, "security_protocol": "SASL_PLAINTEXT"}
    with lv.KafkaAdmin(**settings, sasl_mechanism=Sealed(exchange)) as admin:
        admin.list_topics()
    assert set(hosts) == {"127.0.0.1"}


@pytest.mark.parametrize("fault", [SaslError("not the broker it claims to be"), ZeroDivisionError("a bug"), OddError("a bug")])
def test_a_mechanism_of_the_programs_own_that_fails(unsecured: EmbeddedKafka, fault: Exception) -> None:
    def exchange(host: str) -> Exchange:
        yield b"n,,"
        raise fault

    def at_once(host: str) -> Exchange:
        raise fault
        yield b""

    settings = {**unsecured.client_settings, "security_protocol": "SASL_PLAINTEXT"}
    assert fault.args[0] in told(SaslAuthenticationError, settings, sasl_mechanism=Sealed(at_once))
    with pytest.raises(SaslAuthenticationError), lv.KafkaAdmin(**settings, sasl_mechanism=Sealed(exchange)) as admin:
        admin.list_topics(timeout=20)


def test_a_mechanism_of_the_programs_own_that_would_end_the_program_while_it_waits(unsecured: EmbeddedKafka) -> None:
    def leave() -> None:
        raise SystemExit(1)

    def exchange(host: str) -> Exchange:
        yield BlockingStep(leave)

    settings = {**unsecured.client_settings, "security_protocol": "SASL_PLAINTEXT"}
    assert "SystemExit was raised" in told(SaslAuthenticationError, settings, sasl_mechanism=Sealed(exchange))


def test_H15_a_listener_without_tokens_says_what_it_has() -> None:
    with EmbeddedKafka(users={USER: "p"}) as kafka:
        expected = r"sasl\.mechanism=OAUTHBEARER: this listener offers PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"
        with pytest.raises(UnsupportedSaslMechanismError, match=expected), lv.KafkaAdmin(kafka.settings_for(USER, "OAUTHBEARER")) as admin:
            admin.list_topics(timeout=20)
