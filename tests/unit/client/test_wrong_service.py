"""M-C10: what listens there is not what was expected, and the error says what it probably is. Real sockets, small servers."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

import invalid_peers
from levada.base.flow import Call, Flow
from levada.errors import BootstrapError
from levada.net.resolver import Address, Lookup, look_up
from levada.protocol.messages.metadata import MetadataRequest
from levada.sync.driver import Driver
from settings_kit import new_engine, new_selector

DEADLINE_S = 3.0
AT_ONCE_S = 1.5


def asking() -> Flow[object]:
    return (yield Call(MetadataRequest(topics=[])))


def failure(
    *addresses: str, timeout_s: float = DEADLINE_S, lookup: Lookup = look_up, setup_timeout_ms: int = 10_000, waits: bool = True
) -> tuple[BootstrapError, float]:
    """Ask at addresses where no Kafka is; return the error and how long it took."""
    selector = new_selector(max_frame_bytes=100 << 20, lookup=lookup)
    bootstrap = [(address.rpartition(":")[0], int(address.rpartition(":")[2])) for address in addresses]
    engine = new_engine(
        selectable=selector,
        bootstrap=bootstrap,
        client_id="lost",
        random=Random(1),
        connection_setup_timeout_ms=setup_timeout_ms,
        bootstrap_wait=waits,
    )
    driver = Driver(engine, selector, name="lost")
    driver.start()
    started = time.monotonic()
    try:
        with pytest.raises(BootstrapError) as raised:
            driver.run(asking(), timeout_s, "asking")
        return raised.value, time.monotonic() - started
    finally:
        driver.close(5)


@contextmanager
def python_web_server() -> Iterator[str]:
    """The standard library's server, which waits for a whole line before it says anything."""

    class Quiet(http.server.BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def tls_alert(connection: socket.socket) -> None:
    """Answer as Kafka's own SSL listener does."""
    connection.recv(1000)
    connection.sendall(bytes.fromhex("15030300020246"))


def hangs_up(connection: socket.socket) -> None:
    connection.recv(1000)


def ssh_banner(connection: socket.socket) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
    connection.recv(1000)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (invalid_peers.web_server, "answered with HTTP"),
        (tls_alert, r"answered with TLS: this listener expects security.protocol=SSL or SASL_SSL \(yours: PLAINTEXT\)"),
        (ssh_banner, "answered with SSH"),
    ],
)
def test_M_C10_an_invalid_peer_is_named_at_once(answer: invalid_peers.Answer, words: str) -> None:
    with invalid_peers.serving(answer) as address:
        error, took_s = failure(address)
    assert error.causes.keys() == {address}
    with pytest.raises(BootstrapError, match=words):
        raise error
    assert took_s < AT_ONCE_S


def test_M_C10_a_web_server_that_waits_for_a_line_is_named_at_once() -> None:
    with python_web_server() as address:
        error, took_s = failure(address)
    assert "HTTP" in error.causes[address]
    assert took_s < AT_ONCE_S


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (invalid_peers.silent_server, "accepts connections but does not answer ApiVersions"),
        (hangs_up, "closed the connection before it answered ApiVersions"),
        (invalid_peers.talkative_server, "not Kafka's protocol (a frame announces 2147483647 bytes"),
        (invalid_peers.mumbling_server, "not Kafka's protocol (ApiVersionsResponse v0, at byte"),
    ],
)
def test_M_C10_a_cause_that_is_not_certain_is_reported_at_the_deadline(answer: invalid_peers.Answer, words: str) -> None:
    with invalid_peers.serving(answer) as address:
        error, took_s = failure(address, timeout_s=0.7)
    assert words in error.causes[address]
    assert "security.protocol" in str(error) or "check the port" in str(error)
    assert 0.6 < took_s < 2


def test_M_C10_a_closed_port_is_named_at_the_deadline() -> None:
    address = invalid_peers.closed_port()
    error, took_s = failure(address, timeout_s=0.7)
    assert "connection refused" in error.causes[address]
    assert 0.6 < took_s < 2


def test_M_C10_every_address_has_its_own_cause() -> None:
    closed = invalid_peers.closed_port()
    with invalid_peers.serving(tls_alert) as tls, invalid_peers.serving(invalid_peers.web_server) as web:
        error, _ = failure(closed, tls, web, timeout_s=1)
    assert [word in error.causes[address] for address, word in ((closed, "refused"), (tls, "TLS"), (web, "HTTP"))] == [True] * 3


def test_a_client_that_does_not_wait_ends_once_every_address_has_failed() -> None:
    closed = invalid_peers.closed_port()
    with invalid_peers.serving(hangs_up) as away:
        error, took_s = failure(closed, away, "no-such-host.invalid:9092", timeout_s=60, waits=False)
    assert took_s < 60
    assert str(error).startswith("no broker could be reached\n")
    assert error.causes.keys() == {closed, away, "no-such-host.invalid:9092"}
    assert error.retriable


def test_N23_a_name_that_does_not_resolve_is_named() -> None:
    error, _ = failure("no-such-host.invalid:9092", timeout_s=2)
    assert "resolve" in str(error)


@pytest.mark.parametrize("setup_timeout_ms", [10_000, 100])
def test_N23_a_name_that_is_not_looked_up_in_time_is_not_taken_for_a_silent_host(setup_timeout_ms: int) -> None:
    answer = threading.Event()

    def lookup(host: str, port: int) -> list[Address]:
        answer.wait(DEADLINE_S * 2)
        return []

    try:
        error, _ = failure("slow.example:9092", timeout_s=0.5, lookup=lookup, setup_timeout_ms=setup_timeout_ms)
    finally:
        answer.set()
    assert "not looked up in time" in error.causes["slow.example:9092"]
    assert "firewall" not in str(error)
