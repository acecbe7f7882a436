"""The asyncio API of AckBuffer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from levada.aio.driver import running_loop
from levada.aio.tasks import Timer
from levada.api.ack_waiting import Sleeping, WaitingAckBuffer, Wake
from levada.base.unsupported_names import asynchronous

T = TypeVar("T")


@asynchronous
class AckBuffer(WaitingAckBuffer):
    """The asyncio version of levada.AckBuffer. Any thread may mark ids; tasks of several event loops may wait."""

    async def put(self, id: Any, timeout: float | None = None) -> int:
        """Add an id, and return its sequence, like levada.AckBuffer.put(). If the call is cancelled while it waits, the id is not added."""
        taken: list[Any] = []
        try:
            sequence = self._try_put(id, taken)
            return sequence if sequence is not None else await _sleep_through(lambda wake: self._putting(id, taken, timeout, wake))
        except BaseException as broken_off:
            self._take_back(taken, broken_off)
            raise

    async def get(self, timeout: float | None = None) -> Any:
        """Return the next id, like levada.AckBuffer.get(). If the call is cancelled while it waits, the id stays in the buffer."""
        id = self._take()
        return id if id is not None else await _sleep_through(lambda wake: self._getting(timeout, wake))

    async def wait_empty(self, timeout: float | None = None) -> None:
        """Wait until every id that was put is safe. timeout: seconds; None waits without limit.

        Raises TimeoutError, ClosedError, and NotAcknowledgedError as soon as an id has failed.
        """
        if not self._is_empty():
            await _sleep_through(lambda wake: self._emptying(timeout, wake))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Sleeper:
    """Suspends one task until another task or a thread wakes it. If wake() is called first, the next sleep() ends at once."""

    def __init__(self) -> None:
        self._loop = running_loop("AckBuffer")
        self._woken = False
        self._future: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """End the sleep. May be called from any thread."""
        with suppress(RuntimeError):  # The loop is closed: its tasks are gone.
            self._loop.call_soon_threadsafe(self._end)

    async def sleep(self, seconds: float | None) -> None:
        """Return when woken, or after this many seconds; None waits without limit."""
        if not self._woken:
            self._future = self._loop.create_future()
            timer = None if seconds is None else Timer(self._loop, seconds, self._end)
            try:
                await self._future
            finally:
                if timer is not None:
                    timer.cancel()
        self._woken = False

    def _end(self) -> None:
        self._woken = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


async def _sleep_through(start: Callable[[Wake], Sleeping[T]]) -> T:
    """Run a flow that yields sleeping times, and suspend the task for each of them."""
    sleeper = Sleeper()
    steps = start(sleeper.wake)
    try:
        while True:
            await sleeper.sleep(next(steps))
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        steps.close()
