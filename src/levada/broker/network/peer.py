"""The other side of one connection that a server has accepted: its socket, and what has come and what is to be sent."""

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
    """One accepted connection. events: what its socket is watched for, 0 while it is not. memory: where its unfinished request counts."""

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
        """Read what has arrived, up to a limit; False when the other side has closed."""
        while received := self.transport.read_into(self.reader.get_buffer()[:limit]):
            self.frames.extend(self.reader.received(received))
            if not self.transport.has_buffered:
                break
        self.memory.hold(self.id, self.reader.large_bytes)
        return received != 0

    def logged_in(self, max_frame_bytes: int, memory: ReceiveMemory) -> None:
        """Take other limits. What was sent behind the login may have come in part."""
        self.reader.max_frame_bytes = max_frame_bytes
        self.memory.hold(self.id, 0)
        self.memory = memory
        memory.hold(self.id, self.reader.large_bytes)

    def send(self, limit: int | None) -> None:
        """Write as much as the socket takes, up to a limit with each call to the system."""
        self.unsent.write(self.transport, limit)


def address_text(address: tuple[Any, ...]) -> str:
    """Return host:port of an address of IPv4 or IPv6."""
    host, port = address[:2]
    # A socket of IPv6 that takes IPv4 too names 192.0.2.1 like this; access rules and quotas are about 192.0.2.1, as in Kafka.
    host = host.removeprefix(_OF_IPV4) if "." in host else host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
