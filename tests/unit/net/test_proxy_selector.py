"""The Selector through a proxy, over real sockets: the order of addresses, look-ups, and how each failure is reported."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from clocked_selector import Clocked, frame
from invalid_peers import closed_port, serving, silent_server
from levada.base.proxy import Proxy
from levada.net.resolver import Address
from levada.net.selectable import Disconnect, Ending
from proxies import TestProxy


@pytest.fixture
def broker() -> Iterator[int]:
    """An echo server. Yields its port."""
    with serving(echo) as address:
        yield int(address.rpartition(":")[2])


def echo(connection: socket.socket) -> None:
    while data := connection.recv(1000):
        connection.sendall(data)


def proxy_at(address: str, scheme: str = "socks5h") -> Proxy:
    host, _, port = address.rpartition(":")
    return Proxy(scheme, host, int(port))


def failure(proxy: Proxy, *, host: str = "127.0.0.1", port: int = 9, **settings: object) -> Disconnect:
    net = Clocked(proxy=proxy, **settings)
    try:
        net.selector.connect(1, host, port, 0)
        net.until(lambda: net.disconnected)
        assert not net.connected
        return net.disconnected[1]
    finally:
        net.selector.shutdown()


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "http"])
def test_frames_pass_through_a_proxy(scheme: str, broker: int) -> None:
    with TestProxy() as proxy:
        net = Clocked(proxy=Proxy(scheme, "127.0.0.1", proxy.port))
        net.selector.connect(1, "127.0.0.1", broker, 0)
        net.until(lambda: net.connected == [1])
        net.selector.send(1, [frame(b"through")])
        net.until(lambda: net.received == [b"through"])
        net.selector.shutdown()
        assert proxy.asked == [f"127.0.0.1:{broker}"]


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
def test_a_name_that_the_proxy_resolves_is_not_looked_up_here(scheme: str, broker: int) -> None:
    with TestProxy(names={"broker.inside": "127.0.0.1"}) as proxy:
        looked_up: list[str] = []

        def look(host: str, port: int) -> Sequence[Address]:
            looked_up.append(host)
            return [Address(socket.AF_INET, ("127.0.0.1", port))]

        net = Clocked(proxy=Proxy(scheme, "proxy.example", proxy.port), lookup=look)
        net.selector.connect(1, "broker.inside", broker, 0)
        net.until(lambda: net.connected == [1])
        net.selector.shutdown()
        assert looked_up == ["proxy.example"]
        assert proxy.asked == [f"broker.inside:{broker}"]


def test_with_socks5_names_are_looked_up_here_and_every_address_is_tried(broker: int) -> None:
    addresses = {"broker.example": ["127.0.0.9", "127.0.0.8", "127.0.0.1"], "proxy.example": ["127.0.0.1"]}
    with TestProxy() as proxy:
        proxy.refused = {f"127.0.0.9:{broker}", f"127.0.0.8:{broker}"}
        net = Clocked(
            proxy=Proxy("socks5", "proxy.example", proxy.port),
            lookup=lambda host, port: [Address(socket.AF_INET, (address, port)) for address in addresses[host]],
        )
        net.selector.connect(1, "broker.example", broker, 0)
        net.until(lambda: net.connected == [1])
        net.selector.shutdown()
        assert proxy.asked == [f"127.0.0.{last}:{broker}" for last in (9, 8, 1)]


def test_every_address_of_the_proxy_is_tried(broker: int) -> None:
    with TestProxy() as proxy:
        dead = closed_port()

        def look(host: str, port: int) -> Sequence[Address]:
            return [Address(socket.AF_INET, ("127.0.0.1", int(dead.rpartition(":")[2]))), Address(socket.AF_INET, ("127.0.0.1", port))]

        net = Clocked(proxy=Proxy("socks5h", "proxy.example", proxy.port), lookup=look)
        net.selector.connect(1, "127.0.0.1", broker, 0)
        net.until(lambda: net.connected == [1])
        net.selector.shutdown()


def test_a_refused_login_is_not_repeated_at_other_addresses_of_the_proxy(broker: int) -> None:
    with TestProxy(users={"me": "right"}) as proxy:
        found = failure(
            Proxy("socks5h", "proxy.example", proxy.port, "me", "wrong"),
            port=broker,
            lookup=lambda host, port: [Address(socket.AF_INET, ("127.0.0.1", port))] * 3,
        )
        assert found.ending is Ending.PROXY_REFUSED
        assert proxy.logins == ["me"]


def test_a_proxy_that_is_not_there() -> None:
    assert failure(proxy_at(closed_port())).ending is Ending.REFUSED


def test_a_proxy_whose_name_does_not_resolve_is_named() -> None:
    def look(host: str, port: int) -> Sequence[Address]:
        raise socket.gaierror(-2, "Name or service not known")

    found = failure(Proxy("http", "proxy.invalid", 3128), lookup=look)
    assert found.ending is Ending.UNRESOLVED
    assert "proxy.invalid: " in found.cause


def test_a_broker_to_which_the_proxy_cannot_connect(broker: int) -> None:
    with TestProxy() as proxy:
        proxy.refused = {f"127.0.0.1:{broker}"}
        found = failure(proxy_at(f"127.0.0.1:{proxy.port}", "http"), port=broker)
        assert found.ending is Ending.PROXY_FAILED
        assert "HTTP 403 Forbidden" in found.cause


def test_a_host_name_that_cannot_be_sent_ends_the_attempt() -> None:
    with TestProxy() as proxy:
        found = failure(proxy_at(f"127.0.0.1:{proxy.port}"), host="a\r\nX: y")
        assert found.ending is Ending.PROXY_FAILED
        assert "no host name that a proxy can be given" in found.cause


def silent_closer(connection: socket.socket) -> None:
    connection.recv(1000)


def flood(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1_000_000)


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
@pytest.mark.parametrize("peer", [silent_closer, flood])
def test_a_server_that_is_no_such_proxy_ends_the_attempt(scheme: str, peer: Callable[[socket.socket], None]) -> None:
    with serving(peer) as address:
        found = failure(proxy_at(address, scheme))
    assert found.ending in (Ending.PROXY_FAILED, Ending.RESET)
    assert len(found.cause) < 300


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
def test_a_silent_proxy_is_told_from_a_silent_host(scheme: str) -> None:
    with serving(silent_server) as address:
        net = Clocked(proxy=proxy_at(address, scheme))
        net.selector.connect(1, "127.0.0.1", 9, 0)
        assert net.selector.ending_if_late(1) in (Ending.CONNECT_TIMED_OUT, Ending.PROXY_TIMED_OUT)
        net.until(lambda: net.selector.ending_if_late(1) is Ending.PROXY_TIMED_OUT)
        net.selector.close(1)
        assert not net.step(0)
        net.selector.shutdown()


def test_a_proxy_may_answer_byte_by_byte(broker: int) -> None:
    """And the broker's first bytes may follow at once."""

    def slow(connection: socket.socket) -> None:
        connection.recv(1000)
        for byte in b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n":
            connection.sendall(bytes([byte]))
            threading.Event().wait(0.002)
        connection.sendall(frame(b"of the broker"))
        connection.recv(1000)

    with serving(slow) as address:
        net = Clocked(proxy=proxy_at(address, "http"))
        net.selector.connect(1, "127.0.0.1", broker, 0)
        net.until(lambda: net.received == [b"of the broker"])
        net.selector.shutdown()
