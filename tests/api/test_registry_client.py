"""SchemaRegistryClient against the embedded registry, over real sockets."""

from __future__ import annotations

import gc
import os
import pickle
import re
import socket
import ssl
import subprocess
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from fork_kit import told_by_child
from levada.errors import ClosedError, ConfigError, TokenError
from levada.registry import (
    IncompatibleSchemaError,
    RegisteredSchema,
    RegistryAnswerError,
    RegistryAuthenticationError,
    RegistryError,
    RegistryNotFoundError,
    RegistryUnavailableError,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from levada.registry.client import MOST_REFERENCES
from levada.registry.errors import RegistryProtocolError
from levada.testing import EmbeddedRegistry

INT = Schema('"int"')
LONG = Schema('"long"')
QUICK: dict[str, Any] = {"retries_wait_ms": 10, "retries_max_wait_ms": 20}


def failure(url: str, *, kind: type[RegistryError] = RegistryUnavailableError, **settings: Any) -> Any:
    """The error of a call to this address."""
    with SchemaRegistryClient({"url": url}, **settings) as registry, pytest.raises(kind) as caught:
        registry.get_subjects()
    return caught.value


@pytest.fixture
def registry(server: EmbeddedRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient(schema_registry_url=server.url, **QUICK) as client:
        yield client


def test_subjects_versions_and_ids(registry: SchemaRegistryClient) -> None:
    assert registry.register_schema("orders-value", INT) == 1
    assert registry.register_schema("orders-value", LONG) == 2
    assert registry.register_schema("a/b c", INT) == 1
    assert registry.get_subjects() == ["a/b c", "orders-value"]
    assert registry.get_subjects("orders") == ["orders-value"]
    assert registry.get_versions("orders-value") == [1, 2]
    assert registry.get_schema(2) == LONG
    assert registry.get_schema_versions(1) == [("a/b c", 1), ("orders-value", 1)]
    assert registry.lookup_schema("orders-value", LONG) == registry.get_latest_version("orders-value")
    assert registry.get_version("orders-value", 1).schema == INT
    assert registry.get_version("orders-value", "latest").version == 2
    assert "AVRO" in registry.get_schema_types()


def test_deleting_softly_and_for_good(registry: SchemaRegistryClient) -> None:
    registry.register_schema("a", INT)
    registry.register_schema("a", LONG)
    assert registry.delete_version("a", 1) == 1
    with pytest.raises(RegistryNotFoundError, match="40402"):
        registry.get_version("a", 1)
    assert registry.get_version("a", 1, deleted=True).schema == INT
    assert registry.delete_subject("a") == [2]
    with pytest.raises(RegistryNotFoundError, match="delete it with permanent=True"):
        registry.delete_subject("a")
    assert registry.get_schema(1) == INT
    assert registry.delete_subject("a", permanent=True) == [1, 2]
    with pytest.raises(RegistryNotFoundError, match="40403"):
        registry.get_schema(1)
    assert registry.register_schema("a", INT) == 3, "a new id"


def test_compatibility_levels_and_modes(registry: SchemaRegistryClient) -> None:
    assert registry.get_compatibility() == registry.get_compatibility("a") == "BACKWARD"
    registry.register_schema("a", LONG)
    found = registry.test_compatibility("a", INT)
    assert not found
    assert found.messages == ("/: the reader has int, the writer long",)
    with pytest.raises(IncompatibleSchemaError, match="the reader has int, the writer long"):
        registry.register_schema("a", INT)
    assert registry.set_compatibility("a", "NONE") == registry.get_compatibility("a") == "NONE"
    assert registry.test_compatibility("a", INT, None)
    registry.delete_compatibility("a")
    assert registry.get_compatibility("a") == "BACKWARD"
    assert registry.set_compatibility(None, "FULL") == registry.get_compatibility("a") == "FULL"
    assert registry.update_mode("a", "READONLY") == registry.get_mode("a") == "READONLY"
    registry.delete_mode("a")
    assert registry.update_mode(None, "IMPORT", force=True) == registry.get_mode() == "IMPORT"


def test_references_are_found_with_those_they_use_first(registry: SchemaRegistryClient) -> None:
    leaf = Schema('{"type": "record", "name": "Leaf", "fields": []}')
    registry.register_schema("leaf", leaf)
    to_leaf = SchemaReference("Leaf", "leaf", 1)
    twig = Schema('{"type": "record", "name": "Twig", "fields": [{"name": "l", "type": "Leaf"}]}', references=[to_leaf])
    registry.register_schema("twig", twig)
    tree = Schema('{"type": "array", "items": ["Twig", "Leaf"]}', references=[SchemaReference("Twig", "twig", 1), to_leaf])
    assert [reference.name for reference in registry.get_referenced_schemas(tree)] == ["Leaf", "Twig"]
    assert registry.get_referenced_by("leaf", 1) == [2]


def test_schemas_that_were_deleted_softly_are_found_as_references(server: EmbeddedRegistry, registry: SchemaRegistryClient) -> None:
    """Confluent's clients ask with deleted=true for what a schema references."""
    registry.register_schema("leaf", INT)
    tree = Schema('{"type": "array", "items": "int"}', references=[SchemaReference("Leaf", "leaf", 1)])
    schema_id = registry.register_schema("tree", tree)
    registry.delete_subject("tree")
    registry.delete_subject("leaf")
    for _ in range(2):
        assert list(registry.get_referenced_schemas(registry.get_schema(schema_id)).values()) == [INT]
    assert server.requests[-2:] == ["GET /schemas/ids/2", "GET /subjects/leaf/versions/1?deleted=true"]
    with pytest.raises(RegistryNotFoundError):
        registry.get_version("leaf", 1)


def test_what_does_not_change_is_asked_for_once(server: EmbeddedRegistry, registry: SchemaRegistryClient) -> None:
    for _ in range(3):
        registry.register_schema("a", INT)
        registry.lookup_schema("a", INT)
        registry.get_schema(1)
        registry.get_version("a", 1)
        registry.get_latest_version("a")
    assert len(server.requests) == 5
    registry.clear_caches()
    registry.get_schema(1)
    assert len(server.requests) == 6


def test_the_latest_version_is_asked_for_again_after_its_time_and_after_registering(server: EmbeddedRegistry) -> None:
    with SchemaRegistryClient(url=server.url, cache_latest_ttl_sec=0) as registry:  # type: ignore[call-arg]
        registry.register_schema("a", INT)
        assert registry.get_latest_version("a").version == 1
        with SchemaRegistryClient({"url": server.url}) as other:
            assert other.get_latest_version("a").version == 1
            registry.register_schema("a", LONG)
            assert registry.get_latest_version("a").version == 2
            assert other.get_latest_version("a").version == 1
            other.register_schema("a", Schema('"double"'))
            assert other.get_latest_version("a").version == 3


def test_one_connection_serves_many_calls_and_each_is_sent_once(server: EmbeddedRegistry, registry: SchemaRegistryClient) -> None:
    for _ in range(5):
        registry.get_subjects()
    assert server.requests == ["GET /subjects"] * 5
    assert sum(thread.name.startswith("Thread-") for thread in threading.enumerate()) == 1


def test_many_threads_share_a_client(server: EmbeddedRegistry, registry: SchemaRegistryClient) -> None:
    def work(number: int) -> int:
        schema = Schema(f'{{"type": "fixed", "name": "F", "size": {number % 10}}}'.replace(" ", ""))
        schema_id = registry.register_schema(f"s{number % 10}", schema)
        assert registry.get_schema(schema_id) == schema
        return schema_id

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(work, range(200)))
    assert len(set(ids)) == 10


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_is_tried_again(server: EmbeddedRegistry, registry: SchemaRegistryClient, status: int) -> None:
    server.faults.answer(status, times=3)
    assert registry.get_subjects() == []
    assert len(server.requests) == 4


def test_an_error_that_stays_is_raised_with_what_the_registry_said(server: EmbeddedRegistry, registry: SchemaRegistryClient) -> None:
    server.faults.answer(503, times=4, retry_after=1)
    with pytest.raises(RegistryAnswerError, match="list subjects: as the test asked for") as caught:
        registry.get_subjects()
    assert caught.value.retriable
    assert caught.value.url == f"{server.url}/subjects"


def test_a_lost_answer_is_asked_for_again(server: EmbeddedRegistry, registry: SchemaRegistryClient) -> None:
    server.faults.lose_answer(times=2)
    assert registry.register_schema("a", INT) == 1
    assert registry.get_versions("a") == [1]


def test_a_deletion_whose_answer_is_lost_is_not_done_twice(server: EmbeddedRegistry, registry: SchemaRegistryClient) -> None:
    registry.register_schema("a", INT)
    server.faults.lose_answer()
    with pytest.raises(RegistryUnavailableError, match="the registry may have done it"):
        registry.delete_subject("a")
    assert server.requests.count("DELETE /subjects/a") == 1


def test_a_connection_that_the_registry_closed_in_between_does_not_show(server: EmbeddedRegistry, registry: SchemaRegistryClient) -> None:
    registry.get_subjects()
    port = int(server.url.rpartition(":")[2])
    server.close()
    with EmbeddedRegistry(port=port) as again:
        assert registry.get_subjects() == []
        assert again.requests == ["GET /subjects"]


def test_the_next_address_answers_when_one_does_not(server: EmbeddedRegistry) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with SchemaRegistryClient(schema_registry_url=[dead, server.url], **QUICK) as registry:
            assert registry.get_subjects() == []


def test_a_registry_that_cannot_be_reached_is_named_with_the_reason() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        error = failure(f"http://me:s3cret@{address}", **QUICK)
    assert error.causes == {f"http://{address}": "connection refused"}
    assert "s3cret" not in str(error)


def test_a_slow_registry_is_given_up_in_time(server: EmbeddedRegistry) -> None:
    server.faults.delay(5, times=2)
    error = failure(server.url, http_read_timeout_ms=100, max_retries=1, **QUICK)
    assert "timed out" in str(error)


@pytest.mark.parametrize(
    "before", [b"", b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"], ids=["status", "headers", "body"]
)
def test_a_registry_that_trickles_is_given_up_at_the_deadline_of_the_call(before: bytes) -> None:
    """Each byte comes within the read timeout, wherever in the answer."""
    ended = threading.Event()

    def serve(listener: socket.socket) -> None:
        with listener.accept()[0] as connection, suppress(OSError):
            connection.recv(1000)
            connection.sendall(before)
            while not ended.wait(0.05):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            error = failure(
                f"http://127.0.0.1:{listener.getsockname()[1]}", max_retries=0, default_api_timeout_ms=500, http_read_timeout_ms=60_000
            )
        finally:
            ended.set()
            thread.join()
        assert "timed out" in str(error)


@pytest.mark.parametrize("pause", ["9" * 5000, "\u00b2", "soon", "-1"], ids=["5,000 digits", "superscript", "text", "negative"])
def test_a_pause_that_no_registry_asks_for_is_bounded(pause: str) -> None:
    answer = f"HTTP/1.1 503 Busy\r\nRetry-After: {pause}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode("latin-1")

    def serve(listener: socket.socket) -> None:
        for _ in range(2):
            with listener.accept()[0] as connection:
                connection.recv(1000)
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        with (
            SchemaRegistryClient(
                schema_registry_url=f"http://127.0.0.1:{listener.getsockname()[1]}", max_retries=1, retries_wait_ms=1, retries_max_wait_ms=2
            ) as registry,
            pytest.raises(RegistryAnswerError, match="503"),
        ):
            registry.get_subjects()
        thread.join()


def test_references_that_lead_back_or_have_no_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def using(name: str, version: int) -> Schema:
        return Schema("{}", "JSON", [SchemaReference(name, name, version)])

    def version_of(subject: str, version: int, deleted: bool) -> RegisteredSchema:
        uses = {"a": using("b", 1), "b": using("a", 1), "endless": using("endless", version + 1)}
        return RegisteredSchema(1, uses[subject], subject, version)

    registry = SchemaRegistryClient(schema_registry_url="http://127.0.0.1:1")
    monkeypatch.setattr(registry, "get_version", version_of)
    with pytest.raises(RegistryProtocolError, match="version 1 of 'a' uses itself"):
        registry.get_referenced_schemas(using("a", 1))
    with pytest.raises(RegistryProtocolError, match="100 deep"):
        registry.get_referenced_schemas(using("endless", 1))


def test_references_to_ever_more_schemas_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def version_of(subject: str, version: int, deleted: bool) -> RegisteredSchema:
        nonlocal asked
        asked += 1
        assert asked <= MOST_REFERENCES
        doubling = [SchemaReference(name, name, version) for name in (f"{subject}0", f"{subject}1") if len(subject) < 40]
        return RegisteredSchema(asked, Schema("{}", "JSON", doubling), subject, version)

    registry = SchemaRegistryClient(schema_registry_url="http://127.0.0.1:1")
    monkeypatch.setattr(registry, "get_version", version_of)
    with pytest.raises(RegistryProtocolError, match=f"more than {MOST_REFERENCES} others"):
        registry.get_referenced_schemas(Schema("{}", "JSON", [SchemaReference("s", "s", 1)]))
    many = Schema("{}", "JSON", [SchemaReference(f"{number}", "x" * 40, number) for number in range(MOST_REFERENCES)])
    asked = 0
    assert len(registry.get_referenced_schemas(many)) == MOST_REFERENCES


def test_what_is_no_registry_is_told() -> None:
    def serve(listener: socket.socket) -> None:
        with listener.accept()[0] as connection:
            connection.recv(1000)
            connection.sendall(b"SSH-2.0-OpenSSH\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        error = failure(f"http://127.0.0.1:{listener.getsockname()[1]}", max_retries=0)
        assert "did not answer as HTTP" in str(error)
        thread.join()


def test_an_answer_that_is_too_large_is_refused(server: EmbeddedRegistry) -> None:
    with SchemaRegistryClient(schema_registry_url=server.url, max_response_bytes=1024) as registry:
        registry.register_schema("a", Schema(f'{{"type": "string", "doc": "{"x" * 2000}"}}'))
        with pytest.raises(RegistryProtocolError, match=r"max\.response\.bytes=1024"):
            registry.get_schema(1)


def test_basic_credentials_come_from_the_settings_or_the_address() -> None:
    with EmbeddedRegistry(user_info="me:p@ss") as server:
        host = server.url.removeprefix("http://")
        for settings in ({"url": f"http://me:p%40ss@{host}"}, {"url": server.url, "basic.auth.user.info": "me:p@ss"}):
            with SchemaRegistryClient(settings) as registry:
                assert registry.get_subjects() == []
        error = failure(server.url, basic_auth_user_info="me:wrong", kind=RegistryAuthenticationError)
        assert "check basic.auth.user.info" in str(error)
    assert "wrong" not in str(error)


def test_a_bearer_token_is_given_or_provided() -> None:
    with EmbeddedRegistry(token="t2") as server:
        with SchemaRegistryClient(schema_registry_url=server.url, bearer_auth_token="t2") as registry:
            assert registry.get_subjects() == []
        tokens = iter(["t1", "t2"])
        with SchemaRegistryClient(schema_registry_url=server.url, bearer_auth_token_provider=lambda: next(tokens)) as registry:
            with pytest.raises(RegistryAuthenticationError):
                registry.get_subjects()
            assert registry.get_subjects() == []


@pytest.mark.parametrize("token", ["secret\n", "s\u00e9cret", "", b"secret", None])
def test_a_token_that_cannot_be_sent_is_told_and_not_shown(server: EmbeddedRegistry, token: Any) -> None:
    with (
        SchemaRegistryClient(schema_registry_url=server.url, bearer_auth_token_provider=lambda: token) as registry,
        pytest.raises(TokenError, match="the function that gives tokens returned") as caught,
    ):
        registry.get_subjects()
    assert "cret" not in str(caught.value)
    assert server.requests == []


def test_a_function_that_gives_no_token_is_told_or_called_again(server: EmbeddedRegistry) -> None:
    calls = 0

    def provider() -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise OSError("no route to the token service")
        if calls == 2:
            return "secret"
        raise LookupError

    with SchemaRegistryClient(url=server.url, bearer_auth_token_provider=provider, retries_wait_ms=1) as registry:  # type: ignore[call-arg]
        assert registry.get_subjects() == []
        with pytest.raises(TokenError, match="the function that gives tokens raised LookupError"):
            registry.get_subjects()


def test_a_closed_client_says_so(registry: SchemaRegistryClient) -> None:
    registry.register_schema("a", INT)
    registry.close()
    with pytest.raises(ClosedError):
        registry.get_subjects()
    assert registry.register_schema("a", INT) == 1


def test_a_client_that_nobody_closes_leaves_no_connection(server: EmbeddedRegistry) -> None:
    def use() -> None:
        SchemaRegistryClient(schema_registry_url=server.url).get_subjects()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        use()
        gc.collect()
    assert server.requests == ["GET /subjects"]
    assert [str(warning.message) for warning in caught if "socket" in str(warning.message)] == []


def test_a_pickled_client_is_one_with_the_same_settings(server: EmbeddedRegistry, registry: SchemaRegistryClient) -> None:
    registry.register_schema("a", INT)
    with pickle.loads(pickle.dumps(registry)) as copy:
        assert copy.get_schema(1) == INT
        server.faults.answer(503)
        assert copy.get_subjects() == ["a"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_not_use_its_parents_connection(server: EmbeddedRegistry, registry: SchemaRegistryClient) -> None:
    registry.get_subjects()
    child = os.fork()
    if child == 0:
        os._exit(0 if registry.get_subjects() == [] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert registry.get_subjects() == []
    assert server.requests == ["GET /subjects"] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_not_wait_for_threads_of_its_parent(server: EmbeddedRegistry, registry: SchemaRegistryClient) -> None:
    """A thread that has a lock while another one forks is not in the child."""
    registry.register_schema("orders-value", INT)
    # The child's request is sent again after a pause.
    server.faults.answer(503)
    with registry._latest._lock, registry._transport._lock, registry._closed._cond:  # type: ignore[attr-defined]
        assert told_by_child(lambda: str(registry.get_latest_version("orders-value").version)) == "1"
    assert registry.get_latest_version("orders-value").version == 1


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One self-signed certificate for 127.0.0.1 and its key."""
    if which("openssl") is None:
        pytest.skip("certificates are made with openssl, which is not there")
    folder = tmp_path_factory.mktemp("certificates")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


def server_context(certificates: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
    return context


def test_a_server_whose_certificate_is_trusted_is_spoken_to(certificates: Path) -> None:
    with EmbeddedRegistry(ssl_context=server_context(certificates)) as server:
        with SchemaRegistryClient(schema_registry_url=server.url, ssl_ca_location=str(certificates / "cert.pem")) as registry:
            assert registry.get_subjects() == registry.get_subjects() == []
        error = failure(server.url, max_retries=0)
        assert re.search(r"certificate is not trusted.*set ssl\.ca\.location", str(error))


def test_a_client_shows_its_certificate(certificates: Path) -> None:
    context = server_context(certificates)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificates / "cert.pem")
    cert, key = str(certificates / "cert.pem"), str(certificates / "key.pem")
    with EmbeddedRegistry(ssl_context=context) as server:
        with SchemaRegistryClient(
            schema_registry_url=server.url, ssl_ca_location=cert, ssl_certificate_location=cert, ssl_key_location=key
        ) as registry:
            assert registry.get_subjects() == []
        failure(server.url, ssl_ca_location=cert, max_retries=0)


def test_tls_where_the_registry_speaks_none_is_told(server: EmbeddedRegistry) -> None:
    error = failure(server.url.replace("http", "https"), max_retries=0)
    assert "is this a plain http:// address" in str(error)


def test_files_that_cannot_be_read_are_found_at_construction(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.pem")
    with pytest.raises(ConfigError, match=r"'ssl.ca.location': .*none.pem cannot be read"):
        SchemaRegistryClient(schema_registry_url="https://h", ssl_ca_location=missing)
    with pytest.raises(ConfigError, match=r"'ssl.certificate.location': .*none.pem cannot be read"):
        SchemaRegistryClient(schema_registry_url="https://h", ssl_certificate_location=missing)


def test_a_key_with_a_password_does_not_ask_on_the_terminal(certificates: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked.pem"
    command = ["openssl", "rsa", "-aes128", "-passout", "pass:s3cret", "-in", str(certificates / "key.pem"), "-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True)
    settings: dict[str, Any] = {
        "url": "https://h",
        "ssl.certificate.location": str(certificates / "cert.pem"),
        "ssl.key.location": str(locked),
    }
    with pytest.raises(ConfigError, match="cannot be read as certificate and key"):
        SchemaRegistryClient(settings)
    SchemaRegistryClient({**settings, "ssl.key.password": "s3cret"}).close()
