"""A BrokerNode on TCP ports, one for each listener that is served. In the broker, only this module has sockets, a thread and a clock.

One thread waits for all sockets. A connection is not read while one of its requests waits or a response is unsent. So a client that sends
without reading is slowed down by TCP, and its requests take no memory. While a request is in process, only small ones are read ahead.
The time for the TLS handshake and the login is limited, and so is the size of requests until the login is done. Responses are sent by
gathering writes of whole buffers. The node is only used with `lock` held, and the lock is never held while waiting.
"""

from __future__ import annotations

import errno
import ipaddress
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from levada.base.clock import NEVER_MS, Clock, SystemClock, first_wait_s
from levada.broker.network.peer import Peer, address_text
from levada.broker.network.receive_memory import LOGIN_BYTES, ReceiveMemory
from levada.broker.node.node import BrokerNode
from levada.errors import ConfigError, ConnectError, IllegalStateError, ProtocolError, TimeoutError
from levada.logs import Log
from levada.net.transport import PlaintextTransport, TransportLayer
from levada.wire.varint import Bytes

T = TypeVar("T")

_log = Log("levada.broker")

_BACKLOG = 1024
_ACCEPT_PAUSE_MS = 1_000
_CLOSE_TIMEOUT_S = 10.0


@dataclass(slots=True, eq=False)
class Endpoint:
    """The port at which a server serves one listener.

    listener: the listener's name, "" for the node's first listener. port: 0 for any free port; start() replaces 0 by the actual port.
    transport: creates the transport layer of an accepted connection.
    """

    listener: str = ""
    port: int = 0
    transport: Callable[[socket.socket], TransportLayer] = PlaintextTransport
    socket: socket.socket | None = field(default=None, repr=False)


class InsecureListenError(ConfigError):
    """The server refuses to listen: other machines could reach a broker whose clients need not log in over TLS. reason: the message without
    the advice for programs.
    """

    def __init__(self, host: str) -> None:
        self.reason = f"{host} can be reached from other machines, and clients need not log in to this broker over TLS"
        super().__init__(f"{self.reason}; listen on 127.0.0.1, or pass insecure_listen=True (--insecure-listen) if you want that")


