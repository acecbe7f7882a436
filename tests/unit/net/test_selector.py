"""The Selector over real loopback sockets."""

from __future__ import annotations

import select
import selectors
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from clocked_selector import PATIENCE_S, Clocked, frame
from levada.errors import IllegalStateError
from levada.net import short_io
from levada.net.resolver import Address
from levada.net.selectable import ChannelState, Ending
from levada.net.tls.transport import READ_BYTES, TlsTransport
from settings_kit import new_selector


@pytest.fixture
def net() -> Iterator[Clocked]:
    net = Clocked()
    yield net
    net.selector.shutdown()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        yield listener


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def read_exactly(connection: socket.socket, size: int) -> None:
    while size > 0:
        size -= len(connection.recv(min(size, 1 << 20)))


@pytest.fixture
def peer(net: Clocked, listener: socket.socket) -> Iterator[socket.socket]:
    """The far end of connection 1."""
    net.selector.connect(1, "127.0.0.1", port_of(listener), 0)
    net.until(lambda: net.connected == [1])
    connection, _ = listener.accept()
    connection.settimeout(PATIENCE_S)
    with connection:
        yield connection


def test_L5_a_frame_goes_out_whole_and_is_reported_once(net: Clocked, peer: socket.socket) -> None:
    body = bytes(32 << 20)
    net.selector.send(1, [frame(body)])
    got = bytearray()

    def read() -> None:
        while len(got) < len(body) + 4:
            got.extend(peer.recv(1 << 20))

    reader = threading.Thread(target=read)
    reader.start()
    net.until(lambda: net.sent)
    reader.join()
    assert bytes(got) == frame(body)
    assert net.sent == [1]


def test_L2_a_second_frame_while_one_is_parked_is_an_error(net: Clocked, peer: socket.socket) -> None:
    one = frame(bytes(32 << 20))
    assert not net.selector.send(1, [one])
    with pytest.raises(IllegalStateError, match="still sending"):
        net.selector.send(1, [frame(b"two")])
    reader = threading.Thread(target=read_exactly, args=(peer, len(one)))
    reader.start()
    net.until(lambda: net.sent == [1])
    reader.join()
    assert net.selector.send(1, [frame(b"two")])
    assert peer.recv(100) == frame(b"two")


def test_a_connection_that_is_late_tells_what_it_waits_for(listener: socket.socket) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    net = Clocked(transport=lambda sock, host: TlsTransport(sock, context, memoryview(bytearray(READ_BYTES)), name=host))
    net.selector.connect(1, "127.0.0.1", port_of(listener), 0)
    with listener.accept()[0]:  # And nothing is said there.
        net.until(lambda: net.selector.ending_if_late(1) is Ending.HANDSHAKE_TIMED_OUT)
    assert not net.connected
    net.selector.shutdown()


def test_pieces_of_a_frame_that_was_cut_off_are_let_go_of_unchanged_and_go_out_whole_again(
    net: Clocked, peer: socket.socket, listener: socket.socket
) -> None:
    records = bytearray(range(256)) * (64 << 10)
    pieces: list[bytes | bytearray | memoryview] = [struct.pack(">i", len(records) + 4), records, b"tail"]
    whole = b"".join(pieces)
    assert not net.selector.send(1, pieces)
    read_exactly(peer, 1 << 20)
    peer.close()
    net.until(lambda: net.disconnected)
    assert b"".join(pieces) == whole

    net.selector.connect(2, "127.0.0.1", port_of(listener), 0)
    net.until(lambda: net.connected == [1, 2])
    again, _ = listener.accept()
    with again:
        got = bytearray()

        def read() -> None:
            while len(got) < len(whole):
                got.extend(again.recv(1 << 20))

        reader = threading.Thread(target=read)
        assert not net.selector.send(2, pieces)
        reader.start()
        net.until(lambda: net.sent == [2])
        reader.join()
    assert got == whole
    records.clear()  # BufferError if anything still held on to it


def test_a_frame_that_fits_is_written_at_once_without_an_event(net: Clocked, peer: socket.socket) -> None:
    assert net.selector.send(1, [frame(b"one")])
    assert net.selector.send(1, [frame(b"two")])
    assert peer.recv(100) == frame(b"one") + frame(b"two")
    assert not net.step(0)


