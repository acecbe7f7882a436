"""Large frames get memory that frames before them had, once nobody sees those any more; what is still seen is never touched."""

from __future__ import annotations

from random import Random

import pytest

from levada.protocol.frame import FrameReader
from levada.protocol.frame_memory import IDLE_MS, LEAST_BYTES, MOST_BUFFERS, MOST_BYTES, FrameMemory

MIB = 1 << 20


def receive(reader: FrameReader, body: bytes) -> memoryview:
    """Feed one frame to a reader, in pieces as large as it takes."""
    data, frames = len(body).to_bytes(4, "big") + body, []
    while data:
        buffer = reader.get_buffer()
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        frames += reader.received(count)
    (frame,) = frames
    assert isinstance(frame, memoryview)
    return frame


def in_use() -> FrameMemory:
    """Memory for frames of which large ones come."""
    memory = FrameMemory()
    memory.keep(bytearray(MIB))
    return memory


def test_one_large_frame_alone_is_not_kept() -> None:
    memory = FrameMemory()
    memory.keep(bytearray(MIB))
    assert memory.take(MIB) is None


def test_a_frame_gets_the_memory_of_one_that_nobody_sees() -> None:
    reader = FrameReader(memory=in_use())
    first = receive(reader, b"a" * MIB)
    memory = first.obj
    del first
    second = receive(reader, b"b" * (MIB - 5))
    assert second.obj is memory
    assert second == b"b" * (MIB - 5)


def test_a_frame_that_is_seen_is_never_touched() -> None:
    reader, random, seen = FrameReader(memory=in_use()), Random(7), []
    memories = set()
    for number in range(200):
        body = bytes((number,)) * random.choice([LEAST_BYTES - 1, LEAST_BYTES, 300_000, MIB, 3 * MIB])
        frame = receive(reader, body)
        memories.add(id(frame.obj))
        # As a reader keeps a partition's part of a response.
        seen.append((frame[len(body) // 2 :], body[len(body) // 2 :]))
        del frame
        while len(seen) > 4:
            seen.pop(random.randrange(len(seen)))
        assert all(part == expected for part, expected in seen)
    assert len(memories) < 100


def test_a_buffer_is_for_frames_that_fill_a_good_part_of_it() -> None:
    memory = in_use()
    memory.keep(bytearray(4 * MIB))
    assert memory.take(4 * MIB + 1) is None
    assert memory.take(MIB - 1) is None
    assert len(memory.take(MIB) or b"") == 4 * MIB
    assert memory.take(MIB) is None


@pytest.mark.parametrize("size", [LEAST_BYTES - 1, MOST_BYTES + 1])
def test_small_and_huge_buffers_are_not_kept(size: int) -> None:
    memory = in_use()
    memory.keep(bytearray(size))
    assert memory.take(size) is None


@pytest.mark.parametrize(("size", "most"), [(LEAST_BYTES, MOST_BUFFERS), (9 * MIB, MOST_BYTES // (9 * MIB))])
def test_no_more_is_kept_than_the_limits_say(size: int, most: int) -> None:
    memory = in_use()
    for _ in range(20):
        memory.keep(bytearray(size))
    assert [memory.take(size) is not None for _ in range(20)] == [True] * most + [False] * (20 - most)


def test_nothing_is_kept_where_no_large_frame_comes_any_more() -> None:
    memory = in_use()
    memory.keep(bytearray(MIB))
    memory.keep(bytearray(MIB))
    memory.review(0)
    assert memory.review_from_ms == IDLE_MS
    assert memory.take(MIB) is not None
    memory.review(memory.review_from_ms)
    assert memory.take(MIB) is None
