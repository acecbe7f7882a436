"""A connection that is being established, and its socket."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from math import ceil
from typing import TypeAlias

from levada.net.proxy.tunnel import Tunnel
from levada.net.resolver import Address, Route
from levada.net.selectable import ChannelState, ConnId, Disconnect, Ending, ending_of, text_of

OS_DEFAULT = -1
KEEPALIVE_INTERVAL_S = 10
KEEPALIVE_QUESTIONS = 3

SocketOption: TypeAlias = tuple[int, int, int]
"""Level, option and value for setsockopt()."""


class Opening:
    """An attempt to establish a connection: the address that is being tried, and why the earlier addresses failed.

    named: the host that the program or a broker has named; with a proxy, the host of the proxy. tunnel: the handshake with a proxy, once
    the socket is connected.
    """

    def __init__(self, conn_id: ConnId, route: Route, named: str) -> None:
        self.conn_id = conn_id
        self.route = route
        self.named = named
        self.socket: socket.socket | None = None
        self.tunnel: Tunnel | None = None
        self.address: Address | None = None
        self.failure = Disconnect(ChannelState.NOT_CONNECTED, "", Ending.UNRESOLVED)

    def attempt_failed(self, error: Exception) -> None:
        """Record why the address that was tried last could not be reached."""
        ending = ending_of(error)
        where = f"tried {self.address}" if self.address is not None and self.address.sockaddr[0] != self.named else ""
        what = "" if ending is Ending.REFUSED else text_of(error)
        self.failure = Disconnect(ChannelState.NOT_CONNECTED, "; ".join(filter(None, [where, what])), ending)


def socket_options(
    *, send_buffer_bytes: int, receive_buffer_bytes: int, keepalive_idle_ms: int, user_timeout_ms: int
) -> list[SocketOption]:
    """Return the options to set on every socket. -1 bytes and 0 ms leave an option at the system's default.

    Options that the system does not support are left out.
    """
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    buffers = {socket.SO_SNDBUF: send_buffer_bytes, socket.SO_RCVBUF: receive_buffer_bytes}
    options += [(socket.SOL_SOCKET, buffer, size) for buffer, size in buffers.items() if size != OS_DEFAULT]
    times: dict[str, int] = {}
    if keepalive_idle_ms:
        times |= {"TCP_KEEPIDLE": ceil(keepalive_idle_ms / 1000), "TCP_KEEPINTVL": KEEPALIVE_INTERVAL_S, "TCP_KEEPCNT": KEEPALIVE_QUESTIONS}
    if user_timeout_ms:
        times["TCP_USER_TIMEOUT"] = user_timeout_ms
    return options + [(socket.IPPROTO_TCP, getattr(socket, name), time) for name, time in times.items() if hasattr(socket, name)]


def new_socket(family: int, options: Iterable[SocketOption]) -> socket.socket:
    """Return a non-blocking socket with these options."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    for level, option, value in options:
        sock.setsockopt(level, option, value)
    return sock


def raise_if_failed(code: int) -> None:
    """Raise OSError if the result code of connecting is not 0."""
    if code:
        raise OSError(code, errno.errorcode.get(code, "error"))


def is_connected(sock: socket.socket) -> bool:
    """Return whether a socket is connected.

    The network event may have been for an earlier socket with the same descriptor. Raises OSError.
    """
    try:
        sock.getpeername()
    except OSError as error:
        if error.errno != errno.ENOTCONN:
            raise
        return False
    return True
