"""The Selector: all sockets of one client, and the only call in which its engine blocks.

select() only waits. It runs on one thread, without a lock, and changes no table; everything else runs under the engine's lock, on any
thread, possibly while that one thread waits. So what select() reports may be out of date when process() gets it: a connection may be
closed by then, and its descriptor belong to another one. process() therefore serves a key only while the object that was registered
with it is still in its table, asks a socket that is said to be connected whether it is, and accepts "not now" as a result everywhere.
epoll, kqueue and /dev/poll see a socket registered while they wait; for the other system calls a wakeup ends the wait. A wakeup also
follows when something to report comes up outside process() while a thread waits.

A frame is first written without asking the operating system whether it would fit, because it nearly always does; write interest is only
registered for the rest. A connection passes through three tables: _opening (its name is looked up, its socket connects, or a proxy
connects to the broker), _channels (it works) and _ending (the other side is gone, but frames that it sent before may still be delivered).
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

from levada.base.clock import first_wait_s
from levada.base.proxy import Proxy
from levada.errors import IllegalStateError, ProtocolError
from levada.net import short_io
from levada.net.channel import Channel
from levada.net.opening import Opening, is_connected, new_socket, raise_if_failed, socket_options
from levada.net.proxy.tunnel import Tunnel, through
from levada.net.resolver import Lookup, Resolver, Route, literal, look_up
from levada.net.selectable import ChannelState, ConnId, Disconnect, Ending, NetEvents, Pieces, ending_of, text_of
from levada.net.transport import TransportLayer, plaintext
from levada.protocol.frame_memory import FrameMemory

Ready: TypeAlias = list[tuple[selectors.SelectorKey, int]]
LONGEST_SELECT_S = 3600.0
_LIVE = tuple(getattr(selectors, name) for name in ("EpollSelector", "KqueueSelector", "DevpollSelector") if hasattr(selectors, name))
_IN_PROGRESS = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN)


class Selector:
    """The Selectable for real sockets.

    max_idle_ms: connections.max.idle.ms; each process() closes at most one connection that was idle for longer. send_buffer_bytes,
    receive_buffer_bytes: sizes of socket buffers; with -1 the system adapts them to the connection. keepalive_idle_ms, user_timeout_ms:
    when the system gives up a silent peer (SO_KEEPALIVE, TCP_USER_TIMEOUT); 0 leaves that to the system. transport: makes the transport for
    a connected socket and the host name. proxy: connects to all brokers; None for none. poll: makes the object that waits for sockets; None
    for the best one of the system.
    """

    def __init__(
        self,
        *,
        max_frame_bytes: int,
        max_idle_ms: int,
        send_buffer_bytes: int,
        receive_buffer_bytes: int,
        keepalive_idle_ms: int,
        user_timeout_ms: int,
        proxy: Proxy | None,
        transport: Callable[[socket.socket, str], TransportLayer] = plaintext,
        lookup: Lookup = look_up,
        poll: Callable[[], selectors.BaseSelector] | None = None,
    ) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._frame_memory = FrameMemory()
        self._max_idle_ms = max_idle_ms
        self._socket_options = socket_options(
            send_buffer_bytes=send_buffer_bytes,
            receive_buffer_bytes=receive_buffer_bytes,
            keepalive_idle_ms=keepalive_idle_ms,
            user_timeout_ms=user_timeout_ms,
        )
        self._transport = transport
        self._proxy = proxy
        with_proxy = (through(proxy, lookup), through(proxy, literal)) if proxy is not None else (lookup, literal)
        self._resolver = Resolver(self.notify, *with_proxy)
        self._new_poll = selectors.DefaultSelector if poll is None else poll
        self._events = NetEvents()
        self._routes: dict[ConnId, Route] = {}
        self._opening: dict[ConnId, Opening] = {}
        self._resolving: set[Opening] = set()
        self._channels: dict[ConnId, Channel] = {}
        self._sockets: dict[ConnId, socket.socket] = {}
        self._staged: dict[ConnId, Channel] = {}
        self._ending: dict[ConnId, tuple[Channel, Disconnect]] = {}
        self._active: set[ConnId] = set()
        self._last_active: OrderedDict[ConnId, int] = OrderedDict()
        self._idle_from_ms = 0
        """When a connection may have been idle for too long, or a little earlier."""
        self._woken = False
        self._selecting = False
        self._may_skip_poll = True
        self._open_poll()

    def _open_poll(self) -> None:
        self._poll = self._new_poll()
        self._registers_live = isinstance(self._poll, _LIVE)
        self._descriptor = self._poll.fileno() if self._registers_live and short_io.COMPILED else None  # type: ignore[attr-defined]
        """The descriptor with which short_io checks whether a socket is ready; None where the system has none."""
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._poll.register(self._wake_reader, selectors.EVENT_READ, None)

    # What is wanted

    def connect(self, conn_id: ConnId, host: str, port: int, now_ms: int) -> None:
        """Begin to connect. An event reports the result. Raises IllegalStateError if the id is in use."""
        if conn_id in self._opening or conn_id in self._channels or conn_id in self._ending:
            raise IllegalStateError(f"connection {conn_id} exists already")
        route = self._routes.get(conn_id)
        if route is None or (route.host, route.port) != (host, port):
            route = self._routes[conn_id] = Route(host, port)
        opening = self._opening[conn_id] = Opening(conn_id, route, host if self._proxy is None else self._proxy.host)
        self._attempt_next(opening)
        self._wake_for_events()

    def ending_if_late(self, conn_id: ConnId) -> Ending:
        """Return the ending of a connection that is not established, if its time is over now.

        It depends on the step that was not finished.
        """
        opening = self._opening.get(conn_id)
        if opening is not None and opening in self._resolving:
            return Ending.LOOKUP_TIMED_OUT
        if opening is not None and opening.tunnel is not None:
            return Ending.PROXY_TIMED_OUT
        channel = self._channels.get(conn_id)
        shakes_hands = channel is not None and channel.state is ChannelState.AUTHENTICATE
        return Ending.HANDSHAKE_TIMED_OUT if shakes_hands else Ending.CONNECT_TIMED_OUT

    def send(self, conn_id: ConnId, frame: Pieces) -> bool:
        """Write as much of a frame, which includes the size prefix, as possible now. Return whether all of it was written; no event follows
        then.

        Otherwise the rest is parked, and process() writes it and reports it as sent. If the connection has ended, or ends with this write,
        the rest is lost: process() reports the frames that arrived before the end, then the end. Raises IllegalStateError if the connection
        is not open, and while another frame is parked.
        """
        if conn_id in self._ending:
            return False
        channel = self._channels.get(conn_id)
        if channel is None:
            raise IllegalStateError(f"connection {conn_id} is not open")
        channel.park(frame)
        try:
            written = channel.flush()
        except OSError as error:
            self._begin_end(channel, error)
            self._wake_for_events()
            return False
        self._active.add(conn_id)
        if not written:
            self._interest(channel, selectors.EVENT_READ | selectors.EVENT_WRITE)
        return written

    def close(self, conn_id: ConnId) -> None:
        """Close a connection. No event follows, not even one that process() has not reported yet. Unknown ids are ignored."""
        opening = self._opening.pop(conn_id, None)
        if opening is not None:
            self._resolving.discard(opening)
            self._close_opening(opening)
        channel = self._channels.get(conn_id)
        if channel is not None:
            self._release(channel)
        self._ending.pop(conn_id, None)
        self._staged.pop(conn_id, None)
        _withdraw(self._events, conn_id)

    def fileno(self) -> int:
        """Return a descriptor for an event loop. It is readable when a socket is ready or a look-up has ended.

        Raises AttributeError if the system's selector has no descriptor.
        """
        return self._poll.fileno()  # type: ignore[attr-defined, no-any-return]

    def forget(self, conn_id: ConnId) -> None:
        """Close a connection, and forget the addresses of its host and the one to try next.

        A later connection with the same id begins with a new look-up.
        """
        self.close(conn_id)
        self._routes.pop(conn_id, None)

    def wakeup(self) -> None:
        """End the running select(), or the next one, at once. May be called from any thread."""
        if self._woken:
            return  # The call that set it has written to the pipe, or select() will see it before it waits.
        self._woken = True
        if self._selecting:
            self._write_wakeup()

    def notify(self) -> None:
        """Like wakeup(), but also noticed by an event loop that only watches the descriptor of the selector."""
        self._woken = True
        # Also while no thread is in select(): an event loop may be waiting, which watches fileno() and sees only what is written.
        self._write_wakeup()

    def shutdown(self) -> None:
        """Close all connections for good. Must not be called while a thread is in select()."""
        for conn_id in [*self._opening, *self._channels]:
            self.close(conn_id)
        self._woken = True
        self._close_poll()

    def renew(self) -> None:
        """Replace what a child made by fork() shares with its parent. Called in the child, before there is any connection."""
        # Parent and child share the set of descriptors that epoll watches. Unregistering one here would take it from the parent.
        self._close_poll()
        self._open_poll()

    def _close_poll(self) -> None:
        self._descriptor = None
        self._poll.close()
        self._wake_reader.close()
        self._wake_writer.close()

    # The rhythm

    def select(self, timeout_ms: int) -> Ready:
        """Wait for I/O, a wakeup, or the timeout. Return a value to pass to process(). Does not change any connection.

        A long wait ends a little too early, because the kernel would end it a little too late; the caller waits for the rest. If there is
        work already, such as a wakeup or an event that was not processed yet, there is no system call. The call after that makes one in any
        case, so that other connections get their turn. With timeout 0, the interpreter's lock is released only if a socket is ready:
        otherwise a program that calls this in a loop would keep its other threads from running (see short_io). Raises ValueError for a
        negative timeout.
        """
        if timeout_ms < 0:
            raise ValueError(f"select() cannot wait {timeout_ms} ms")
        self._selecting = True
        try:
            has_work = self._has_work()
            if has_work and self._may_skip_poll:
                self._may_skip_poll = False
                return []
            self._may_skip_poll = True
            if not has_work and timeout_ms:
                return self._poll.select(first_wait_s(min(timeout_ms / 1000, LONGEST_SELECT_S)))
            if self._descriptor is not None and not short_io.is_ready(self._descriptor):
                return []
            return self._poll.select(0)
        except OSError:
            if self._registers_live:
                raise
            return []  # A socket that another thread closed meanwhile; the next select() does not have it.
        finally:
            self._selecting = False

    def process(self, ready: Ready, now_ms: int) -> NetEvents:
        """Do the I/O that is possible without waiting, and return the events. ready: the result of select()."""
        if self._woken and not self._selecting:
            self._events.woken = True
            self._woken = False  # Else it is meant for the thread that waits, which is not the one here.
        staged = list(self._staged.values())
        for key, mask in ready:
            if key.data is None:
                self._drain_wakeups()
            elif isinstance(key.data, Opening):
                self._finish_attempt(key.data)
            else:
                self._serve(key.data, mask)
        if self._resolving:
            self._take_lookups()
        if staged:
            self._read_staged(staged)
        if self._ending:
            self._deliver_endings()
        if self._active:
            self._touch_active(now_ms)
        if now_ms > self._idle_from_ms:
            self._expire_idle(now_ms)
        if now_ms > self._frame_memory.review_from_ms:
            self._frame_memory.review(now_ms)
        events, self._events = self._events, NetEvents()
        return events

    @property
    def has_events(self) -> bool:
        """Whether process() has events to report although no socket is ready."""
        return bool(self._staged or self._ending or self._events)

    def _has_work(self) -> bool:
        return bool(self._woken or self._staged or self._ending or self._events)

    def _drain_wakeups(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake_reader.recv(4096)  # One byte per select(): what could be left only wakes once more.

    def _write_wakeup(self) -> None:
        with contextlib.suppress(OSError):  # A full pipe wakes as well; behind a closed one no thread waits.
            self._wake_writer.send(b"\0")

    def _wake_for_events(self) -> None:
        """Wake a thread that waits in select(), because there are events to report."""
        if self._selecting and self._has_work():
            self.wakeup()

    # Opening

    def _take_lookups(self) -> None:
        for opening in [opening for opening in self._resolving if not opening.route.pending]:
            self._resolving.discard(opening)
            self._attempt_next(opening)

    def _attempt_next(self, opening: Opening) -> None:
        """Try the next addresses until a connection is established or under way; look the name up first if this was not done.

        If the last address, or the look-up, has failed, report the failure.
        """
        route = opening.route
        if route.exhausted and opening.address is None and not route.error:
            self._resolver.start(route)
        while not route.exhausted:
            opening.address = route.next_address()
            if self._attempt(opening):
                return
        if route.pending:
            self._resolving.add(opening)
        else:
            self._give_up(opening)

    def _attempt(self, opening: Opening) -> bool:
        assert opening.address is not None
        try:
            sock = opening.socket = new_socket(opening.address.family, self._socket_options)
            code = sock.connect_ex(opening.address.sockaddr)
            if code not in _IN_PROGRESS:
                raise_if_failed(code)
                self._socket_connected(opening, sock)  # Connected at once: no event would ever tell.
            else:
                self._register(sock, selectors.EVENT_WRITE, opening)
        except (OSError, OverflowError, ValueError) as error:
            opening.attempt_failed(error)
            self._close_opening(opening)
            return False
        return True

    def _finish_attempt(self, opening: Opening) -> None:
        sock = opening.socket
        if sock is None or self._opening.get(opening.conn_id) is not opening:
            return
        if opening.tunnel is not None:
            self._ask_proxy(opening, opening.tunnel, sock)
            return
        try:
            raise_if_failed(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
            if not is_connected(sock):
                return  # What was reported is about another socket, which had this descriptor before.
        except OSError as error:
            opening.attempt_failed(error)
            self._close_opening(opening)
            self._attempt_next(opening)
            return
        self._poll.unregister(sock)
        self._socket_connected(opening, sock)

    def _socket_connected(self, opening: Opening, sock: socket.socket) -> None:
        """Use a socket that has just been connected. With a proxy, have it connect to the broker first."""
        if self._proxy is None:
            self._open(opening, sock)
            return
        assert opening.address is not None
        assert opening.address.target is not None
        opening.tunnel = Tunnel(sock, self._proxy, *opening.address.target)
        self._register(sock, selectors.EVENT_READ, opening)
        self._ask_proxy(opening, opening.tunnel, sock)

    def _ask_proxy(self, opening: Opening, tunnel: Tunnel, sock: socket.socket) -> None:
        """Continue the handshake with the proxy. When it is done, use the connection; if it fails, try the next address."""
        try:
            done = tunnel.advance()
        except OSError as error:
            opening.attempt_failed(error)
            self._close_opening(opening)
            # A login that is wrong at one address of the proxy is wrong at the others, too, and repeating it may lock the user out.
            again = self._give_up if opening.failure.ending is Ending.PROXY_REFUSED else self._attempt_next
            again(opening)
            return
        if done:
            self._poll.unregister(sock)
            self._open(opening, sock)
            return
        self._poll.modify(sock, selectors.EVENT_WRITE if tunnel.wants_write else selectors.EVENT_READ, opening)
        self._wake_unless_live()

    def _open(self, opening: Opening, sock: socket.socket) -> None:
        conn_id = opening.conn_id
        channel = Channel(conn_id, self._transport(sock, opening.route.host), self._max_frame_bytes, self._frame_memory)
        del self._opening[conn_id]
        self._channels[conn_id] = channel
        self._sockets[conn_id] = sock
        self._register(sock, selectors.EVENT_READ, channel)
        if channel.state is ChannelState.READY:
            self._connected(conn_id)
        else:
            self._shake_hands(channel)

    def _shake_hands(self, channel: Channel) -> None:
        """Continue the transport's handshake. When it is done, report the connection as established."""
        try:
            done = channel.handshake()
        except OSError as error:
            self._begin_end(channel, error)
            return
        self._interest(channel, selectors.EVENT_READ | (selectors.EVENT_WRITE if channel.wants_write and not done else 0))
        if done:
            self._connected(channel.conn_id)
            if channel.has_buffered:
                self._staged[channel.conn_id] = channel

    def _connected(self, conn_id: ConnId) -> None:
        self._events.connected.append(conn_id)
        self._active.add(conn_id)

    def _close_opening(self, opening: Opening) -> None:
        sock, opening.socket, opening.tunnel = opening.socket, None, None
        if sock is None:
            return
        with contextlib.suppress(KeyError):  # The attempt may fail before the socket is registered.
            self._poll.unregister(sock)
        sock.close()

    def _give_up(self, opening: Opening) -> None:
        route = opening.route
        failure = opening.failure
        if opening.address is None:
            failure = failure._replace(cause=route.error)
        route.error = ""
        self._opening.pop(opening.conn_id, None)
        self._events.disconnected[opening.conn_id] = failure

    # Working

    def _serve(self, channel: Channel, mask: int) -> None:
        if self._channels.get(channel.conn_id) is not channel:
            return
        if channel.state is not ChannelState.READY:
            self._shake_hands(channel)
            return
        if mask & selectors.EVENT_READ:
            self._read(channel)
        if mask & selectors.EVENT_WRITE and channel.conn_id in self._channels and self._write(channel) and not channel.has_parked:
            self._interest(channel, selectors.EVENT_READ)

    def _write(self, channel: Channel) -> bool:
        try:
            if channel.flush():
                self._events.sent.append(channel.conn_id)
                self._active.add(channel.conn_id)
        except OSError as error:
            self._begin_end(channel, error)
            return False
        return True

    def _read_staged(self, channels: list[Channel]) -> None:
        """Report the frames that connections had read before this process(), unless they have reported one in it."""
        served = {conn_id for conn_id, _ in self._events.received}
        for channel in channels:
            if channel.conn_id not in served and self._staged.get(channel.conn_id) is channel:
                self._read(channel)

    def _read(self, channel: Channel) -> None:
        """Report one frame of a connection. Read first if none is complete yet."""
        try:
            channel.read()
        except (OSError, ProtocolError) as error:
            self._begin_end(channel, error)
            return
        self._deliver(channel)
        if channel.closed_by_peer:
            self._begin_end(channel, None)

    def _deliver(self, channel: Channel) -> None:
        if channel.staged:
            self._events.received.append((channel.conn_id, channel.staged.popleft()))
            self._active.add(channel.conn_id)
        if channel.has_buffered:
            self._staged[channel.conn_id] = channel
        else:
            self._staged.pop(channel.conn_id, None)

    def _interest(self, channel: Channel, mask: int) -> None:
        self._poll.modify(self._sockets[channel.conn_id], mask, channel)
        self._wake_unless_live()

    def _register(self, sock: socket.socket, mask: int, data: Opening | Channel) -> None:
        self._poll.register(sock, mask, data)
        self._wake_unless_live()

    def _wake_unless_live(self) -> None:
        if self._selecting and not self._registers_live:
            self.wakeup()

    # Ending

    def _begin_end(self, channel: Channel, error: Exception | None) -> None:
        """Stop using a connection. Frames that arrived before its end are read now and reported first."""
        ending = Ending.CLOSED if error is None else ending_of(error)
        failure = Disconnect(channel.state, "" if error is None else text_of(error), ending, channel.first_bytes)
        if channel.state is ChannelState.READY:
            with contextlib.suppress(OSError, ProtocolError):
                channel.drain()
        self._release(channel)
        self._ending[channel.conn_id] = (channel, failure)

    def _deliver_endings(self) -> None:
        for conn_id, (channel, failure) in list(self._ending.items()):
            if any(conn_id == other for other, _ in self._events.received):
                continue
            if channel.staged:
                self._events.received.append((conn_id, channel.staged.popleft()))
            else:
                del self._ending[conn_id]
                self._events.disconnected[conn_id] = failure

    def _release(self, channel: Channel) -> None:
        conn_id = channel.conn_id
        self._routes[conn_id].forget()
        self._poll.unregister(self._sockets.pop(conn_id))
        channel.close()
        for table in (self._channels, self._staged, self._last_active):
            table.pop(conn_id, None)
        self._active.discard(conn_id)

    def _touch_active(self, now_ms: int) -> None:
        while self._active:
            conn_id = self._active.pop()
            if conn_id in self._channels:
                self._last_active[conn_id] = now_ms
                self._last_active.move_to_end(conn_id)

    def _expire_idle(self, now_ms: int) -> None:
        conn_id, since_ms = next(iter(self._last_active.items()), (None, now_ms))
        channel = self._channels.get(conn_id)
        self._idle_from_ms = since_ms + self._max_idle_ms
        if channel is None or now_ms <= self._idle_from_ms:
            return
        self._release(channel)
        self._events.disconnected[conn_id] = Disconnect(ChannelState.EXPIRED, f"idle for {now_ms - since_ms} ms", Ending.IDLE)


def _withdraw(events: NetEvents, conn_id: ConnId) -> None:
    """Remove the events of a connection that were not reported yet, because the caller closes the connection."""
    events.connected[:] = [other for other in events.connected if other != conn_id]
    events.sent[:] = [other for other in events.sent if other != conn_id]
    events.received[:] = [pair for pair in events.received if pair[0] != conn_id]
    events.disconnected.pop(conn_id, None)
