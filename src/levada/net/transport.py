"""The transport of a connection: plaintext TCP here; net/tls has the same interface. As Java's TransportLayer.

Client and broker use the same transports. Reads, writes and the handshake never wait. A read returns None if no bytes have arrived, and 0
at the end of the stream. A write returns 0 if nothing can be written now. Failures are OSErrors.
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
        """Read bytes that have arrived into a buffer; return how many, 0 at the end of the stream. Raises BlockingIOError without bytes."""
        ...

    def send(self, data: memoryview, /) -> int:
        """Write as many bytes as the socket takes; return how many. Raises BlockingIOError if it takes none now."""
        ...

    def sendmsg(self, pieces: Sequence[memoryview], /) -> int:
        """Write several pieces, as many bytes as the socket takes; return how many. Raises BlockingIOError if it takes none now."""
        ...

    def close(self) -> None:
        """Close the descriptor."""
        ...

    def fileno(self) -> int:
        """Return the descriptor."""
        ...


class TransportLayer(Protocol):
    """A connected byte stream, for example over TLS."""

    @property
    def ready(self) -> bool:
        """Whether the handshake is done and application bytes may be sent."""
        ...

    @property
    def has_buffered(self) -> bool:
        """Whether read_into() has a result although the socket is not readable: bytes, the end of the stream, or an error."""
        ...

    @property
    def wants_write(self) -> bool:
        """Whether the handshake waits until the socket can be written to; otherwise it waits for bytes to arrive."""
        ...

    @property
    def peer_name(self) -> str:
        """The subject of the other side's certificate; "" without a certificate."""
        ...

    def handshake(self) -> None:
        """Continue the handshake as far as possible now. `ready` tells whether it is done. Raises OSError if it has failed."""
        ...

    def read_into(self, buffer: memoryview) -> int | None:
        """Read into a buffer; return the number of bytes, 0 at the end of the stream, None if no bytes have arrived."""
        ...

    def write(self, data: memoryview) -> int:
        """Write bytes; return how many were written, 0 if none can be written now. After 0, the same bytes have to be passed again."""
        ...

    def write_pieces(self, pieces: Sequence[memoryview]) -> int:
        """Write several pieces one after the other, with one system call if possible; return the number of bytes like write()."""
        ...

    def close(self) -> None:
        """Close the socket."""
        ...


class PlaintextTransport:
    """A plaintext TCP connection. It is always ready, and buffers nothing."""

    __slots__ = ("_socket",)

    ready = True
    has_buffered = False
    wants_write = False
    peer_name = ""

    def __init__(self, socket: SocketLike) -> None:
        self._socket = socket

    def handshake(self) -> None:
        """Do nothing: plaintext has no handshake."""

    def read_into(self, buffer: memoryview) -> int | None:
        """Read into a buffer; return the number of bytes, 0 at the end of the stream, None if no bytes have arrived."""
        try:
            return self._socket.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return None

    def write(self, data: memoryview) -> int:
        """Write bytes; return how many were written, 0 if none can be written now."""
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0

    def write_pieces(self, pieces: Sequence[memoryview]) -> int:
        """Write several pieces with one system call; return the number of bytes like write()."""
        try:
            return self._socket.sendmsg(pieces)
        except (BlockingIOError, InterruptedError):
            return 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class PromptTransport(PlaintextTransport):
    """A plaintext TCP connection whose short reads and writes keep the interpreter's lock, so that busy threads do not delay them (see
    short_io).
    """

    __slots__ = ()

    def read_into(self, buffer: memoryview) -> int | None:
        """Read into a buffer; return the number of bytes, 0 at the end of the stream, None if no bytes have arrived."""
        if len(buffer) > SHORT_BYTES:
            return super().read_into(buffer)
        return short_io.receive(self._socket.fileno(), buffer)

    def write(self, data: memoryview) -> int:
        """Write bytes; return how many were written, 0 if none can be written now."""
        if len(data) > SHORT_BYTES:
            return super().write(data)
        return short_io.write(self._socket.fileno(), data)


def plaintext(socket: SocketLike, host: str = "") -> PlaintextTransport:
    """Return the best plaintext transport for this system. host: not used, as only TLS needs the name."""
    return (PromptTransport if short_io.COMPILED else PlaintextTransport)(socket)
