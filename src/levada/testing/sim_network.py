"""A network in memory between tested clients and servers without sockets: bytes take time, and may be lost as with TCP.

TCP delivers bytes in order or not at all, so a "lost response" is a connection that is silent from then on, or that breaks. Every delay
comes from one seeded random generator, and everything happens in one thread, so the same seed gives the same run.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Protocol

from levada.base.clock import NEVER_MS
from levada.errors import IllegalStateError, ProtocolError
from levada.net.selectable import ChannelState, ConnId, Disconnect, Ending, Frame, NetEvents, Pieces
from levada.protocol.api import request_type
from levada.protocol.frame import FrameReader

MAX_FRAME_BYTES = 100 << 20


class SimServer(Protocol):
    """A server on a simulated network, such as the node of an embedded broker. The network calls these methods."""

    def connect(self, conn_id: int) -> None:
        """Accept a client that has connected."""
        ...

    def disconnect(self, conn_id: int) -> None:
        """Forget a client whose connection was closed."""
        ...

    def receive(self, conn_id: int, frame: bytes, now_ms: int) -> None:
        """Process a request. frame: the request without its size prefix."""
        ...

    def outgoing(self) -> list[tuple[int, bytes | None]]:
        """Remove and return the responses to send, each with its connection id and its size prefix. None instead of a response closes the
        connection.
        """
        ...

    def advance(self, now_ms: int) -> int:
        """Do all work that is due at now_ms; return when the next work is due, in ms."""
        ...


@dataclass(slots=True)
class _ResponseFault:
    """A fault of the nth response of an API after the fault was added. api: None for any API. delay_ms: the additional delay; None if the
    response is lost. seen: the number of responses of the API since then.
    """

    api: str | None
    nth: int
    delay_ms: int | None
    seen: int = 0

    def hits(self, api: str) -> bool:
        if self.api not in (None, api):
            return False
        self.seen += 1
        return self.seen == self.nth


@dataclass(slots=True)
class _Link:
    """A connection between a client and a server. server_id: the connection's id at the server. silent: whether no more bytes are delivered
    to the client. asked: the correlation ids and APIs of the requests without a response. arrives_ms: the time of the last delivery in each
    direction.
    """

    client: SimSelectable
    conn_id: ConnId
    server_id: int
    address: tuple[str, int]
    frames: FrameReader
    up: bool = True
    silent: bool = False
    asked: deque[tuple[int, str]] = field(default_factory=deque)
    arrives_ms: dict[str, int] = field(default_factory=dict)


class SimNetwork:
    """A simulated network: its servers, connections and bytes in flight.

    latency_ms: the shortest and the longest delay of a delivery, in ms. chunk_bytes: the most bytes that a client receives at once.
    connections_made: the time in ms and the address of each attempt to connect.
    """

    def __init__(self, random: Random, now_ms: Callable[[], int], latency_ms: tuple[int, int] = (1, 1)) -> None:
        self.latency_ms = latency_ms
        self.chunk_bytes = 1 << 20
        self._random = random
        self._now_ms = now_ms
        self._servers: dict[tuple[str, int], SimServer] = {}
        self._links: dict[int, _Link] = {}
        self._numbers = count(1)
        self._wire: list[tuple[int, int, Callable[[], None]]] = []
        self._down: set[tuple[str, int]] = set()
        self._blackholes: set[tuple[str, int]] = set()
        self._faults: list[_ResponseFault] = []
        self.connections_made: list[tuple[int, tuple[str, int]]] = []

    # Servers and clients

    def add_server(self, server: SimServer, host: str, port: int) -> None:
        """Let clients reach a server at an address."""
        self._servers[host, port] = server

    def selectable(self) -> SimSelectable:
        """Return a new object through which one client uses the network."""
        return SimSelectable(self)

    # Faults

    def drop_response(self, api: str | None = None, nth: int = 1) -> None:
        """Lose the nth response of an API from now on. The request is executed, and its connection stays open, but the client gets no more
        bytes on it.

        api: None for any API.
        """
        self._faults.append(_ResponseFault(api, nth, None))

    def delay_response(self, api: str | None, ms: int, nth: int = 1) -> None:
        """Delay the nth response of an API from now on. api: None for any API. ms: the additional delay in milliseconds."""
        self._faults.append(_ResponseFault(api, nth, ms))

    def disconnect(self, host: str, port: int) -> None:
        """Break all connections to an address. New connections are still accepted. Clients do not notice it on connections that
        drop_response() or blackhole() has made silent.
        """
        for link in [link for link in self._links.values() if link.address == (host, port)]:
            self._break(link, Ending.RESET)

    def stop(self, host: str, port: int) -> None:
        """Break all connections to an address, and refuse new ones until start()."""
        self._down.add((host, port))
        self.disconnect(host, port)

    def start(self, host: str, port: int) -> None:
        """Accept connections to an address again, after stop() or blackhole()."""
        self._down.discard((host, port))
        self._blackholes.discard((host, port))

    def blackhole(self, host: str, port: int) -> None:
        """Lose all bytes to and from an address until start(). Connections are not closed, but a client gets no more bytes on those that
        exist, not even after start(). A connection that is begun meanwhile is never established.
        """
        self._blackholes.add((host, port))
        for link in self._links.values():
            link.silent = link.silent or link.address == (host, port)

    # Time

    def next_ms(self) -> int:
        """Return the time of the next delivery in ms, NEVER_MS if there is none."""
        return self._wire[0][0] if self._wire else NEVER_MS

    def deliver_due(self) -> bool:
        """Deliver all bytes and events that are due. Returns whether there were any."""
        delivered = False
        while self._wire and self._wire[0][0] <= self._now_ms():
            heapq.heappop(self._wire)[2]()
            delivered = True
        return delivered

    def advance_servers(self) -> int:
        """Let all servers do the work that is due, and send their responses. Returns when a server has work again, in ms."""
        next_ms = NEVER_MS
        for server in self._servers.values():
            next_ms = min(next_ms, server.advance(self._now_ms()))
            self._collect(server)
        return next_ms

    def _schedule(self, link: _Link, lane: str, what: Callable[[], None], extra_ms: int = 0) -> None:
        """Schedule a call of `what` after the latency of the network. lane: the direction, "up" or "down"; calls of one link and lane keep
        their order.

        extra_ms: an additional delay.
        """
        earliest_ms = self._now_ms() + self._random.randint(*self.latency_ms) + extra_ms
        at_ms = link.arrives_ms[lane] = max(earliest_ms, link.arrives_ms.get(lane, 0))
        heapq.heappush(self._wire, (at_ms, next(self._numbers), what))

    # From clients

    def connect(self, client: SimSelectable, conn_id: ConnId, address: tuple[str, int]) -> _Link:
        """Begin to connect a client to an address. The client gets the outcome as an event later, or never if the address is a
        blackhole.
        """
        link = _Link(client, conn_id, next(self._numbers), address, FrameReader(MAX_FRAME_BYTES), silent=address in self._blackholes)
        self._links[link.server_id] = link
        self.connections_made.append((self._now_ms(), address))
        if not link.silent:
            self._schedule(link, "down", lambda: self._connected(link))
        return link

    def _connected(self, link: _Link) -> None:
        server = self._servers.get(link.address)
        if server is None or link.address in self._down:
            self._links.pop(link.server_id, None)
            link.client.lost(link, Disconnect(ChannelState.NOT_CONNECTED, "", Ending.REFUSED))
        elif link.up:
            server.connect(link.server_id)
            link.client.opened(link)

    def send(self, link: _Link, data: bytes) -> None:
        """Send a request to the server. It is lost if the address is a blackhole, or if the connection breaks before it arrives."""
        if link.address not in self._blackholes:
            self._schedule(link, "up", lambda: self._arrived(link, data))

    def _arrived(self, link: _Link, data: bytes) -> None:
        if not link.up or link.address in self._blackholes:
            return
        server = self._servers[link.address]
        frame = data[4:]
        api_key, correlation_id = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[4:8], "big", signed=True)
        link.asked.append((correlation_id, request_type(api_key).NAME))
        server.receive(link.server_id, frame, self._now_ms())
        self._collect(server)

    def closed_by_client(self, link: _Link) -> None:
        """Close a connection because the client has closed it. The server is told at once, unless its address is a blackhole."""
        link.up = False
        if self._links.pop(link.server_id, None) is not None and link.address not in self._blackholes and link.address in self._servers:
            self._servers[link.address].disconnect(link.server_id)

    # From servers

    def _collect(self, server: SimServer) -> None:
        for server_id, data in server.outgoing():
            link = self._links.get(server_id)
            if link is not None and link.up:
                self._respond(link, data)

    def _respond(self, link: _Link, data: bytes | None) -> None:
        if data is None:
            self._break(link, Ending.CLOSED)
            return
        delay_ms = self._fault_delay_ms(self._api_of(link, data))
        link.silent = link.silent or delay_ms is None
        if not link.silent:
            self._schedule(link, "down", lambda: link.client.arrived(link, data, self.chunk_bytes), delay_ms or 0)

    def _api_of(self, link: _Link, data: bytes) -> str:
        correlation_id = int.from_bytes(data[4:8], "big", signed=True)
        while link.asked:
            asked_id, api = link.asked.popleft()  # Skips earlier requests, which have no response.
            if asked_id == correlation_id:
                return api
        return ""

    def _fault_delay_ms(self, api: str) -> int | None:
        """Count a response of an API for all faults, and remove the faults that apply to it. Returns its additional delay in ms, None if it
        is to be lost.
        """
        hits = [fault for fault in self._faults if fault.hits(api)]
        self._faults = [fault for fault in self._faults if fault not in hits]
        if any(fault.delay_ms is None for fault in hits):
            return None
        return sum(fault.delay_ms or 0 for fault in hits)

    def _break(self, link: _Link, ending: Ending) -> None:
        if self._links.pop(link.server_id, None) is None:
            return
        link.up = False
        # A connection that is being established may have no server.
        if link.address in self._servers:
            self._servers[link.address].disconnect(link.server_id)
        if not link.silent:
            self._schedule(link, "down", lambda: link.client.lost(link, Disconnect(ChannelState.READY, "", ending)))


class SimSelectable:
    """The Selectable of one client on a simulated network. Its select() never waits, because the simulation advances the time.

    Three of four frames are sent at once. Every fourth frame is reported as sent only by the next process(), as if the socket's buffer was
    full.
    """

    def __init__(self, network: SimNetwork) -> None:
        self._network = network
        self._links: dict[ConnId, _Link] = {}
        self._open: set[ConnId] = set()
        self._staged: dict[ConnId, deque[Frame]] = {}
        self._endings: dict[ConnId, Disconnect] = {}
        self._events = NetEvents()
        self._sends = 0

    @property
    def has_events(self) -> bool:
        """Whether the next process() has events to return."""
        return bool(self._events or self._endings or any(self._staged.values()))

    def connect(self, conn_id: ConnId, host: str, port: int, now_ms: int) -> None:
        """Begin to connect to an address; process() returns the outcome as an event. Raises IllegalStateError if the connection id is in
        use.
        """
        if conn_id in self._links or conn_id in self._endings:
            raise IllegalStateError(f"connection {conn_id} exists already")
        self._links[conn_id] = self._network.connect(self, conn_id, (host, port))

    def ending_if_late(self, conn_id: ConnId) -> Ending:
        """Return CONNECT_TIMED_OUT, the ending of every connection that is not established in time: DNS and TLS are not simulated."""
        return Ending.CONNECT_TIMED_OUT

    def send(self, conn_id: ConnId, frame: Pieces) -> bool:
        """Send a frame; return whether it was sent completely. If not, process() reports it as sent later or, if the connection has ended,
        reports only the end.

        Raises IllegalStateError if the connection is not open, and while the previous frame has not been reported as sent.
        """
        if conn_id in self._endings:
            return False
        if conn_id not in self._open or conn_id in self._events.sent:
            raise IllegalStateError(f"connection {conn_id} is not open, or still sending")
        self._network.send(self._links[conn_id], b"".join(frame))
        self._sends += 1
        if self._sends % 4:
            return True
        self._events.sent.append(conn_id)
        return False

    def close(self, conn_id: ConnId) -> None:
        """Close a connection; process() returns no event for it. An unknown id is ignored."""
        link = self._links.pop(conn_id, None)
        if link is not None:
            self._network.closed_by_client(link)
        self._forget(conn_id)
        self._endings.pop(conn_id, None)
        self._events.disconnected.pop(conn_id, None)

    def forget(self, conn_id: ConnId) -> None:
        """Close a connection, like close()."""
        self.close(conn_id)

    def select(self, timeout_ms: int) -> None:
        """Do nothing: the simulation advances time."""

    def process(self, ready: None, now_ms: int) -> NetEvents:
        """Return the events since the last call. At most one received frame per connection is returned; the others, and then the end of the
        connection, follow in later calls.
        """
        events, self._events = self._events, NetEvents()
        for conn_id, frames in self._staged.items():
            if frames:
                events.received.append((conn_id, frames.popleft()))
        for conn_id, ending in list(self._endings.items()):
            if not self._staged.get(conn_id):
                del self._endings[conn_id]
                events.disconnected[conn_id] = ending
        return events

    def wakeup(self) -> None:
        """Do nothing: select() never waits."""

    def notify(self) -> None:
        """Do nothing: there are no other threads."""

    def renew(self) -> None:
        """Do nothing: a simulation shares nothing with another process."""

    def shutdown(self) -> None:
        """Close all connections."""
        for conn_id in list(self._links):
            self.close(conn_id)

    # From the network

    def opened(self, link: _Link) -> None:
        """Store the event that a connection was established. The network calls it."""
        if self._links.get(link.conn_id) is link:
            self._open.add(link.conn_id)
            self._staged[link.conn_id] = deque()
            self._events.connected.append(link.conn_id)

    def arrived(self, link: _Link, data: bytes, chunk_bytes: int) -> None:
        """Store the frames in bytes that have arrived; if the bytes are not valid frames, the connection is lost. The network calls it.
        chunk_bytes: the most bytes that are read at once.
        """
        if self._links.get(link.conn_id) is not link:
            return
        try:
            for frames in _read_in_chunks(link.frames, data, chunk_bytes):
                self._staged[link.conn_id].extend(frames)
        except ProtocolError as error:
            self.lost(link, Disconnect(ChannelState.READY, str(error), Ending.BAD_FRAME, bytes(link.frames.prefix)))

    def lost(self, link: _Link, ending: Disconnect) -> None:
        """Store the event that a connection was lost or could not be established. The network calls it."""
        if self._links.get(link.conn_id) is link:
            del self._links[link.conn_id]
            self._open.discard(link.conn_id)
            self._endings[link.conn_id] = ending

    def _forget(self, conn_id: ConnId) -> None:
        self._open.discard(conn_id)
        self._staged.pop(conn_id, None)
        for events in (self._events.connected, self._events.sent):
            while conn_id in events:
                events.remove(conn_id)


def _read_in_chunks(frames: FrameReader, data: bytes, chunk_bytes: int) -> Iterator[list[Frame]]:
    position = 0
    while position < len(data):
        buffer = frames.get_buffer()
        size = min(chunk_bytes, len(buffer), len(data) - position)
        buffer[:size] = data[position : position + size]
        position += size
        yield frames.received(size)
    if frames.fault is not None:
        raise frames.fault
