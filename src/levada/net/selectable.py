"""What the client core asks of a network, and what it hears back.

A Selectable owns every connection of one client. Its caller follows one rhythm:

    connect / send / close     begin at once what needs no waiting; under the caller's lock, on any thread
    select(timeout_ms)         the only call that blocks; without a lock, on one thread at a time; changes nothing
    process(ready, now_ms)     does the I/O that is possible and says what happened; under the lock

While one thread is in select(), others may connect, send, close and even process(): what select() returns then is taken as a hint.
wakeup() may be called from any thread, with or without the lock. The Selector works on sockets, the simulation on links in memory.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeAlias

from levada.errors import ProtocolError
from levada.net.tls.errors import TlsError
from levada.wire.varint import Bytes

Frame: TypeAlias = bytes | memoryview
Pieces: TypeAlias = Sequence[Bytes]
"""One frame on its way out, in the pieces that follow one another."""
ConnId: TypeAlias = Any
"""What the caller names a connection by: anything hashable. The client takes its connection keys."""


class ChannelState(Enum):
    """How far a connection had come when it ended."""

    NOT_CONNECTED = "not connected"
    AUTHENTICATE = "authenticating"
    READY = "ready"
    EXPIRED = "expired"
    FAILED_SEND = "failed send"
    AUTHENTICATION_FAILED = "authentication failed"
    LOCAL_CLOSE = "local close"


class Ending(Enum):
    """By what a connection ended."""

    UNRESOLVED = "the host name does not resolve"
    LOOKUP_TIMED_OUT = "the host name was not looked up in time"
    REFUSED = "connection refused"
    UNREACHABLE = "the host cannot be reached"
    CONNECT_TIMED_OUT = "the connection was not made in time"
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
    """The end of a connection. first_bytes: what the other side had sent at the very beginning, for diagnose()."""

    state: ChannelState
    cause: str
    ending: Ending = Ending.FAILED
    first_bytes: bytes = b""


@dataclass(slots=True)
class NetEvents:
    """What happened in one process().

    sent: connections whose parked frame went out since; a frame that send() wrote at once is not among them.
    received holds at most one frame per connection, without its size prefix; what is left is handed out by the next process().
    Frames that arrived before the other side closed come before the disconnect, in earlier events.
    """

    connected: list[ConnId] = field(default_factory=list)
    sent: list[ConnId] = field(default_factory=list)
    received: list[tuple[ConnId, Frame]] = field(default_factory=list)
    disconnected: dict[ConnId, Disconnect] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.connected or self.sent or self.received or self.disconnected)


class Selectable(Protocol):
    """Connections by id."""

    def connect(self, conn_id: ConnId, host: str, port: int, now_ms: int) -> None:
        """Begin to connect, at once; the outcome is an event. IllegalStateError when the id is in use."""
        ...

    def ending_if_late(self, conn_id: ConnId) -> Ending:
        """Return by what a connection that is not made yet ends if its time is over now: one of those with TIMED_OUT."""
        ...

    def send(self, conn_id: ConnId, frame: Pieces) -> bool:
        """Write one frame, size prefix included, as far as it goes now; True when all of it went: then no event follows.

        frame: its pieces, which must stay as they are until it went or the connection ended. What did not go at once, `sent` reports later,
        or `disconnected` that the write failed. IllegalStateError while another frame is parked.
        """
        ...

    def close(self, conn_id: ConnId) -> None:
        """Close and forget a connection; no event follows. Unknown ids are ignored."""
        ...

    def forget(self, conn_id: ConnId) -> None:
        """Close a connection, and drop what is kept for the next one of this id, such as which address is tried next."""
        ...

    def select(self, timeout_ms: int) -> Any:
        """Wait until something can be done, a wakeup, or the time; return what process() wants to be handed. Changes nothing.

        It may return a little before the time, with nothing; the caller waits for the rest then.
        """
        ...

    def process(self, ready: Any, now_ms: int) -> NetEvents:
        """Do the I/O that is possible without waiting."""
        ...

    @property
    def has_events(self) -> bool:
        """Whether process() has something to tell although no socket is ready."""
        ...

    def wakeup(self) -> None:
        """End the running select(), or the next one, at once. From any thread."""
        ...

    def notify(self) -> None:
        """As wakeup(), and seen by an event loop, too, that only watches whether there is something to select."""
        ...

    def shutdown(self) -> None:
        """Close everything, for ever."""
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
    """Return by what a connection ended that met this error."""
    if isinstance(error, ProtocolError):
        return Ending.BAD_FRAME
    if isinstance(error, TlsError):
        return Ending.TLS_REFUSED if error.is_refusal else Ending.TLS_FAILED
    return _ENDINGS.get(error.errno or 0, Ending.FAILED) if isinstance(error, OSError) else Ending.FAILED


def text_of(error: Exception) -> str:
    """Return the short form of an error."""
    if isinstance(error, OSError) and error.errno is not None:
        return errno.errorcode.get(error.errno, str(error))
    return str(error) or type(error).__name__
