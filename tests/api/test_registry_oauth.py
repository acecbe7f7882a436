"""A registry's client with OAuth: a token endpoint, tokens that are shared and replaced in time, and Confluent Cloud's headers."""

from __future__ import annotations

import logging
import os
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from fork_kit import told_by_child
from levada.credentials import OAuthToken, SaslError
from levada.errors import ConfigError, TokenError
from levada.oauth import allow_token_endpoints
from levada.registry import JSONSerializer, RegistryAuthenticationError, RegistryUnavailableError, Schema, SchemaRegistryClient
from levada.registry.tokens import Tokens
from levada.testing import EmbeddedRegistry, EmbeddedTokenEndpoint
from levada.testing.tokens import TokenAnswer

SECRET = "planted-client-secret"


@pytest.fixture
def tokens() -> Iterator[EmbeddedTokenEndpoint]:
    with EmbeddedTokenEndpoint({"billing": SECRET}) as tokens:
        allow_token_endpoints([tokens.url])
        yield tokens
    allow_token_endpoints(None)


class CheckingRegistry(EmbeddedRegistry):
    """A registry that believes the tokens of an endpoint."""

    def __init__(self, tokens: EmbeddedTokenEndpoint) -> None:
        super().__init__()
        self._validate = tokens.validator()
        self.users: list[str] = []

    def respond(self, method: str, target: str, authorization: str | None, body: bytes) -> Any:
        scheme, _, token = (authorization or "").partition(" ")
        assert scheme == "Bearer"
        try:
            self.users.append(self._validate(token, 0).user)
        except SaslError:
            return 401, {"error_code": 401, "message": "Unauthorized"}, self.faults.take()
        return super().respond(method, target, authorization, body)


@pytest.fixture
def server(tokens: EmbeddedTokenEndpoint) -> Iterator[CheckingRegistry]:
    with CheckingRegistry(tokens) as running:
        yield running


def settings(tokens: EmbeddedTokenEndpoint, url: str, **more: Any) -> dict[str, Any]:
    return {
        "schema.registry.url": url,
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.issuer.endpoint.url": tokens.url,
        "bearer.auth.client.id": "billing",
        "bearer.auth.client.secret": SECRET,
        "bearer.auth.scope": "registry",
        **more,
    }


def test_one_token_serves_all_requests(tokens: EmbeddedTokenEndpoint, server: CheckingRegistry) -> None:
    with SchemaRegistryClient(settings(tokens, server.url)) as registry:
        assert tokens.forms == []
        JSONSerializer[Any](registry, '{"title":"a"}', topic="t")({})
        assert registry.get_subjects() == ["t-value"]
    assert tokens.forms == [{"grant_type": "client_credentials", "scope": "registry"}]
    assert server.users == ["billing"] * 2


