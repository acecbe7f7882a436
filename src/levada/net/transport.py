"""The transport of a connection: plaintext TCP here; net/tls has the same interface. As Java's TransportLayer.

Client and broker use the same transports. Reads, writes and the handshake never wait: None or 0 mean "not now", zero bytes read mean the
end of the stream, and failures are OSErrors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from levada.net import short_io

SHORT_BYTES = 1 << 16
"""Copying this much takes less time than getting the interpreter's lock back from a busy thread."""


class SocketLike(Protocol):
    """The part of a connected, non-blocking socket that a transport uses."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Read the bytes that have arrived."""
        ...

    def send(self, data: memoryview, /) -> int:
        """Write as much as fits."""
        ...

    def sendmsg(self, pieces: Sequence[memoryview], /) -> int:
        """Write as much as fits of several pieces."""
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
        """Whether the handshake is done and application bytes may be sent."""
        ...

    @property
    def has_buffered(self) -> bool:
        """Whether bytes can be read although the socket itself is not readable."""
        ...

    @property
    def wants_write(self) -> bool:
        """Whether the handshake waits for the socket to take bytes; otherwise it waits for bytes to arrive."""
        ...

    @property
    def peer_name(self) -> str:
        """The subject of the other side's certificate, "" without one."""
        ...

    def handshake(self) -> None:
        """Continue the handshake as far as possible now; `ready` says whether it is done. Raises OSError when it failed."""
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
    """Plaintext TCP: always ready, without buffers of its own. host: the name of the other side, which is not verified."""

    __slots__ = ("_socket",)

    ready = True
    has_buffered = False
    wants_write = False
    peer_name = ""

    def __init__(self, socket: SocketLike, host: str = "") -> None:
        self._socket = socket

    def handshake(self) -> None:
        """Do nothing: plaintext has no handshake."""

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
    """Return the best plaintext transport for this system."""
    return (PromptTransport if short_io.COMPILED else PlaintextTransport)(socket, host)
