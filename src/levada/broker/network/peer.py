"""One accepted connection of a server: its socket, received requests and unsent responses."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from levada.broker.network.connection import Frame
from levada.broker.network.receive_memory import ReceiveMemory
from levada.net.outgoing import Outgoing
from levada.net.transport import SocketLike, TransportLayer
from levada.protocol.frame import FrameReader

_OF_IPV4: Final = "::ffff:"


class Peer:
    """A connection that the server has accepted. events: the events for which the selector watches its socket, 0 while the socket is not
    registered. memory: counts the bytes of its unfinished request.
    """

    __slots__ = ("accepted_ms", "active_ms", "closing", "events", "frames", "id", "memory", "reader", "socket", "transport", "unsent")

    def __init__(
        self, peer_id: int, sock: SocketLike, transport: TransportLayer, max_frame_bytes: int, memory: ReceiveMemory, now_ms: int
    ) -> None:
        self.id = peer_id
        self.socket = sock
        self.transport = transport
        self.reader = FrameReader(max_frame_bytes)
        self.memory = memory
        self.frames: deque[Frame] = deque()
        self.unsent = Outgoing()
        self.events = 0
        self.closing = False
        self.accepted_ms = self.active_ms = now_ms

    def receive(self, limit: int | None) -> bool:
        """Read bytes that have arrived, and add complete requests to `frames`; return False if the client has closed the connection. limit:
        the most bytes per read, None for no limit. Raises OSError, and ProtocolError for a bad frame size.
        """
        while received := self.transport.read_into(self.reader.get_buffer()[:limit]):
            self.frames.extend(self.reader.received(received))
            if not self.transport.has_buffered:
                break
        self.memory.hold(self.id, self.reader.large_bytes)
        return received != 0

    def logged_in(self, max_frame_bytes: int, memory: ReceiveMemory) -> None:
        """Replace the limits of the login phase by those for other requests. Bytes of the next request may have been received already."""
        self.reader.max_frame_bytes = max_frame_bytes
        self.memory.hold(self.id, 0)
        self.memory = memory
        memory.hold(self.id, self.reader.large_bytes)

    def send(self, limit: int | None) -> None:
        """Write as many bytes as the socket accepts. limit: the most bytes per write, None for no limit. Raises OSError."""
        self.unsent.write(self.transport, limit)


def address_text(address: tuple[Any, ...]) -> str:
    """Return host:port of an IPv4 or IPv6 address."""
    host, port = address[:2]
    # An IPv6 socket that also accepts IPv4 names 192.0.2.1 like this. ACLs and quotas are about 192.0.2.1, as in Kafka.
    host = host.removeprefix(_OF_IPV4) if "." in host else host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
