"""The sockets that the Selector makes."""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Iterator

import pytest

from levada.net.selector import Selector
from settings_kit import new_selector

PATIENCE_S = 5


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def connect(selector: Selector, listener: socket.socket) -> list[int]:
    """Connect to the listener; return the connections that were reported."""
    host, port = listener.getsockname()
    selector.connect(1, host, port, 0)
    connected: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    while not connected and time.monotonic() < deadline:
        connected += selector.process(selector.select(100), 0).connected
    return connected


def options_of_client(listener: socket.socket, *options: tuple[int, int]) -> list[int]:
    """Return socket options of the socket that is connected to the listener."""
    for found in gc.get_objects():
        if isinstance(found, socket.socket) and found is not listener and found.fileno() >= 0 and found.type == socket.SOCK_STREAM:
            try:
                if found.getpeername() == listener.getsockname():
                    return [found.getsockopt(*option) for option in options]
            except OSError:
                continue
    raise AssertionError("no socket is connected to the listener")


def test_L7_sockets_send_at_once_are_kept_alive_and_have_the_buffers_asked_for(listener: socket.socket) -> None:
    selector = new_selector(max_frame_bytes=1 << 20, send_buffer_bytes=40_000, receive_buffer_bytes=50_000)
    try:
        assert connect(selector, listener) == [1]
        no_delay, keep_alive, send_buffer, receive_buffer = options_of_client(
            listener,
            (socket.IPPROTO_TCP, socket.TCP_NODELAY),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            (socket.SOL_SOCKET, socket.SO_SNDBUF),
            (socket.SOL_SOCKET, socket.SO_RCVBUF),
        )
    finally:
        selector.shutdown()
    assert no_delay and keep_alive
    # Linux reports twice what was asked for.
    assert send_buffer in (40_000, 80_000)
    assert receive_buffer in (50_000, 100_000)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux has it")
def test_a_peer_that_is_gone_is_noticed_by_the_system(listener: socket.socket) -> None:
    names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")

    def times(**settings: int) -> dict[str, int]:
        selector = new_selector(**settings)
        try:
            assert connect(selector, listener) == [1]
            found = options_of_client(listener, *((socket.IPPROTO_TCP, getattr(socket, name)) for name in names))
        finally:
            selector.shutdown()
        return dict(zip(names, found, strict=True))

    assert times() == {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 0}
    assert times(keepalive_idle_ms=1_500, user_timeout_ms=7_000)["TCP_KEEPIDLE"] == 2
    assert times(user_timeout_ms=7_000)["TCP_USER_TIMEOUT"] == 7_000
    left_alone = times(keepalive_idle_ms=0)
    assert left_alone["TCP_KEEPCNT"] != 3 or left_alone["TCP_KEEPIDLE"] != 60


def test_L7_TR21_a_connection_that_is_made_at_once_is_reported(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect_at_once(sock: socket.socket, address: tuple[str, int]) -> int:
        sock.setblocking(True)
        sock.connect(address)
        sock.setblocking(False)
        return 0

    monkeypatch.setattr(socket.socket, "connect_ex", connect_at_once)
    selector = new_selector(max_frame_bytes=1 << 20)
    try:
        assert connect(selector, listener) == [1]
    finally:
        selector.shutdown()
