"""The Selector while one thread waits in select() and another, under the engine's lock, uses it."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from levada.net.selectable import ChannelState, Ending, NetEvents
from levada.net.selector import Selector
from settings_kit import new_selector

PATIENCE_S = 5
NOT_LIVE = [kind for kind in ("SelectSelector", "PollSelector") if hasattr(selectors, kind)]


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Waiting:
    """A selector whose select() runs on a thread of its own; process() follows under the lock."""

    def __init__(self, poll: Callable[[], selectors.BaseSelector] | None) -> None:
        self.selector = new_selector(max_frame_bytes=1 << 20, poll=poll)
        self.lock = threading.Lock()
        self.events: list[NetEvents] = []
        self.crash: BaseException | None = None
        self._stop = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop:
                ready = self.selector.select(60_000)
                with self.lock:
                    events = self.selector.process(ready, 0)
                    if events:
                        self.events.append(events)
        except BaseException as crash:
            self.crash = crash

    def begin_waiting(self) -> None:
        """Return once the thread waits for the system."""
        self.until(lambda: self.selector._selecting)
        time.sleep(0.02)

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert self.crash is None
            assert time.monotonic() < deadline, "it did not come"
            time.sleep(0.001)

    def connected(self) -> list[int]:
        return [conn_id for events in list(self.events) for conn_id in events.connected]

    def received(self) -> list[bytes]:
        return [bytes(data) for events in list(self.events) for _, data in events.received]

    def ended(self) -> dict[int, Ending]:
        return {conn_id: end.ending for events in list(self.events) for conn_id, end in events.disconnected.items()}

    def close(self) -> None:
        self._stop = True
        self.selector.wakeup()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        self.selector.shutdown()
        assert self.crash is None


@pytest.fixture(params=[None, *NOT_LIVE])
def net(request: pytest.FixtureRequest) -> Iterator[Waiting]:
    net = Waiting(request.param and getattr(selectors, request.param))
    yield net
    net.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        yield listener


def connect(net: Waiting, listener: socket.socket, conn_id: int) -> socket.socket:
    net.begin_waiting()
    with net.lock:
        net.selector.connect(conn_id, "127.0.0.1", listener.getsockname()[1], 0)
    peer, _ = listener.accept()
    peer.settimeout(PATIENCE_S)
    net.until(lambda: conn_id in net.connected())
    return peer


def test_a_connection_begun_while_another_thread_waits_is_made_and_read(net: Waiting, listener: socket.socket) -> None:
    with connect(net, listener, 1) as peer:
        net.begin_waiting()
        with net.lock:
            assert net.selector.send(1, [frame(b"ask")])
        assert peer.recv(100) == frame(b"ask")
        peer.sendall(frame(b"answer"))
        net.until(lambda: net.received() == [b"answer"])


def test_the_rest_of_a_large_frame_is_written_although_its_sender_has_left(net: Waiting, listener: socket.socket) -> None:
    with connect(net, listener, 1) as peer:
        data = frame(bytes(32 << 20))
        net.begin_waiting()
        with net.lock:
            assert not net.selector.send(1, [data])
        left = len(data)
        while left:
            left -= len(peer.recv(1 << 20))
        net.until(lambda: any(events.sent for events in net.events))


def test_a_write_that_fails_is_reported_by_the_thread_that_waits(net: Waiting, listener: socket.socket) -> None:
    with connect(net, listener, 1) as peer, net.lock:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        time.sleep(0.05)
        net.selector.send(1, [frame(b"lost")])
    net.until(lambda: net.ended())
    assert net.ended()[1] in (Ending.RESET, Ending.CLOSED)


def test_a_refused_connection_is_reported_by_the_thread_that_waits(net: Waiting) -> None:
    net.begin_waiting()
    with net.lock:
        net.selector.connect(1, "127.0.0.1", -1, 0)
    net.until(lambda: net.ended())


def test_connections_closed_and_made_anew_while_a_thread_waits(net: Waiting, listener: socket.socket) -> None:
    """Descriptors are used again at once."""
    for turn in range(30):
        with connect(net, listener, turn) as peer:
            peer.sendall(frame(b"%d" % turn))
            net.until(lambda turn=turn: b"%d" % turn in net.received())  # type: ignore[misc]
            with net.lock:
                net.selector.close(turn)
    assert not net.ended()


def polled(selector: Selector) -> Any:
    """What select() reports now."""
    return selector.select(PATIENCE_S * 1000)


def test_what_select_saw_of_a_connection_closed_since_is_ignored(listener: socket.socket) -> None:
    selector = new_selector(max_frame_bytes=1 << 20)
    try:
        selector.connect(1, "127.0.0.1", listener.getsockname()[1], 0)
        stale = polled(selector)
        selector.close(1)
        selector.connect(1, "127.0.0.1", listener.getsockname()[1], 0)
        assert not selector.process(stale, 0), "this connection has not been asked yet"
        assert selector.process(polled(selector), 0).connected == [1]
    finally:
        selector.shutdown()


def test_a_connecting_socket_that_got_the_descriptor_of_a_ready_one_is_not_taken_for_connected() -> None:
    selector = new_selector(max_frame_bytes=1 << 20)
    try:
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.create_connection(full.getsockname()):
            extra = socket.socket()
            extra.setblocking(False)
            extra.connect_ex(full.getsockname())
            selector.connect(1, "127.0.0.1", full.getsockname()[1], 0)
            key = next(key for key in selector._poll.get_map().values() if key.data is not None)
            events = selector.process([(key, selectors.EVENT_WRITE)], 0)
            assert not events
            assert not selector._channels
            extra.close()
    finally:
        selector.shutdown()


def test_a_channel_that_got_the_descriptor_of_a_readable_one_finds_nothing(listener: socket.socket) -> None:
    selector = new_selector(max_frame_bytes=1 << 20)
    try:
        selector.connect(1, "127.0.0.1", listener.getsockname()[1], 0)
        selector.process(polled(selector), 0)
        key = next(key for key in selector._poll.get_map().values() if key.data is not None)
        assert not selector.process([(key, selectors.EVENT_READ | selectors.EVENT_WRITE)], 0)
        assert selector._channels[1].state is ChannelState.READY
    finally:
        selector.shutdown()


def test_what_is_staged_needs_no_system_call_but_others_get_their_turn(listener: socket.socket) -> None:
    selector = new_selector(max_frame_bytes=1 << 20)
    try:
        peers = []
        for conn_id in (1, 2):
            selector.connect(conn_id, "127.0.0.1", listener.getsockname()[1], 0)
            selector.process(polled(selector), 0)
            peers.append(listener.accept()[0])
        peers[0].sendall(b"".join(frame(b"%d" % number) for number in range(4)))
        assert selector.process(polled(selector), 0).received == [(1, b"0")]
        peers[1].sendall(frame(b"other"))
        time.sleep(0.02)
        assert selector.select(60_000) == [], "frames are staged"
        assert selector.process([], 0).received == [(1, b"1")]
        assert dict(selector.process(polled(selector), 0).received) == {1: b"2", 2: b"other"}
        for peer in peers:
            peer.close()
    finally:
        selector.shutdown()
