from __future__ import annotations

import sys
import tracemalloc
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.errors import FrameTooLargeError, ProtocolError
from levada.protocol.frame import FrameReader

MIB = 1 << 20


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def feed(reader: FrameReader, data: bytes, step: int = 1 << 30) -> list[bytes]:
    """Receive data as a socket would deliver it: never more than the buffer takes, at most `step` at once."""
    frames: list[bytes] = []
    while data:
        buffer = reader.get_buffer()
        count = min(len(buffer), len(data), step)
        assert count > 0
        buffer[:count] = data[:count]
        data = data[count:]
        frames += [bytes(frame) for frame in reader.received(count)]
    return frames


def test_W11_a_frame_is_a_size_and_that_many_bytes() -> None:
    assert feed(FrameReader(100), framed(b"one")) == [b"one"]


def test_W12_a_frame_of_size_zero_is_legal() -> None:
    assert feed(FrameReader(100), framed(b"", b"x", b"")) == [b"", b"x", b""]


@given(
    bodies=st.lists(st.binary(max_size=20) | st.integers(0, 200_000).map(lambda size: b"\x5a" * size), max_size=5),
    step=st.integers(1, 100_000),
)
def test_W12_frames_arrive_in_any_pieces(bodies: list[bytes], step: int) -> None:
    step = max(step, sum(map(len, bodies)) // 500)
    reader = FrameReader()

    assert feed(reader, framed(*bodies), step) == bodies
    assert reader.pending_bytes == 0


def test_W12_every_byte_may_come_alone() -> None:
    assert feed(FrameReader(), framed(b"first", b"", b"second"), step=1) == [b"first", b"", b"second"]


@pytest.mark.parametrize("size", [4_091, 4_092, 4_093, 4_097, 65_531, 65_532, 65_533, 65_536, MIB, 3 * MIB + 1])
def test_W12_frames_around_the_size_of_a_buffer_are_whole(size: int) -> None:
    bodies = [b"a" * size, b"b", b"c" * size, b"d"]

    assert feed(FrameReader(), framed(*bodies)) == bodies


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_frame_handed_out_is_never_overwritten(size: int) -> None:
    reader = FrameReader()
    kept = []
    data = framed(*(bytes([number]) * size for number in range(5)))
    while data:
        buffer = reader.get_buffer()
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        kept += reader.received(count)

    assert [bytes(frame) for frame in kept] == [bytes([number]) * size for number in range(5)]


def test_a_buffer_is_of_no_use_once_its_bytes_were_taken() -> None:
    reader = FrameReader()
    buffer = reader.get_buffer()
    reader.received(0)

    with pytest.raises(ValueError, match="released"):
        buffer[0] = 1


@pytest.mark.parametrize("step", [1, 1000])
def test_W12_a_frame_above_the_limit_is_refused_by_its_size_alone(step: int) -> None:
    reader = FrameReader(max_frame_bytes=100)

    assert feed(reader, framed(b"x" * 100), step) == [b"x" * 100]
    with pytest.raises(FrameTooLargeError, match="announces 101 bytes, more than the limit of 100"):
        feed(reader, (101).to_bytes(4, "big"), step)


def test_W12_a_negative_size_is_refused() -> None:
    with pytest.raises(ProtocolError, match="the negative size -1"):
        feed(FrameReader(), b"\xff\xff\xff\xff")


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x65"])
def test_M_C5_whole_frames_before_a_bad_size_are_handed_out_first(size: bytes) -> None:
    reader = FrameReader(max_frame_bytes=100)

    assert feed(reader, framed(b"one", b"two") + size + b"rest") == [b"one", b"two"]
    assert isinstance(reader.fault, ProtocolError)
    for _ in range(2):
        with pytest.raises(ProtocolError, match="a frame announces"):
            reader.get_buffer()


def test_an_announced_size_costs_no_memory_until_bytes_arrive() -> None:
    reader = FrameReader()
    tracemalloc.start()
    feed(reader, ((1 << 31) - 1).to_bytes(4, "big") + b"x" * 10)
    offered = len(reader.get_buffer())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert offered <= MIB
    assert peak < 2 * MIB + 100_000
    assert reader.pending_bytes == 14


def test_the_buffer_grows_with_what_has_arrived() -> None:
    reader = FrameReader()
    feed(reader, (9 * MIB).to_bytes(4, "big"))
    received = 0
    while received < 9 * MIB:
        room = len(reader.get_buffer())
        assert 0 < room <= max(MIB, received)
        received += room
        frames = reader.received(room)

    assert [len(frame) for frame in frames] == [9 * MIB]


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_the_first_bytes_are_kept_to_tell_what_answered(step: int) -> None:
    answer = b"HTTP/1.1 400 Bad Request\r\n" + b"x" * 100
    reader = FrameReader(1 << 20)

    with pytest.raises(FrameTooLargeError, match="HTTP"):
        feed(reader, answer, step)
    assert answer.startswith(reader.prefix)
    assert reader.prefix.startswith(b"HTTP")


def test_the_first_bytes_are_those_of_the_stream_not_of_a_later_frame() -> None:
    reader = FrameReader()
    feed(reader, framed(b"a" * 100) + framed(b"b" * 100), step=50)

    assert reader.prefix == framed(b"a" * 100)[:64]


def test_M_D15_a_thousand_connections_that_have_begun_a_frame_cost_little() -> None:
    tracemalloc.start()
    try:
        readers = [FrameReader() for _ in range(1000)]
        for reader in readers:
            feed(reader, b"\x00\x00\x10\x00abc")
        assert tracemalloc.get_traced_memory()[0] < 10 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [3_000, 6_000, 3 << 20])
def test_a_signal_that_interrupts_get_buffer_does_not_keep_the_buffer_from_growing(size: int) -> None:
    """A signal handler that runs later keeps the interrupted frame, as a frame that a trace function has noted is kept here."""
    interrupted: list[FrameType] = []

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_name != "get_buffer":
            return None
        interrupted.append(frame)
        return trace

    reader = FrameReader()
    data = framed(b"x" * size, b"y" * size)
    frames: list[bytes] = []
    tracing = sys.gettrace()
    while data:
        sys.settrace(trace)
        try:
            buffer = reader.get_buffer()
        finally:
            sys.settrace(tracing)
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        frames += map(bytes, reader.received(count))
    assert interrupted
    assert frames == [b"x" * size, b"y" * size]
