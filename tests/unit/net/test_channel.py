"""A channel over a transport made of lists."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from levada.errors import FrameTooLargeError, IllegalStateError
from levada.net.channel import FAIR_SHARE, LARGE_BYTES, Channel
from levada.net.outgoing import WORTH_NAMING
from levada.net.transport import PlaintextTransport
from levada.protocol.frame_memory import FrameMemory

A = b"\0\0\0\1a"
B = b"\0\0\0\2bb"


class FakeSocket:
    """Gives the scripted pieces, then would block (None) or ends (b"")."""

    def __init__(self, *pieces: bytes | None, takes: int = 1 << 30) -> None:
        self.pieces = list(pieces)
        self.takes = takes
        self.written = b""
        self.closed = False
        self.calls = 0

    def recv_into(self, buffer: memoryview, /) -> int:
        if not self.pieces or self.pieces[0] is None:
            del self.pieces[:1]
            raise BlockingIOError
        piece = self.pieces.pop(0)
        assert piece is not None
        count = min(len(piece), len(buffer))
        buffer[:count] = piece[:count]
        if count < len(piece):
            self.pieces.insert(0, piece[count:])
        return count

    def send(self, data: memoryview, /) -> int:
        return self.sendmsg([data])

    def sendmsg(self, pieces: Sequence[memoryview], /) -> int:
        if not self.takes:
            raise BlockingIOError
        self.calls += 1
        taken = b"".join(pieces)[: self.takes]
        self.written += taken
        self.takes -= len(taken)
        return len(taken)

    def close(self) -> None:
        self.closed = True

    def fileno(self) -> int:
        return -1


def channel(socket: FakeSocket) -> Channel:
    return Channel(1, PlaintextTransport(socket), 1000, FrameMemory())


def staged(subject: Channel) -> list[bytes]:
    return [bytes(frame) for frame in subject.staged]


def test_L6_reading_stops_at_a_complete_frame() -> None:
    socket = FakeSocket(A[:3], A[3:], B)
    subject = channel(socket)
    subject.read()
    assert not subject.staged, "a short read emptied the socket: the next one waits until there is more"
    subject.read()
    assert staged(subject) == [b"a"]
    subject.read()
    assert staged(subject) == [b"a"]
    assert socket.pieces == [B]


def test_a_large_frame_is_read_on_although_a_read_was_short() -> None:
    large = (100_000).to_bytes(4, "big") + bytes(100_000)
    subject = Channel(1, PlaintextTransport(FakeSocket(large[:50_000], large[50_000:90_000], large[90_000:])), 1 << 20, FrameMemory())
    subject.read()
    assert [len(frame) for frame in subject.staged] == [100_000]


def test_L10_the_end_is_seen_only_after_the_frames_before_it() -> None:
    subject = channel(FakeSocket(A + B, b""))
    subject.read()
    assert staged(subject) == [b"a", b"bb"]
    assert not subject.closed_by_peer
    subject.staged.clear()
    subject.read()
    assert subject.closed_by_peer


def test_drain_reads_on_although_frames_are_staged() -> None:
    subject = channel(FakeSocket(A, B, None, A))
    subject.drain()
    assert staged(subject) == [b"a", b"bb"]


def test_fairness_bounds_what_one_channel_reads() -> None:
    piece = bytes(60_000)
    header = (1 << 30).to_bytes(4, "big") + bytes(LARGE_BYTES)
    socket = FakeSocket(header, *[piece] * 1000)
    subject = Channel(1, PlaintextTransport(socket), 1 << 30, FrameMemory())
    subject.read()
    left = sum(len(piece) for piece in socket.pieces if piece)
    assert left > 0
    assert 60_000_000 - left <= FAIR_SHARE + (1 << 20)


def test_L5_a_frame_may_take_several_writes() -> None:
    socket = FakeSocket(takes=2)
    subject = channel(socket)
    subject.park([A])
    assert not subject.flush()
    assert subject.has_parked
    socket.takes = 100
    assert subject.flush()
    assert not subject.has_parked
    assert not subject.flush()
    assert socket.written == A


def test_L2_only_one_frame_is_parked() -> None:
    subject = channel(FakeSocket())
    subject.park([A])
    with pytest.raises(IllegalStateError):
        subject.park([B])


def test_M_C5_a_frame_too_large_is_refused_and_its_bytes_are_kept_as_evidence() -> None:
    subject = channel(FakeSocket(b"\x15\x03\x03\x00\x02\x02\x46"))
    with pytest.raises(FrameTooLargeError):
        subject.read()
    assert subject.first_bytes == b"\x15\x03\x03\x00\x02\x02\x46"


def test_L5_a_frame_in_pieces_goes_out_whole_however_many_bytes_a_write_takes() -> None:
    pieces: list[bytes | bytearray | memoryview] = [b"head", bytearray(range(200)) * 50, b"between", b"", bytes(WORTH_NAMING), b"end"]
    for takes in (1, 3, 7, 4096, 10_003, 1 << 20):
        socket = FakeSocket(takes=takes)
        subject = channel(socket)
        subject.park(pieces)
        while not subject.flush():
            socket.takes = takes
        assert socket.written == b"".join(pieces)
        assert not subject.has_parked


def test_large_pieces_are_not_copied_and_go_out_in_one_call() -> None:
    records = bytearray(WORTH_NAMING)
    socket = FakeSocket()
    subject = channel(socket)
    subject.park([b"size", b"head", records, b"tail"])
    records[0] = 1
    assert subject.flush()
    assert socket.calls == 1
    assert socket.written == b"sizehead\1" + bytes(WORTH_NAMING - 1) + b"tail"