def test_L6_frames_that_come_together_are_handed_out_one_by_one_without_waiting(net: Clocked, peer: socket.socket) -> None:
    peer.sendall(frame(b"a") + frame(b"b") + frame(b"c"))
    net.until(lambda: net.received)
    assert net.received == [b"a"]
    started = time.monotonic()
    assert [bytes(data) for _, data in net.step(60_000).received] == [b"b"]
    assert [bytes(data) for _, data in net.step(60_000).received] == [b"c"]
    assert time.monotonic() - started < 10
    assert not net.step(0)


def test_W12_a_frame_in_single_bytes_arrives_whole(net: Clocked, peer: socket.socket) -> None:
    for byte in frame(b"slow"):
        peer.send(bytes([byte]))
        net.step(10)
    net.until(lambda: net.received)
    assert net.received == [b"slow"]


def test_L10_frames_before_the_close_come_before_the_disconnect(net: Clocked, peer: socket.socket) -> None:
    peer.sendall(frame(b"a") + frame(b"b") + b"\0\0")
    peer.close()
    net.until(lambda: net.disconnected)
    assert net.received == [b"a", b"b"]
    assert net.disconnected[1].ending is Ending.CLOSED
    assert net.disconnected[1].state is ChannelState.READY
    assert net.disconnected[1].first_bytes.startswith(frame(b"a"))


def test_TR22_a_frame_that_arrived_survives_a_failed_write(net: Clocked, peer: socket.socket) -> None:
    peer.sendall(frame(b"the very") + frame(b"last words"))
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    time.sleep(0.05)
    assert not net.selector.send(1, [frame(bytes(100))])
    assert not net.selector._channels, "the write was the first to find out"
    net.until(lambda: net.disconnected)
    assert net.disconnected[1].ending is Ending.RESET
    assert net.received == [b"the very", b"last words"]
    assert net.sent == []


def test_TR22_a_frame_for_a_connection_that_is_ending_is_lost_with_it(net: Clocked, peer: socket.socket) -> None:
    peer.sendall(frame(b"one") + frame(b"two"))
    net.until(lambda: net.received == [b"one"])
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    net.selector.send(1, [frame(b"the write finds out")])
    net.step()
    assert not net.disconnected, "its user cannot know yet"
    net.selector.send(1, [frame(b"late")])
    net.until(lambda: net.disconnected)
    assert net.received == [b"one", b"two"]
    assert net.sent == []


def test_M_C5_a_frame_above_the_limit_ends_the_connection(net: Clocked, peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 400 Bad Request\r\n")
    net.until(lambda: net.disconnected)
    assert net.disconnected[1].ending is Ending.BAD_FRAME
    assert net.disconnected[1].first_bytes.startswith(b"HTTP/1.1 400")


def test_M_C5_frames_before_a_bad_size_are_delivered_and_nothing_more_has_to_arrive(net: Clocked, peer: socket.socket) -> None:
    peer.sendall(frame(b"one") + frame(b"two") + b"\xff\xff\xff\xff")
    net.until(lambda: net.disconnected)
    assert net.received == [b"one", b"two"]
    assert "negative size" in net.disconnected[1].cause


def test_L4_refused_connections_say_so(net: Clocked, listener: socket.socket) -> None:
    port = port_of(listener)
    listener.close()
    net.selector.connect(1, "127.0.0.1", port, 0)
    net.until(lambda: net.disconnected)
    assert (net.disconnected[1].ending, net.disconnected[1].state) == (Ending.REFUSED, ChannelState.NOT_CONNECTED)


@pytest.mark.parametrize("port", [70_000, -1])
def test_M_C12_an_impossible_port_is_a_failed_connection(net: Clocked, port: int) -> None:
    net.selector.connect(1, "127.0.0.1", port, 0)
    net.until(lambda: net.disconnected)
    assert net.disconnected[1].state is ChannelState.NOT_CONNECTED


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 300, "a..b", ""])
def test_N23_a_name_that_does_not_resolve_is_a_failed_connection(host: str) -> None:
    def lookup(host: str, port: int) -> list[Address]:
        raise socket.gaierror(-2, "Name or service not known")

    net = Clocked(lookup=lookup)
    try:
        net.selector.connect(1, host, 9092, 0)
        net.until(lambda: net.disconnected)
        assert net.disconnected[1].ending in (Ending.UNRESOLVED, Ending.REFUSED)
    finally:
        net.selector.shutdown()


