"""Eight threads that mark while one puts and one takes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from random import Random

import pytest

import levada as lv

IDS = 20_000
THREADS = 8


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Let threads take turns every few bytecodes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("size", [1, 7, 500])
def test_Q8_eight_threads_that_mark_lose_and_repeat_nothing(size: int) -> None:
    buffer = lv.AckBuffer(size)
    count = IDS if size > 1 else IDS // 20
    work: SimpleQueue[list[int]] = SimpleQueue()
    marked = [0] * THREADS
    got: list[int] = []

    def put() -> None:
        random = Random(size)
        held: list[int] = []
        for id in range(count):
            held.append(buffer.put(id, timeout=20))
            if len(held) >= random.randint(1, min(size, 40)) or id == count - 1:
                random.shuffle(held)
                work.put(held)
                held = []
        for _ in range(THREADS):
            work.put([])

    def mark(number: int) -> None:
        while sequences := work.get():
            if number % 2:
                marked[number] += buffer.mark_many(sequences)
            else:
                marked[number] += sum(buffer.mark(sequence) for sequence in sequences)
            assert buffer.mark_many(sequences) == 0

    def get() -> None:
        got.extend(buffer.get(timeout=20) for _ in range(count))

    with ThreadPoolExecutor(THREADS + 2) as pool:
        running = [pool.submit(put), pool.submit(get), *(pool.submit(mark, number) for number in range(THREADS))]
        for future in running:
            future.result(60)

    assert got == list(range(count))
    assert sum(marked) == count
    assert (buffer.safe, buffer.in_flight, len(buffer)) == (count - 1, 0, 0)


def test_Q9_failures_and_second_attempts_from_many_threads_end_in_a_safe_prefix() -> None:
    buffer = lv.AckBuffer(64, retain=False)
    work: SimpleQueue[tuple[int, int] | None] = SimpleQueue()
    last_id = 15_000
    done = threading.Event()

    def settle(number: int) -> None:
        random = Random(number)
        while (given := work.get()) is not None:
            id, sequence = given
            if random.random() < 0.2:
                assert buffer.fail(sequence, RuntimeError("refused"))
                assert buffer.put(id) == sequence
                work.put((id, sequence))
            else:
                assert buffer.mark(sequence)
                if buffer.safe == last_id:
                    done.set()

    with ThreadPoolExecutor(THREADS) as pool:
        running = [pool.submit(settle, number) for number in range(THREADS)]
        for id in range(last_id + 1):
            while True:
                try:
                    sequence = buffer.put(id, timeout=20)
                    break
                except lv.errors.NotAcknowledgedError:
                    continue  # Its thread is about to put it again.
            work.put((id, sequence))
        assert done.wait(30)
        for _ in range(THREADS):
            work.put(None)
        for future in running:
            future.result(30)

    assert (buffer.failure, buffer.in_flight) == (None, 0)
