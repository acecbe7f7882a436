"""Selectable: what the engine needs of the network. The Selector implements it with sockets, the simulation with links in memory.

A Selectable owns every connection of one client. Its caller uses it like this:

    connect / send / close     begin at once what does not have to wait; under the caller's lock, on any thread
    select(timeout_ms)         the only call that blocks; without a lock, on one thread at a time; changes nothing
    process(ready, now_ms)     does the I/O that is possible and returns what happened; under the lock

While one thread is in select(), other threads may call connect, send, close and even process(): the result of select() is only a hint then.
wakeup() may be called from any thread, with or without the lock.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeAlias

from levada.errors import ProtocolError
from levada.net.proxy.handshake import ProxyError
from levada.net.tls.errors import TlsError
from levada.wire.varint import Bytes

Frame: TypeAlias = bytes | memoryview
Pieces: TypeAlias = Sequence[Bytes]
"""One frame to be written, in consecutive pieces."""
ConnId: TypeAlias = Any
"""The caller's id of a connection: anything hashable. The client uses its connection keys."""


class ChannelState(Enum):
    """The state of a connection when it ended, as Java's ChannelState."""

    NOT_CONNECTED = "not connected"
    AUTHENTICATE = "authenticating"
    READY = "ready"
    EXPIRED = "expired"
    FAILED_SEND = "failed send"
    AUTHENTICATION_FAILED = "authentication failed"
    LOCAL_CLOSE = "local close"


class Ending(Enum):
    """How a connection ended."""

    UNRESOLVED = "the host name does not resolve"
    LOOKUP_TIMED_OUT = "the host name was not looked up in time"
    REFUSED = "connection refused"
    UNREACHABLE = "the host cannot be reached"
    CONNECT_TIMED_OUT = "the connection was not made in time"
    PROXY_TIMED_OUT = "the proxy did not connect in time"
    PROXY_FAILED = "the proxy did not connect"
    PROXY_REFUSED = "the proxy refused the login"
    HANDSHAKE_TIMED_OUT = "the handshake of TLS did not end in time"
    CLOSED = "the broker closed the connection"
    RESET = "the broker reset the connection"
    BAD_FRAME = "the bytes are no Kafka frame"
    UNREADABLE = "an answer cannot be read"
    UNANSWERED = "a request was not answered in time"
    IDLE = "the connection was idle for too long"
    LOCAL = "the connection was closed here"
    TLS_FAILED = "TLS with the broker failed"
    TLS_REFUSED = "TLS was refused by one side"
    FAILED = "the connection failed"


class Disconnect(NamedTuple):
    """The end of a connection. first_bytes: the first bytes that the other side had sent, for diagnose(). cause: details as text, or ""."""

    state: ChannelState
    cause: str
    ending: Ending = Ending.FAILED
    first_bytes: bytes = b""


@dataclass(slots=True)
class NetEvents:
    """The network events of one process().

    sent: connections whose parked frame was completely written; a frame that send() wrote at once is not reported. received: at most one
    frame per connection, without its size prefix; the next process() returns further frames. Frames that arrived before the other side
    closed are reported before the disconnect, in earlier events. woken: whether wakeup() or notify() was called before.
    """

    connected: list[ConnId] = field(default_factory=list)
    sent: list[ConnId] = field(default_factory=list)
    received: list[tuple[ConnId, Frame]] = field(default_factory=list)
    disconnected: dict[ConnId, Disconnect] = field(default_factory=dict)
    woken: bool = False

    def __bool__(self) -> bool:
        return bool(self.connected or self.sent or self.received or self.disconnected)


class Selectable(Protocol):
    """The network connections of one client, by id."""

    def connect(self, conn_id: ConnId, host: str, port: int, now_ms: int) -> None:
        """Begin to connect. An event reports the result. Raises IllegalStateError if the id is in use."""
        ...

    def ending_if_late(self, conn_id: ConnId) -> Ending:
        """Return the ending of a connection that is not established, if its time is over now: one of the endings with TIMED_OUT."""
        ...

    def send(self, conn_id: ConnId, frame: Pieces) -> bool:
        """Write as much of a frame, which includes the size prefix, as possible now. Return whether all of it was written; no event follows
        then.

        Otherwise the rest is parked, and process() writes it and reports it as sent. If the connection has ended, or ends with this write,
        the rest is lost: process() reports the frames that arrived before the end, then the end. Raises IllegalStateError if the connection
        is not open, and while another frame is parked. frame: its pieces, which must not change until they are written or the connection
        has ended.
        """
        ...

    def close(self, conn_id: ConnId) -> None:
        """Close a connection. No event follows, not even one that process() has not reported yet. Unknown ids are ignored."""
        ...

    def forget(self, conn_id: ConnId) -> None:
        """Close a connection, and forget what the next connection with this id would use, such as the address to try next."""
        ...

    def select(self, timeout_ms: int) -> Any:
        """Wait for I/O, a wakeup, or the timeout. Return a value to pass to process(). Does not change any connection.

        It may return a little too early without a result; the caller then waits for the rest of the time.
        """
        ...

    def process(self, ready: Any, now_ms: int) -> NetEvents:
        """Do the I/O that is possible without waiting, and return the events. ready: the result of select()."""
        ...

    @property
    def has_events(self) -> bool:
        """Whether process() has events to report although no socket is ready."""
        ...

    def wakeup(self) -> None:
        """End the running select(), or the next one, at once. May be called from any thread."""
        ...

    def notify(self) -> None:
        """Like wakeup(), but also noticed by an event loop that only watches the descriptor of the selector."""
        ...

    def renew(self) -> None:
        """Replace what a child made by fork() shares with its parent. Called in the child, before there is any connection."""
        ...

    def shutdown(self) -> None:
        """Close all connections for good. Must not be called while a thread is in select()."""
        ...


_ENDINGS = {
    errno.ECONNREFUSED: Ending.REFUSED,
    errno.ECONNRESET: Ending.RESET,
    errno.EPIPE: Ending.RESET,
    errno.EHOSTUNREACH: Ending.UNREACHABLE,
    errno.ENETUNREACH: Ending.UNREACHABLE,
    errno.ETIMEDOUT: Ending.CONNECT_TIMED_OUT,
}


def ending_of(error: Exception) -> Ending:
    """Return the ending that belongs to the error of a connection."""
    if isinstance(error, ProtocolError):
        return Ending.BAD_FRAME
    if isinstance(error, ProxyError):
        return Ending.PROXY_REFUSED if error.is_refusal else Ending.PROXY_FAILED
    if isinstance(error, TlsError):
        return Ending.TLS_REFUSED if error.is_refusal else Ending.TLS_FAILED
    return _ENDINGS.get(error.errno or 0, Ending.FAILED) if isinstance(error, OSError) else Ending.FAILED


def text_of(error: Exception) -> str:
    """Return a short text for the error of a connection."""
    if isinstance(error, OSError) and error.errno is not None:
        return errno.errorcode.get(error.errno, str(error))
    return str(error) or type(error).__name__