def test_N23_every_address_of_a_name_is_tried(listener: socket.socket) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        closed_port = port_of(unused)
    addresses = [Address(socket.AF_INET, ("127.0.0.1", closed_port)), Address(socket.AF_INET, ("127.0.0.1", port_of(listener)))]
    net = Clocked(lookup=lambda host, port: addresses)
    try:
        net.selector.connect(1, "kafka.example", 9092, 0)
        net.until(lambda: net.connected)
        assert not net.disconnected
    finally:
        net.selector.shutdown()


def closed_by_the_peer(net: Clocked, peer: socket.socket) -> None:
    peer.close()
    net.until(lambda: net.disconnected)


def closed_here(net: Clocked, peer: socket.socket) -> None:
    net.selector.close(1)


def idle_for_too_long(net: Clocked, peer: socket.socket) -> None:
    net.now_ms += 2000
    net.until(lambda: net.disconnected)


@pytest.mark.parametrize("end", [closed_by_the_peer, closed_here, idle_for_too_long])
def test_N23_a_name_is_looked_up_again_however_its_connection_ended(
    listener: socket.socket, end: Callable[[Clocked, socket.socket], None]
) -> None:
    lookups: list[str] = []

    def lookup(host: str, port: int) -> list[Address]:
        lookups.append(host)
        return [Address(socket.AF_INET, ("127.0.0.1", port))] * 2

    net = Clocked(max_idle_ms=1000, lookup=lookup)
    try:
        net.selector.connect(1, "two.example", port_of(listener), 0)
        net.until(lambda: net.connected == [1])
        net.step(0)
        with listener.accept()[0] as peer:
            end(net, peer)
        net.selector.connect(1, "two.example", port_of(listener), 0)
        net.until(lambda: net.connected == [1, 1])
        assert len(lookups) == 2
    finally:
        net.selector.shutdown()


def answered_after(answer: threading.Event) -> Callable[[str, int], list[Address]]:
    """Return a look-up that waits for an event."""

    def lookup(host: str, port: int) -> list[Address]:
        answer.wait(PATIENCE_S)
        return [Address(socket.AF_INET, ("127.0.0.1", port))]

    return lookup


def test_N23_a_slow_lookup_does_not_delay_other_connections(listener: socket.socket) -> None:
    answer = threading.Event()
    net = Clocked(lookup=answered_after(answer))
    try:
        net.selector.connect(1, "slow.example", port_of(listener), 0)
        net.selector.connect(2, "127.0.0.1", port_of(listener), 0)
        net.until(lambda: net.connected == [2])
        answer.set()
        net.until(lambda: net.connected == [2, 1])
    finally:
        net.selector.shutdown()


def test_attempts_given_up_while_a_name_is_looked_up_share_that_lookup(listener: socket.socket) -> None:
    lookups: list[str] = []
    answer = threading.Event()

    def lookup(host: str, port: int) -> list[Address]:
        lookups.append(host)
        answer.wait(PATIENCE_S)
        return [Address(socket.AF_INET, ("127.0.0.1", port))]

    net = Clocked(lookup=lookup)
    try:
        for _ in range(4):
            net.selector.close(1)
            net.selector.connect(1, "slow.example", port_of(listener), 0)
            net.step(0)
        answer.set()
        net.until(lambda: net.connected == [1])
        assert lookups == ["slow.example"]
    finally:
        net.selector.shutdown()


