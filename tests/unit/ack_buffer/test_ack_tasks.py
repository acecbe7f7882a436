"""Tasks that wait for a buffer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from levada import aio
from levada.aio.ack_buffer import Sleeper
from levada.errors import ClosedError, NotAcknowledgedError, TimeoutError

PATIENCE_S = 20
Test = Callable[[], Coroutine[Any, Any, None]]


async def full_buffer(**keywords: Any) -> aio.AckBuffer:
    buffer = aio.AckBuffer(2, **keywords)
    assert [await buffer.put(1), await buffer.put(2)] == [0, 1]
    return buffer


async def suspended(*awaiting: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.create_task(call) for call in awaiting]
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    return tasks


def test_Q3_Q5_put_and_get_wait_for_one_another() -> None:
    async def main() -> None:
        buffer = await full_buffer()
        [putting] = await suspended(buffer.put(3, PATIENCE_S))
        buffer.mark(0)
        assert await buffer.get() == 1
        assert await putting == 2
        [getting] = await suspended(buffer.get())
        # From another thread, as a blocking producer's.
        thread = threading.Thread(target=buffer.mark_many, args=([1, 2],))
        thread.start()
        assert [await getting, await buffer.get(PATIENCE_S)] == [2, 3]
        thread.join()
        await buffer.wait_empty()

    asyncio.run(main())


def test_wait_empty_returns_when_everything_is_safe() -> None:
    async def main() -> None:
        buffer = await full_buffer(retain=False)
        [emptied] = await suspended(buffer.wait_empty(PATIENCE_S))
        buffer.mark(0)
        await asyncio.sleep(0)
        assert not emptied.done()
        buffer.mark(1)
        await emptied

    asyncio.run(main())


def test_Q8_a_cancelled_wait_changes_nothing() -> None:
    async def main() -> None:
        buffer = await full_buffer()
        tasks = await suspended(buffer.put(3), buffer.get(), buffer.wait_empty())
        for task in tasks:
            task.cancel()
        assert [type(outcome) for outcome in await asyncio.gather(*tasks, return_exceptions=True)] == [asyncio.CancelledError] * 3
        buffer.mark_many([0, 1])
        assert [await buffer.get(), await buffer.get(), await buffer.put(3)] == [1, 2, 2]

    asyncio.run(main())


def test_Q8_a_wait_that_is_cancelled_as_it_is_woken_takes_nothing() -> None:
    async def main() -> None:
        buffer = await full_buffer()
        [getting] = await suspended(buffer.get())
        buffer.mark(0)
        getting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await getting
        assert await buffer.get(0) == 1

    asyncio.run(main())


def test_Q8_waits_take_timeouts() -> None:
    async def main() -> None:
        buffer = await full_buffer()
        for call in (buffer.put(3, 0.001), buffer.get(0), buffer.wait_empty(0.001)):
            with pytest.raises(TimeoutError, match="2 ids are not safe"):
                await call

    asyncio.run(main())


def test_Q8_Q9_failure_and_close_wake_all() -> None:
    async def main() -> None:
        buffer = await full_buffer()
        waiting = await suspended(buffer.put(3), buffer.get(), buffer.wait_empty())
        buffer.fail(0, RuntimeError("refused"))
        assert [type(error) for error in await asyncio.gather(*waiting, return_exceptions=True)] == [NotAcknowledgedError] * 3
        assert await buffer.put(1) == 0
        async with buffer:
            waiting = await suspended(buffer.put(3), buffer.get(), buffer.wait_empty())
        assert [type(error) for error in await asyncio.gather(*waiting, return_exceptions=True)] == [ClosedError] * 3

    asyncio.run(main())


def test_a_mark_after_the_end_of_the_loop_is_harmless() -> None:
    buffer = aio.AckBuffer(1)

    async def abandon() -> None:
        await buffer.put(1)
        buffer._await_change(Sleeper().wake, room=False)

    asyncio.run(abandon())

    assert buffer.mark(0)
