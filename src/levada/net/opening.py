"""A connection that is not there yet, and the socket it is made with."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping

from levada.net.ending import ending_of, text_of
from levada.net.resolver import Address, Route
from levada.net.selectable import ChannelState, ConnId, Disconnect, Ending

OS_DEFAULT = -1


class Opening:
    """A connection that is being made: which address is tried, and what became of those before."""

    def __init__(self, conn_id: ConnId, route: Route) -> None:
        self.conn_id = conn_id
        self.route = route
        self.socket: socket.socket | None = None
        self.address: Address | None = None
        self.failure = Disconnect(ChannelState.NOT_CONNECTED, "", Ending.UNRESOLVED)

    def attempt_failed(self, error: Exception) -> None:
        """Note why the last address could not be reached."""
        ending = ending_of(error)
        where = f"tried {self.address}" if self.address is not None and self.address.sockaddr[0] != self.route.host else ""
        what = "" if ending is Ending.REFUSED else text_of(error)
        self.failure = Disconnect(ChannelState.NOT_CONNECTED, "; ".join(filter(None, [where, what])), ending)


def new_socket(family: int, buffers: Mapping[int, int]) -> socket.socket:
    """Return a socket that does not block. buffers: options of its buffers and their bytes, -1 for what the system chooses."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, size in buffers.items():
        if size != OS_DEFAULT:
            sock.setsockopt(socket.SOL_SOCKET, option, size)
    return sock


def raise_if_failed(code: int) -> None:
    """Raise OSError for what connecting came to, but for 0."""
    if code:
        raise OSError(code, errno.errorcode.get(code, "error"))


def is_connected(sock: socket.socket) -> bool:
    """Ask the socket: what was reported may be about another one, which had its descriptor before. Raises OSError."""
    try:
        sock.getpeername()
    except OSError as error:
        if error.errno != errno.ENOTCONN:
            raise
        return False
    return True
