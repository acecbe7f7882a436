"""Threads that wait for a buffer: what wakes them, what ends the wait, and what is left then."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import levada as lv
from fork_kit import told_by_child
from levada import aio
from levada.api.ack_waiting import WaitingAckBuffer
from levada.api.lifecycle import CALLBACK_THREADS
from levada.errors import ClosedError, ForkedError, IllegalStateError, NotAcknowledgedError, Persisted, TimeoutError
from levada.sync.waiter import Waiter

PATIENCE_S = 20
POLL_S = 0.1


@pytest.fixture
def asleep(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Is released whenever a thread begins to sleep."""
    sleeps = threading.Semaphore(0)
    sleep = Waiter.sleep

    def noticed(self: Waiter, ms: int) -> None:
        sleeps.release()
        sleep(self, ms)

    monkeypatch.setattr(Waiter, "sleep", noticed)
    return sleeps


Start = Callable[..., "Future[Any]"]


@pytest.fixture
def in_thread(asleep: threading.Semaphore) -> Iterator[Start]:
    """Run a call in another thread; return when it sleeps."""
    with ThreadPoolExecutor(4) as pool:

        def start(call: Callable[..., Any], *arguments: Any, **keywords: Any) -> Future[Any]:
            future = pool.submit(call, *arguments, **keywords)
            assert asleep.acquire(timeout=PATIENCE_S)
            return future

        yield start


def full_buffer(**keywords: Any) -> lv.AckBuffer:
    buffer = lv.AckBuffer(2, **keywords)
    assert [buffer.put(1), buffer.put(2)] == [0, 1]
    return buffer


def test_Q3_put_waits_while_the_buffer_is_full(in_thread: Start) -> None:
    buffer = full_buffer()
    putting = in_thread(buffer.put, 3, timeout=float("inf"))

    buffer.mark(0)
    assert not putting.done()
    assert buffer.get() == 1

    assert putting.result(PATIENCE_S) == 2
    assert buffer.blocked_time > 0


def test_Q3_without_retain_a_mark_lets_put_go_on(in_thread: Start) -> None:
    buffer = full_buffer(retain=False)
    putting = in_thread(buffer.put, 3)

    buffer.mark(0)

    assert putting.result(PATIENCE_S) == 2


def test_Q5_get_waits_until_the_next_id_is_marked(in_thread: Start) -> None:
    buffer = full_buffer()
    getting = in_thread(buffer.get)

    buffer.mark(1)
    assert not getting.done()
    buffer.mark(0)

    assert getting.result(PATIENCE_S) == 1
    assert buffer.get() == 2


def test_Q5_get_waits_in_an_empty_buffer(in_thread: Start) -> None:
    buffer = lv.AckBuffer(2)
    getting = in_thread(buffer.get)

    buffer.mark(buffer.put("a"))

    assert getting.result(PATIENCE_S) == "a"


def test_wait_empty_returns_when_everything_is_safe(in_thread: Start) -> None:
    buffer = full_buffer()
    emptied = in_thread(buffer.wait_empty)

    buffer.mark(1)
    assert not emptied.done()
    buffer.mark(0)

    emptied.result(PATIENCE_S)
    buffer.wait_empty(0)


def test_Q8_waits_take_timeouts_and_leave_everything_as_it_was() -> None:
    buffer = full_buffer()

    with pytest.raises(TimeoutError, match=r"no free slot within 0\.01 s; 2 ids are not safe, the oldest for") as late:
        buffer.put(3, timeout=0.01)
    assert late.value.persisted is Persisted.NO
    with pytest.raises(TimeoutError, match="the next id is not marked within 0 s"):
        buffer.get(timeout=0)
    with pytest.raises(TimeoutError, match=r"not everything is safe within 0\.001 s"):
        buffer.wait_empty(0.001)
    with pytest.raises(ValueError, match="negative"):
        buffer.put(3, timeout=-1)

    buffer.mark_many([0, 1])
    assert [buffer.get(), buffer.get(), buffer.put(3)] == [1, 2, 2]


def test_Q8_close_wakes_all_with_ClosedError(in_thread: Start) -> None:
    buffer = full_buffer()
    waiting = [in_thread(buffer.put, 3), in_thread(buffer.get), in_thread(buffer.wait_empty)]

    buffer.close()

    for wait in waiting:
        with pytest.raises(ClosedError, match="the AckBuffer is closed"):
            wait.result(PATIENCE_S)


def test_Q9_a_failure_wakes_all_who_would_wait_in_vain(in_thread: Start) -> None:
    buffer = full_buffer()
    waiting = [in_thread(buffer.put, 3), in_thread(buffer.get), in_thread(buffer.wait_empty)]

    buffer.fail(0, RuntimeError("refused"))

    for wait in waiting:
        with pytest.raises(NotAcknowledgedError, match="id 1"):
            wait.result(PATIENCE_S)


def test_Q9_get_goes_on_up_to_the_failed_id(in_thread: Start) -> None:
    buffer = full_buffer()
    buffer.fail(1, RuntimeError("refused"))
    getting = in_thread(buffer.get)

    buffer.mark(0)

    assert getting.result(PATIENCE_S) == 1