def test_a_request_is_sent_again_when_its_token_was_revoked(
    tokens: EmbeddedTokenEndpoint, server: CheckingRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SchemaRegistryClient(settings(tokens, server.url)) as registry:
        registry.get_subjects()
        revoked = registry._transport._tokens.current()  # type: ignore[union-attr]
        validate = server._validate

        def validate_others(token: str, wall_ms: int) -> Any:
            if token == revoked:
                raise SaslError("revoked")
            return validate(token, wall_ms)

        server._validate = validate_others
        with pytest.raises(RegistryAuthenticationError):
            # It is too new to be replaced.
            registry.get_subjects()
        monkeypatch.setattr("levada.registry.tokens._PAUSE_MS", 0)
        assert registry.register_schema("t-value", Schema('"int"')) == 1
    assert len(tokens.forms) == 2
    assert server.requests == ["GET /subjects", "POST /subjects/t-value/versions"]


def test_a_registry_waits_for_an_endpoint_that_is_down(tokens: EmbeddedTokenEndpoint, server: CheckingRegistry) -> None:
    tokens.answers.extend([TokenAnswer(503, b"{}")] * 2)
    with SchemaRegistryClient(settings(tokens, server.url, **{"retries.wait.ms": 1})) as registry:
        assert registry.get_subjects() == []
    tokens.answers.extend([TokenAnswer(503, b"{}")] * 2)
    once = settings(tokens, server.url, **{"retries.wait.ms": 1, "max.retries": 1})
    with SchemaRegistryClient(once) as registry, pytest.raises(RegistryUnavailableError, match=r"there is no token for it.*HTTP 503"):
        registry.get_subjects()


def test_refused_credentials_are_not_tried_again(
    tokens: EmbeddedTokenEndpoint, server: CheckingRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = settings(tokens, server.url, **{"bearer.auth.client.secret": "planted-wrong-secret"})
    with SchemaRegistryClient(wrong) as registry, pytest.raises(TokenError, match="HTTP 401") as refused:
        registry.get_subjects()
    assert len(tokens.forms) == 1
    assert server.requests == []
    assert "planted" not in f"{refused.value}{caplog.text}"


class Clock:
    """A clock that a test sets."""

    ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def wall_ms(self) -> int:
        return self.ms


class Endpoint:
    """Gives tokens t1, t2, ... for 100 seconds, or raises `error`."""

    def __init__(self, clock: Clock, lifetime_s: float | None = 100) -> None:
        self.clock, self.lifetime_s, self.count = clock, lifetime_s, 0
        self.error: TokenError | None = None

    def __call__(self) -> OAuthToken:
        self.count += 1
        if self.error is not None:
            raise self.error
        return OAuthToken(f"t{self.count}", None if self.lifetime_s is None else self.clock.ms / 1000 + self.lifetime_s)


def test_a_token_is_replaced_before_it_expires() -> None:
    clock = Clock()
    endpoint = Endpoint(clock)
    tokens, found = Tokens(endpoint, clock), []
    for _ in range(5):
        found.append(tokens.current())
        clock.ms += 40_000
    assert found == ["t1", "t1", "t2", "t2", "t3"]


def test_a_token_is_used_to_its_end_while_the_endpoint_is_down() -> None:
    clock = Clock()
    endpoint = Endpoint(clock)
    tokens = Tokens(endpoint, clock)
    assert tokens.current() == "t1"
    endpoint.error = TokenError("down")
    clock.ms += 85_000
    assert [tokens.current() for _ in range(3)] == ["t1"] * 3
    assert endpoint.count == 2
    clock.ms += 10_000
    assert (tokens.current(), endpoint.count) == ("t1", 3)
    clock.ms += 5_000
    for count in (4, 5):
        with pytest.raises(TokenError, match="down"):
            tokens.current()
        assert endpoint.count == count
    endpoint.error = None
    assert tokens.current() == "t6"


def test_a_token_that_is_refused_is_replaced_unless_it_is_new() -> None:
    clock = Clock()
    endpoint = Endpoint(clock)
    tokens = Tokens(endpoint, clock)
    assert (tokens.current(), tokens.refused("t1"), tokens.current()) == ("t1", False, "t1")
    clock.ms += 10_000
    assert (tokens.refused("t1"), tokens.current()) == (True, "t2")
    # The answer to a request that another thread has sent before.
    assert (tokens.refused("t1"), tokens.current(), endpoint.count) == (True, "t2", 2)
    endpoint.error = TokenError("down")
    clock.ms += 10_000
    assert tokens.refused("t2")
    with pytest.raises(TokenError, match="down"):
        tokens.current()


def test_a_token_without_a_known_lifetime_is_used_once() -> None:
    clock = Clock()
    tokens = Tokens(Endpoint(clock, None), clock)
    assert [tokens.current() for _ in range(2)] == ["t1", "t2"]


@pytest.mark.parametrize("fails", [False, True])
def test_threads_wait_for_one_request(fails: bool) -> None:
    clock, begun, go_on = Clock(), threading.Event(), threading.Event()
    endpoint = Endpoint(clock)
    endpoint.error = TokenError("down") if fails else None

    def fetch() -> OAuthToken:
        begun.set()
        assert go_on.wait(20)
        return endpoint()

    tokens = Tokens(fetch, clock)
    waiting = threading.Semaphore(0)
    found: list[Any] = []

    def ask() -> None:
        try:
            waiting.release()
            found.append(tokens.current())
        except TokenError as error:
            found.append(str(error))

    first = threading.Thread(target=ask)
    first.start()
    assert begun.wait(20)
    others = [threading.Thread(target=ask) for _ in range(4)]
    for thread in others:
        thread.start()
    for _ in range(5):
        assert waiting.acquire(timeout=20)
    go_on.set()
    for thread in (first, *others):
        thread.join(20)
    assert set(found) == ({"down"} if fails else {"t1"})


def test_a_thread_with_a_valid_token_does_not_wait_for_the_next_one() -> None:
    clock, begun, go_on = Clock(), threading.Event(), threading.Event()
    endpoint = Endpoint(clock)

    def fetch() -> OAuthToken:
        if endpoint.count:
            begun.set()
            assert go_on.wait(20)
        return endpoint()

    tokens = Tokens(fetch, clock)
    assert tokens.current() == "t1"
    clock.ms += 90_000
    refreshing = threading.Thread(target=tokens.current)
    refreshing.start()
    assert begun.wait(20)
    assert tokens.current() == "t1"
    go_on.set()
    refreshing.join(20)
    assert tokens.current() == "t2"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_not_wait_for_its_parents_request() -> None:
    clock, begun, go_on = Clock(), threading.Event(), threading.Event()
    endpoint, parent = Endpoint(clock), os.getpid()

    def fetch() -> OAuthToken:
        if os.getpid() == parent:
            begun.set()
            assert go_on.wait(20)
        return endpoint()

    tokens = Tokens(fetch, clock)
    asking = threading.Thread(target=tokens.current)
    asking.start()
    assert begun.wait(20)
    told = told_by_child(tokens.current)
    go_on.set()
    asking.join(20)
    assert told == "t1"


class Listening(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.seen.append(dict(self.headers))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def headers_of(more: dict[str, Any]) -> dict[str, str]:
    """Return the headers of a client's request."""
    with HTTPServer(("127.0.0.1", 0), Listening) as server:
        server.seen = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with SchemaRegistryClient({"url": f"http://127.0.0.1:{server.server_address[1]}", **more}) as registry:
            assert registry.get_subjects() == []
        thread.join(20)
        found: dict[str, str] = server.seen[0]  # type: ignore[attr-defined]
        return found


def test_confluent_cloud_is_told_the_registry_and_the_identity_pools() -> None:
    of_cloud = {"bearer.auth.logical.cluster": "lsrc-1", "bearer.auth.identity.pool.id": ["pool-1", "pool-2"]}
    found = headers_of({"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": "t", **of_cloud})
    assert (found["Authorization"], found["target-sr-cluster"]) == ("Bearer t", "lsrc-1")
    assert found["Confluent-Identity-Pool-Id"] == "pool-1,pool-2"
    assert headers_of({"bearer.auth.token": "t", "bearer.auth.identity.pool.id": "pool-1"})["Confluent-Identity-Pool-Id"] == "pool-1"
    assert {"target-sr-cluster", "Confluent-Identity-Pool-Id"} & set(headers_of({})) == set()


def test_an_endpoint_has_to_be_allowed(tokens: EmbeddedTokenEndpoint) -> None:
    allow_token_endpoints(None)
    with pytest.raises(ConfigError, match=r"'bearer\.auth\.issuer\.endpoint\.url': http://.* is not https"):
        SchemaRegistryClient(settings(tokens, "http://h"))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"bearer.auth.credentials.source": "OAUTHBEARER"}, "needs 'bearer.auth.issuer.endpoint.url'"),
        ({"bearer.auth.client.id": "x"}, "'bearer.auth.client.id' needs 'bearer.auth.issuer.endpoint.url'"),
        ({"bearer.auth.issuer.endpoint.url": "https://h/t", "bearer.auth.client.id": "x"}, "needs 'bearer.auth.client.secret'"),
        ({"bearer.auth.credentials.source": "STATIC_TOKEN"}, "needs 'bearer.auth.token'"),
        ({"bearer.auth.token": "t", "bearer.auth.issuer.endpoint.url": "https://h/t"}, "exclude each other"),
        ({"bearer.auth.credentials.source": "SASL_OAUTHBEARER_INHERIT"}, "bearer.auth.token.provider"),
        ({"bearer.auth.token": "t", "bearer.auth.logical.cluster": "a\nb"}, "printable ASCII"),
    ],
)
def test_mistakes_are_named(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        SchemaRegistryClient({"url": "https://h", **given})


@pytest.mark.parametrize("has_password", [False, True])
def test_a_registry_asks_for_the_clients_certificate(tmp_path: Path, has_password: bool) -> None:
    trustme = pytest.importorskip("trustme", reason="the extra testing is not installed")
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    authority, strangers = trustme.CA(), trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")

    def client(issuer: Any, url: str) -> SchemaRegistryClient:
        issued = issuer.issue_cert(common_name="billing")
        issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
        key = issued.private_key_pem.bytes()
        if has_password:
            locked = serialization.BestAvailableEncryption(SECRET.encode())
            loaded = serialization.load_pem_private_key(key, None)
            key = loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
        (tmp_path / "key.pem").write_bytes(key)
        names = (("ca", "ca"), ("certificate", "cert"), ("key", "key"))
        files = {f"ssl.{part}.location": str(tmp_path / f"{name}.pem") for part, name in names}
        password = {"ssl.key.password": SECRET} if has_password else {}
        return SchemaRegistryClient({"url": url, "max.retries": 0, **files, **password})

    with EmbeddedRegistry(ssl_context=context) as server:
        with client(authority, server.url) as registry:
            assert registry.get_subjects() == registry.get_subjects() == []
        with client(strangers, server.url) as registry, pytest.raises(RegistryUnavailableError):
            registry.get_subjects()
        with (
            SchemaRegistryClient(schema_registry_url=server.url, max_retries=0, ssl_ca_location=str(tmp_path / "ca.pem")) as registry,
            pytest.raises(RegistryUnavailableError),
        ):
            registry.get_subjects()