def test_a_lookup_whose_thread_cannot_be_started_is_a_failed_connection(net: Clocked, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    net.selector.connect(1, "kafka.example", 9092, 0)
    net.until(lambda: net.disconnected)
    assert net.disconnected[1].ending is Ending.UNRESOLVED
    assert net.disconnected[1].cause == "can't start new thread"


def test_a_lookup_that_ends_while_nobody_selects_makes_the_descriptor_readable(listener: socket.socket) -> None:
    """An event loop watches it, and has no thread in select()."""
    answer = threading.Event()
    net = Clocked(lookup=answered_after(answer))
    try:
        net.selector.connect(1, "slow.example", port_of(listener), 0)
        net.step(0)
        answer.set()
        assert select.select([net.selector.fileno()], [], [], PATIENCE_S)[0]
        net.until(lambda: net.connected == [1])
    finally:
        net.selector.shutdown()


def test_L8_a_wakeup_before_select_ends_exactly_one(net: Clocked) -> None:
    net.selector.wakeup()
    net.selector.wakeup()
    started = time.monotonic()
    net.step(60_000)
    assert time.monotonic() - started < 10
    started = time.monotonic()
    net.step(50)
    assert time.monotonic() - started >= 0.045


def test_L8_a_wakeup_ends_a_running_select(net: Clocked) -> None:
    timer = threading.Timer(0.05, net.selector.wakeup)
    timer.start()
    started = time.monotonic()
    net.step(60_000)
    timer.join()
    assert time.monotonic() - started < 10


def test_L9_one_idle_connection_ends_per_round_oldest_first(listener: socket.socket) -> None:
    net = Clocked(max_idle_ms=1000)
    try:
        for conn_id in (1, 2):
            net.selector.connect(conn_id, "127.0.0.1", port_of(listener), 0)
            net.until(lambda conn_id=conn_id: conn_id in net.connected)  # type: ignore[misc]
        net.now_ms = 900
        assert net.selector.send(1, [frame(b"x")])
        net.step(0)
        net.now_ms = 1500
        net.step(0)
        assert {conn_id: end.state for conn_id, end in net.disconnected.items()} == {2: ChannelState.EXPIRED}
        net.now_ms = 2000
        net.step(0)
        assert list(net.disconnected) == [2, 1]
    finally:
        net.selector.shutdown()


def test_L10_a_local_close_is_silent_and_frees_the_id(net: Clocked, peer: socket.socket, listener: socket.socket) -> None:
    peer.sendall(frame(b"unread"))
    net.selector.close(1)
    net.step(20)
    assert not net.received
    assert not net.disconnected
    net.selector.connect(1, "127.0.0.1", port_of(listener), 0)
    net.until(lambda: net.connected == [1, 1])


def test_L3_a_negative_timeout_is_an_error(net: Clocked) -> None:
    with pytest.raises(ValueError, match="-1"):
        net.selector.select(-1)


@pytest.mark.parametrize(("timeout_ms", "waited_s"), [(0, 0), (100, 0.1), (3_000, 2.97)])
def test_a_long_wait_ends_a_little_before_its_time(timeout_ms: int, waited_s: float) -> None:
    waits: list[float | None] = []

    class Poll(selectors.SelectSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            waits.append(timeout)
            return []

    selector = new_selector(max_frame_bytes=1 << 20, poll=Poll)
    selector.select(timeout_ms)
    selector.shutdown()
    assert waits == [pytest.approx(waited_s)]


def test_an_id_in_use_cannot_be_connected_again(net: Clocked, peer: socket.socket) -> None:
    with pytest.raises(IllegalStateError, match="exists already"):
        net.selector.connect(1, "127.0.0.1", 1, 0)


def test_large_frames_flow_at_full_size(net: Clocked, peer: socket.socket) -> None:
    body = bytes(range(256)) * 4000
    writer = threading.Thread(target=peer.sendall, args=(frame(body) * 3,))
    writer.start()
    net.until(lambda: len(net.received) == 3)
    writer.join()
    assert net.received == [body] * 3


@pytest.mark.skipif(not short_io.COMPILED, reason="interpreted code cannot keep the lock")
def test_without_a_wait_the_interpreters_lock_is_given_up_only_for_a_socket_that_is_ready(listener: socket.socket) -> None:
    timeouts: list[float | None] = []

    class Noting(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            timeouts.append(timeout)
            found: list[tuple[selectors.SelectorKey, int]] = super().select(timeout)
            return found

    net = Clocked(poll=Noting)
    try:
        net.selector.connect(1, "127.0.0.1", port_of(listener), 0)
        net.until(lambda: net.connected == [1])
        connection, _ = listener.accept()
        with connection:
            timeouts.clear()
            for _ in range(100):
                net.step(0)
            assert timeouts == []
            connection.sendall(frame(b"here"))
            deadline = time.monotonic() + PATIENCE_S
            while not net.received and time.monotonic() < deadline:
                net.step(0)
            assert (net.received, timeouts) == ([b"here"], [0])
            net.step(1)
            assert timeouts == [0, 0.001]
            # A wakeup that comes first ends a wait, and needs no look at the sockets but for their turn.
            net.selector.wakeup()
            net.selector.select(60_000)
            net.selector.select(60_000)
            assert timeouts == [0, 0.001]
    finally:
        net.selector.shutdown()
