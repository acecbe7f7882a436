"""Tunnels for code that waits: the time limit holds whatever a proxy does, and errors name the proxy."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import pytest

from invalid_peers import closed_port, serving, silent_server
from levada.base.proxy import Proxy
from levada.net.proxy.blocking import open_tunnel
from proxies import TestProxy

LIMIT_S = 0.5


def proxy_at(address: str, scheme: str) -> Proxy:
    host, _, port = address.rpartition(":")
    return Proxy(scheme, host, int(port))


def endless(connection: socket.socket) -> None:
    """Send a head that does not end, a byte at a time, so that no single read takes long."""
    connection.recv(1000)
    for byte in b"HTTP/1.1 200 OK\r\nA: " + b"b" * 1_000:
        connection.sendall(bytes([byte]))
        threading.Event().wait(0.02)


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "http"])
@pytest.mark.parametrize("peer", [silent_server, endless])
def test_a_proxy_that_never_ends_its_answer_is_given_up(scheme: str, peer: Callable[[socket.socket], None]) -> None:
    began = time.monotonic()
    with serving(peer) as address:
        with pytest.raises(OSError, match=f"the proxy {scheme}://{address}"):
            open_tunnel(proxy_at(address, scheme), "127.0.0.1", 9, LIMIT_S)
        assert time.monotonic() - began < LIMIT_S + 1


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "http"])
def test_a_proxy_that_is_down_or_refuses_is_named(scheme: str) -> None:
    address = closed_port()
    with pytest.raises(OSError, match=f"through the proxy {scheme}://{address}: Connection refused"):
        open_tunnel(proxy_at(address, scheme), "127.0.0.1", 9, LIMIT_S)
    with TestProxy() as proxy, pytest.raises(OSError, match=r"through the proxy .*(refused its connection|HTTP 502)"):
        open_tunnel(proxy_at(f"127.0.0.1:{proxy.port}", scheme), "127.0.0.1", int(closed_port().rpartition(":")[2]), LIMIT_S)


def test_names_are_looked_up_by_the_proxy_or_here() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, TestProxy(names={"inside": "127.0.0.1"}) as proxy:
        port = listener.getsockname()[1]
        for scheme in ("socks5h", "http"):
            open_tunnel(Proxy(scheme, "127.0.0.1", proxy.port), "inside", port, 5).close()
        assert proxy.asked == [f"inside:{port}"] * 2
        open_tunnel(Proxy("socks5", "127.0.0.1", proxy.port), "localhost", port, 5).close()
        assert proxy.asked[-1] == f"127.0.0.1:{port}"
        with pytest.raises(OSError, match=r"through the proxy socks5://127\.0\.0\.1"):
            open_tunnel(Proxy("socks5", "127.0.0.1", proxy.port), "name.invalid", port, 5)