def test_leaving_a_with_block_closes(in_thread: Start) -> None:
    with full_buffer() as buffer:
        getting = in_thread(buffer.get)

    with pytest.raises(ClosedError):
        getting.result(PATIENCE_S)


class Strike(Exception):
    pass


@pytest.mark.parametrize("call", ["put", "get", "wait_empty"])
def test_Q8_a_signal_handler_ends_the_wait_with_nothing_changed(call: str, asleep: threading.Semaphore) -> None:
    buffer = full_buffer()

    struck = threading.Event()

    def strike(*_: Any) -> None:
        if not struck.is_set():
            struck.set()
            raise Strike

    def kill_when_asleep() -> None:
        assert asleep.acquire(timeout=PATIENCE_S)
        # A signal that comes just before the system waits is seen by Python when the wait is over, or with the next one.
        while not struck.is_set():
            os.kill(os.getpid(), signal.SIGUSR1)
            struck.wait(POLL_S)

    before = signal.signal(signal.SIGUSR1, strike)
    killer = threading.Thread(target=kill_when_asleep)
    killer.start()
    try:
        with pytest.raises(Strike):
            getattr(buffer, call)(*[3] * (call == "put"), timeout=PATIENCE_S)
    finally:
        killer.join()
        signal.signal(signal.SIGUSR1, before)

    buffer.mark_many([0, 1])
    assert [buffer.get(), buffer.get(), buffer.put(3)] == [1, 2, 2]


def strike_after(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Have a method of the buffer raise once, as a signal's handler may at its end, when all is done that it does."""
    method = getattr(WaitingAckBuffer, name)

    def struck(self: Any, *arguments: Any) -> None:
        monkeypatch.setattr(WaitingAckBuffer, name, method)
        method(self, *arguments)
        raise Strike

    monkeypatch.setattr(WaitingAckBuffer, name, struck)


def test_Q8_an_id_of_a_put_that_a_signal_handler_broke_off_is_not_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = lv.AckBuffer(2)
    strike_after(monkeypatch, "_try_put")
    with pytest.raises(Strike):
        buffer.put(1)
    assert (len(buffer), buffer.put(1), buffer.put(2)) == (0, 0, 1)


def test_Q8_so_is_that_of_a_put_that_had_to_wait(monkeypatch: pytest.MonkeyPatch, in_thread: Start) -> None:
    buffer = full_buffer(retain=False)
    strike_after(monkeypatch, "_note_blocked")
    putting = in_thread(buffer.put, 3)
    buffer.mark(0)
    with pytest.raises(Strike):
        putting.result(PATIENCE_S)
    assert (buffer.put(3), buffer.in_flight) == (2, 2)


def test_Q8_so_is_that_of_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        buffer = aio.AckBuffer(2)
        strike_after(monkeypatch, "_try_put")
        with pytest.raises(Strike):
            await buffer.put(1)
        assert (await buffer.put(1), buffer.in_flight) == (0, 1)

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork() here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_M_B19_a_child_is_told_that_nobody_marks_its_copy() -> None:
    buffer = full_buffer()
    buffer.mark(0)
    calls: dict[str, Callable[[], object]] = {
        "put": lambda: buffer.put(3),
        "mark": lambda: buffer.mark(1),
        "mark_many": lambda: buffer.mark_many([1]),
        "fail": lambda: buffer.fail(1, RuntimeError()),
        "get": buffer.get,
        "wait_empty": buffer.wait_empty,
    }

    def tell() -> str:
        told = []
        for name, call in calls.items():
            try:
                call()
            except ForkedError as error:
                told.append(f"{name}: {error}")
        buffer.close()
        return "\n".join([*told, f"safe: {buffer.safe}", f"new: {lv.AckBuffer(1).put(1)}"])

    *told, safe, new = told_by_child(tell).splitlines()
    assert [line.partition(":")[0] for line in told] == list(calls)
    assert all("made before fork()" in line and "after=1" in line for line in told)
    assert (safe, new) == ("safe: 1", "new: 0")
    assert buffer.mark(1), "the parent goes on"


def test_Q10_a_callback_that_waits_is_refused() -> None:
    """The thread that runs callbacks also brings the acknowledgements."""
    buffer = full_buffer()
    CALLBACK_THREADS.add(threading.get_ident())
    try:
        with pytest.raises(IllegalStateError, match="callback could wait for acknowledgements"):
            lv.AckBuffer(5).put(1)
        for call in (lambda: buffer.put(3), buffer.get, buffer.wait_empty):
            with pytest.raises(IllegalStateError, match="callback"):
                call()
        assert buffer.mark_many([0, 1]) == 2
        assert buffer.get() == 1
    finally:
        CALLBACK_THREADS.discard(threading.get_ident())


def test_Q10_a_wait_that_would_stop_an_event_loop_is_refused() -> None:
    async def main() -> None:
        buffer = full_buffer()
        with pytest.raises(IllegalStateError, match=r"use levada\.aio\.AckBuffer"):
            buffer.put(3)
        buffer.mark(0)
        assert buffer.get() == 1

    asyncio.run(main())
