"""What a channel reads from and writes to: bare TCP here; TLS puts itself between with the same interface.

Client and broker use the same. Reads, writes and the handshake never wait: "not now" is None or 0, an end is zero bytes read, and what
fails is an OSError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from levada.net import short_io

SHORT_BYTES = 1 << 16
"""What is copied in less time than it takes to get the interpreter's lock back from a busy thread."""


class SocketLike(Protocol):
    """The part of a connected, non-blocking socket that a transport uses."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Read what is there."""
        ...

    def send(self, data: memoryview, /) -> int:
        """Write what fits."""
        ...

    def sendmsg(self, pieces: Sequence[memoryview], /) -> int:
        """Write what fits of several pieces."""
        ...

    def close(self) -> None:
        """Release the descriptor."""
        ...

    def fileno(self) -> int:
        """Return the descriptor."""
        ...


class TransportLayer(Protocol):
    """A connected byte stream."""

    @property
    def ready(self) -> bool:
        """Whether application bytes may flow: any handshake is done."""
        ...

    @property
    def has_buffered(self) -> bool:
        """Whether bytes can be read although the socket itself is not readable."""
        ...

    @property
    def wants_write(self) -> bool:
        """Whether the handshake waits for the socket to take bytes, too; otherwise it waits for some to arrive."""
        ...

    @property
    def peer_name(self) -> str:
        """As whom the other side is known by its certificate, "" without one."""
        ...

    def handshake(self) -> None:
        """Go on with the handshake as far as the bytes at hand allow; `ready` tells whether it is done. OSError when it failed."""
        ...

    def read_into(self, buffer: memoryview) -> int | None:
        """Return how many bytes were read, 0 at the end of the stream, None when there are none now."""
        ...

    def write(self, data: memoryview) -> int:
        """Return how many bytes were taken, 0 when none can be now."""
        ...

    def write_pieces(self, pieces: Sequence[memoryview]) -> int:
        """Write several pieces one after the other, in one call to the system where that is possible; return as write() does."""
        ...

    def close(self) -> None:
        """Close the socket."""
        ...


class PlaintextTransport:
    """TCP as it is: always ready, nothing buffered in user space. host: the name of the other side, which is not verified here."""

    __slots__ = ("_socket",)

    ready = True
    has_buffered = False
    wants_write = False
    peer_name = ""

    def __init__(self, socket: SocketLike, host: str = "") -> None:
        self._socket = socket

    def handshake(self) -> None:
        """There is none."""

    def read_into(self, buffer: memoryview) -> int | None:
        """Return how many bytes were read, 0 at the end of the stream, None when there are none now."""
        try:
            return self._socket.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return None

    def write(self, data: memoryview) -> int:
        """Return how many bytes were taken, 0 when none can be now."""
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0

    def write_pieces(self, pieces: Sequence[memoryview]) -> int:
        """Write several pieces one after the other in one call to the system; return as write() does."""
        try:
            return self._socket.sendmsg(pieces)
        except (BlockingIOError, InterruptedError):
            return 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class PromptTransport(PlaintextTransport):
    """Plaintext whose short reads and writes keep the interpreter's lock, so that a busy thread does not delay them (see short_io)."""

    __slots__ = ()

    def read_into(self, buffer: memoryview) -> int | None:
        """Return how many bytes were read, 0 at the end of the stream, None when there are none now."""
        if len(buffer) > SHORT_BYTES:
            return super().read_into(buffer)
        return short_io.receive(self._socket.fileno(), buffer)

    def write(self, data: memoryview) -> int:
        """Return how many bytes were taken, 0 when none can be now."""
        if len(data) > SHORT_BYTES:
            return super().write(data)
        return short_io.write(self._socket.fileno(), data)


def plaintext(socket: SocketLike, host: str = "") -> PlaintextTransport:
    """Return the best plaintext transport that there is here."""
    return (PromptTransport if short_io.COMPILED else PlaintextTransport)(socket, host)
