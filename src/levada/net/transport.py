"""What a channel reads from and writes to: bare TCP here; TLS puts itself between with the same interface (L13).

Reads and writes never wait: "not now" is None or 0, an end is b"" as zero bytes read, and trouble is an OSError.
"""

from __future__ import annotations

from typing import Protocol


class SocketLike(Protocol):
    """The part of a connected, non-blocking socket that a transport uses."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Read what is there."""
        ...

    def send(self, data: memoryview, /) -> int:
        """Write what fits."""
        ...

    def close(self) -> None:
        """Release the descriptor."""
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

    def handshake(self) -> None:
        """Go on with the handshake as far as the bytes at hand allow."""
        ...

    def read_into(self, buffer: memoryview) -> int | None:
        """Return how many bytes were read, 0 at the end of the stream, None when there are none now."""
        ...

    def write(self, data: memoryview) -> int:
        """Return how many bytes were taken, 0 when none can be now."""
        ...

    def close(self) -> None:
        """Close the socket."""
        ...


class PlaintextTransport:
    """TCP as it is: always ready, nothing buffered in user space."""

    __slots__ = ("_socket",)

    ready = True
    has_buffered = False

    def __init__(self, socket: SocketLike) -> None:
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

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
