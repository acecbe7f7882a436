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
    """An accepted connection. events: those that the selector watches, 0 while it is not registered. memory: counts its unfinished
    request.
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
        """Read up to a limit of what has arrived; False if the client has closed the connection."""
        while received := self.transport.read_into(self.reader.get_buffer()[:limit]):
            self.frames.extend(self.reader.received(received))
            if not self.transport.has_buffered:
                break
        self.memory.hold(self.id, self.reader.large_bytes)
        return received != 0

    def logged_in(self, max_frame_bytes: int, memory: ReceiveMemory) -> None:
        """Apply other limits after the login. A part of the next request may be here already."""
        self.reader.max_frame_bytes = max_frame_bytes
        self.memory.hold(self.id, 0)
        self.memory = memory
        memory.hold(self.id, self.reader.large_bytes)

    def send(self, limit: int | None) -> None:
        """Write as much as the socket accepts, with at most `limit` bytes per call to the system."""
        self.unsent.write(self.transport, limit)


def address_text(address: tuple[Any, ...]) -> str:
    """Return host:port of an IPv4 or IPv6 address."""
    host, port = address[:2]
    # An IPv6 socket that also accepts IPv4 names 192.0.2.1 like this. ACLs and quotas are about 192.0.2.1, as in Kafka.
    host = host.removeprefix(_OF_IPV4) if "." in host else host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