class BrokerServer:
    """Serves a node on ports of a host.

    endpoints: by default one, for the node's first listener. advertised_host: the host in Metadata responses, by default `host`.
    insecure_listen: whether to allow a host that other machines can reach; if not, start() raises InsecureListenError for it. The server
    does not check whether clients have to log in. lock: all servers whose nodes share a cluster need the same lock.
    """

    def __init__(
        self,
        node: BrokerNode,
        *,
        host: str = "127.0.0.1",
        endpoints: Sequence[Endpoint] | None = None,
        advertised_host: str | None = None,
        insecure_listen: bool = False,
        clock: Clock | None = None,
        lock: threading.RLock | None = None,
    ) -> None:
        self.node = node
        node.measure_work(time.thread_time_ns)
        self.lock = lock or threading.RLock()
        self.host = host
        self.endpoints = list(endpoints or [Endpoint()])
        self._advertised_host = advertised_host or host
        self._insecure_listen = insecure_listen
        self._clock = clock or SystemClock()
        self._selector = selectors.DefaultSelector()
        self._peers: dict[int, Peer] = {}
        self._runnable: deque[Peer] = deque()
        self._held_back: dict[int, Peer] = {}
        self._logging_in: dict[int, Peer] = {}
        """Connections with an unfinished handshake or login, the oldest first."""
        self._memory = ReceiveMemory(node.settings.queued_max_request_bytes)
        self._login_memory = ReceiveMemory(LOGIN_BYTES, "for connections that have not logged in")
        self._ids = count(1)
        self._accept_again_ms = 0
        self._next_sweep_ms = 0
        self._wake_read, self._wake_write = socket.socketpair()
        self._thread: threading.Thread | None = None
        self._stopping = False

    # For the owner, callable from any thread

    def start(self) -> None:
        """Listen and serve in a daemon thread. Raises ConnectError if a port cannot be used or the host is no address of this machine,
        InsecureListenError (ConfigError) for a host that is not allowed, IllegalStateError if it was started before.
        """
        if self._thread is not None:
            raise IllegalStateError("the broker was already started")
        try:
            for endpoint in self.endpoints:
                self._listen(endpoint)
        except BaseException:
            self._close_sockets()
            raise
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._accept_from_now_on()
        # Not earlier: this creates a reference cycle, which would keep the sockets open if the broker is never started.
        self.node.faults.on_release(self.wakeup)
        self._thread = threading.Thread(target=self._serve, name=f"levada-broker-{self.port}", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port of the first endpoint."""
        return self.endpoints[0].port

    @property
    def address(self) -> str:
        """The first endpoint as host:port, with the advertised host."""
        return self.address_of(self.endpoints[0])

    def address_of(self, endpoint: Endpoint) -> str:
        """Return an endpoint as host:port, with the advertised host."""
        host = f"[{self._advertised_host}]" if ":" in self._advertised_host else self._advertised_host
        return f"{host}:{endpoint.port}"

    def call(self, function: Callable[[], T]) -> T:
        """Call a function that reads or changes the node, and return its result. Meanwhile the server's thread does not use the node, and
        the node's clock is up to date.
        """
        with self.lock:
            self.node.advance(self._now_ms())
            result = function()
        self.wakeup()
        return result

    def wait(self) -> None:
        """Wait until the server has been closed, for a process that does nothing else. Without start(), return at once."""
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Close all connections and ports, and end the thread. Further calls have no effect.

        Raises TimeoutError if the thread does not end within 10 s.
        """
        self._stopping = True
        if self._thread is None:
            self._close_sockets()
            return
        self.wakeup()
        self._thread.join(_CLOSE_TIMEOUT_S)
        if self._thread.is_alive():
            raise TimeoutError(f"the broker's thread did not end within {_CLOSE_TIMEOUT_S:.0f} s")

    # The thread

    def _serve(self) -> None:
        try:
            while not self._stopping:
                self._step()
        finally:
            # Other nodes of the cluster may continue, and have to forget this node's requests.
            with self.lock:
                self._close_sockets()

    def _step(self) -> None:
        with self.lock:
            now_ms = self._now_ms()
            deadline_ms = min(self.node.advance(now_ms), self._run_due(now_ms))
            if self._exchange():
                deadline_ms = now_ms
        ready = self._selector.select(first_wait_s(max(deadline_ms - self._now_ms(), 0) / 1000))
        with self.lock:
            for key, events in ready:
                self._on_ready(key, events)
            self._exchange()

    def _now_ms(self) -> int:
        now_ms = self._clock.now_ms()
        self.node.wall_offset_ms = self._clock.wall_ms() - now_ms
        return now_ms

    def _on_ready(self, key: selectors.SelectorKey, events: int) -> None:
        if isinstance(key.data, Endpoint):
            self._accept(key.data)
        elif key.fileobj is self._wake_read:
            self._drain_wakeups()
        else:
            self._on_peer(key.data, events)

    def _on_peer(self, peer: Peer, events: int) -> None:
        peer.active_ms = self._clock.now_ms()
        try:
            if not peer.transport.ready:
                self._continue_handshake(peer)
                return
            if events & selectors.EVENT_WRITE:
                peer.send(self.node.faults.bytes_at_a_time)
            # Check again: connections that were read before in this step may have used the memory.
            if events & selectors.EVENT_READ and self._may_be_read(peer):
                self._receive(peer)
            self._runnable.append(peer)
        except (OSError, ProtocolError) as fault:
            self._drop(peer, str(fault))

    def _continue_handshake(self, peer: Peer) -> None:
        peer.transport.handshake()
        if peer.transport.ready:
            self.node.identify(peer.id, peer.transport.peer_name)
        if peer.transport.ready and peer.transport.has_buffered:
            self._receive(peer)
        if peer.transport.ready:
            self._runnable.append(peer)
        else:
            self._watch(peer, selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.transport.wants_write else 0))

    def _receive(self, peer: Peer) -> None:
        if not peer.receive(self.node.faults.bytes_at_a_time):
            self._drop(peer, "closed by the client")

    def _exchange(self) -> bool:
        """Pass received requests to the node and its responses to the sockets, until no more can be passed now. Returns whether there were
        requests.
        """
        any_requests = False
        self._deliver()
        self._runnable.extend(self._held_back.values())
        self._held_back.clear()
        while self._runnable:
            peer = self._runnable.popleft()
            if peer.id not in self._peers:
                continue
            if peer.frames and not peer.unsent and not self.node.is_busy(peer.id):
                self._process(peer)
                self._deliver()
                any_requests = True
            elif peer.frames:
                self._held_back[peer.id] = peer
            self._settle(peer)
        return any_requests

    def _process(self, peer: Peer) -> None:
        try:
            self.node.receive(peer.id, peer.frames.popleft(), self._now_ms())
        except Exception as bug:
            # A bug in the broker must not close the other connections.
            _log.error("closing connection %d", peer.id, error=bug)
            self._drop(peer, "internal error")
        if peer.frames:
            self._runnable.append(peer)

    def _deliver(self) -> None:
        for peer_id, frame in self.node.outgoing_pieces():
            peer = self._peers.get(peer_id)
            if peer is None:
                continue
            if frame is None:
                peer.closing = True
            else:
                self._send(peer, frame)
            self._runnable.append(peer)

    def _send(self, peer: Peer, frame: list[Bytes]) -> None:
        peer.unsent.add(frame)
        try:
            peer.send(self.node.faults.bytes_at_a_time)
        except OSError as fault:
            self._drop(peer, str(fault))

    def _settle(self, peer: Peer) -> None:
        if peer.id not in self._peers:
            return
        if peer.closing and not peer.unsent:
            self._drop(peer, "closed by the broker")
            return
        if peer.reader.fault and not peer.frames and not peer.unsent and not self.node.is_busy(peer.id):
            self._drop(peer, str(peer.reader.fault))
            return
        if peer.id in self._logging_in and peer.transport.ready and not self.node.has_to_log_in(peer.id):
            del self._logging_in[peer.id]
            peer.logged_in(self.node.settings.socket_request_max_bytes, self._memory)
        events = selectors.EVENT_WRITE if peer.unsent else 0
        if not peer.frames and not peer.unsent:
            if self._may_be_read(peer):
                events = selectors.EVENT_READ
            else:
                self._held_back[peer.id] = peer
        self._watch(peer, events)

    def _may_be_read(self, peer: Peer) -> bool:
        """Return whether more bytes may be read from a client. Bytes of a large request are read only if there is memory for them and no
        other request of the client is processed.
        """
        return not peer.reader.large_bytes or (peer.memory.may_read(peer.id) and not self.node.is_busy(peer.id))

    def _watch(self, peer: Peer, events: int) -> None:
        if events == peer.events:
            return
        if not peer.events:
            self._selector.register(peer.socket, events, peer)
        elif not events:
            self._selector.unregister(peer.socket)
        else:
            self._selector.modify(peer.socket, events, peer)
        peer.events = events

    def _drop(self, peer: Peer, reason: str) -> None:
        if self._peers.pop(peer.id, None) is None:
            return
        _log.debug("connection %d ended: %s", peer.id, reason)
        self._logging_in.pop(peer.id, None)
        peer.memory.hold(peer.id, 0)
        self.node.disconnect(peer.id)
        self._watch(peer, 0)
        peer.transport.close()

    # Accepting and closing connections

    def _accept_from_now_on(self) -> None:
        for endpoint in self.endpoints:
            assert endpoint.socket is not None
            self._selector.register(endpoint.socket, selectors.EVENT_READ, endpoint)

    def _accept(self, endpoint: Endpoint) -> None:
        assert endpoint.socket is not None
        if self._accept_again_ms:
            return
        try:
            sock, address = endpoint.socket.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as fault:
            # Most likely the process has no file descriptors left. The listener stays ready, so without a pause this loop would spin.
            _log.warning("cannot accept connections for now: %s", fault)
            self._accept_no_more()
            self._accept_again_ms = self._now_ms() + _ACCEPT_PAUSE_MS
            return
        if len(self._peers) >= self.node.settings.max_connections and self._logging_in:
            # A client that never logs in must not keep others out.
            self._drop(next(iter(self._logging_in.values())), "another one takes its place: max_connections")
        if len(self._peers) >= self.node.settings.max_connections:
            _log.warning("connection refused: max_connections=%d", self.node.settings.max_connections)
            sock.close()
            return
        self._add_peer(endpoint, sock, address_text(address))

    def _accept_no_more(self) -> None:
        for endpoint in self.endpoints:
            assert endpoint.socket is not None
            self._selector.unregister(endpoint.socket)

    def _add_peer(self, endpoint: Endpoint, sock: socket.socket, address: str) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        settings, peer_id, transport = self.node.settings, next(self._ids), endpoint.transport(sock)
        self.node.connect(peer_id, address, endpoint.listener)
        has_to_log_in = self.node.has_to_log_in(peer_id)
        limit = settings.sasl_server_max_receive_size if has_to_log_in else settings.socket_request_max_bytes
        memory = self._login_memory if has_to_log_in else self._memory
        peer = self._peers[peer_id] = Peer(peer_id, sock, transport, limit, memory, self._now_ms())
        if has_to_log_in or not transport.ready:
            self._logging_in[peer_id] = peer
        self._watch(peer, selectors.EVENT_READ)

    def _run_due(self, now_ms: int) -> int:
        """Resume accepting connections after a pause, and close idle or late connections. Returns when to be called again, in ms."""
        if self._accept_again_ms and self._accept_again_ms <= now_ms:
            self._accept_again_ms = 0
            self._accept_from_now_on()
        if self._next_sweep_ms <= now_ms:
            self._end_idle(now_ms)
            self._next_sweep_ms = now_ms + max(self.node.settings.connections_max_idle_ms // 10, 10)
        next_turn_ms = min(self._end_late_request(memory, now_ms) for memory in (self._memory, self._login_memory))
        next_login_ms = self._end_late_logins(now_ms)
        return min(self._next_sweep_ms, self._accept_again_ms or self._next_sweep_ms, next_login_ms, next_turn_ms)

    def _end_late_logins(self, now_ms: int) -> int:
        """Close connections whose TLS handshake and login take too long. Returns when the next one will be too late, in ms; NEVER_MS if
        there is none.
        """
        limit_ms = self.node.settings.connections_max_login_ms
        for peer in list(self._logging_in.values()):
            if now_ms < peer.accepted_ms + limit_ms:
                return peer.accepted_ms + limit_ms
            self._drop(peer, f"not logged in after connections_max_login_ms={limit_ms}")
        return NEVER_MS

    def _end_late_request(self, memory: ReceiveMemory, now_ms: int) -> int:
        """Close the connection whose unfinished request has blocked the memory for too long. Returns when to check again, in ms."""
        late = memory.late(now_ms)
        if late is not None:
            text = "connection %d is closed: its request is not complete, and others wait for memory: %s=%d"
            _log.warning(text, late, memory.name, memory.limit_bytes)
            self._drop(self._peers[late], "its request was not complete in time")
        return memory.next_deadline_ms

    def _end_idle(self, now_ms: int) -> None:
        oldest_ms = now_ms - self.node.settings.connections_max_idle_ms
        for peer in list(self._peers.values()):
            if peer.active_ms < oldest_ms and not self.node.is_busy(peer.id):
                self._drop(peer, "idle for connections.max.idle.ms")

    # Sockets

    def _listen(self, endpoint: Endpoint) -> None:
        try:
            found = socket.getaddrinfo(self.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except OSError as fault:
            raise ConnectError(f"{self.host} is not an address of this machine ({fault.strerror})") from fault
        family, kind, protocol, _, address = found[0]
        self._check_local(str(address[0]))
        endpoint.socket = listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
            listener.setblocking(False)
        except OSError as fault:
            raise ConnectError(_bind_error_text(self.host, endpoint.port, fault)) from fault
        endpoint.port = listener.getsockname()[1]
        self.node.advertise(self._advertised_host, endpoint.port, endpoint.listener)

    def _check_local(self, address: str) -> None:
        if not ipaddress.ip_address(address).is_loopback and not self._insecure_listen:
            raise InsecureListenError(self.host)

    def _close_sockets(self) -> None:
        self.node.faults.off_release(self.wakeup)
        for peer in list(self._peers.values()):
            self._drop(peer, "the broker ends")
        self._selector.close()
        for sock in (*(endpoint.socket for endpoint in self.endpoints), self._wake_read, self._wake_write):
            if sock is not None:
                sock.close()

    def wakeup(self) -> None:
        """Wake the server's thread from another thread, so that it runs its next step. It may also be called after close()."""
        try:
            self._wake_write.send(b"\0")
        except BlockingIOError:
            # The buffer is full of unread wake-ups, of which one is enough.
            pass
        except OSError:
            if not self._stopping:
                raise

    def _drain_wakeups(self) -> None:
        try:
            self._wake_read.recv(4096)
        except BlockingIOError:
            return


def _bind_error_text(host: str, port: int, fault: OSError) -> str:
    if fault.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; choose another one, or 0 for any that is free"
    if fault.errno == errno.EACCES:
        return f"port {port} on {host} needs more rights than this process has; choose one above 1023"
    return f"cannot listen on {host}:{port}: {fault.strerror}"
