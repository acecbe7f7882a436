"""Timers of an event loop, and that a consumer is used by one task at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any

from levada.base.clock import first_wait_s
from levada.errors import ConcurrentUseError


class Timer:
    """Calls a function once, in the event loop, after this many seconds, unless it is cancelled. It is on time even for long times."""

    __slots__ = ("_due_s", "_handle", "_loop", "_ring")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._due_s = loop.time() + seconds
        self._wait(seconds)

    def cancel(self) -> None:
        """Cancel the timer, so that the function is not called."""
        self._handle.cancel()

    def _wait(self, seconds: float) -> None:
        first_s = first_wait_s(seconds)
        self._handle = self._loop.call_later(first_s, self._ring if first_s == seconds else self._wait_again)

    def _wait_again(self) -> None:
        self._wait(max(self._due_s - self._loop.time(), 0))


class SoleTask:
    """A context in which only one task at a time may be. A second task does not wait, but gets a ConcurrentUseError.

    The same task may enter again: a rebalance listener calls the consumer while a call of the consumer runs.
    """

    def __init__(self) -> None:
        self._owner: asyncio.Task[Any] | None = None
        self._depth = 0

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if self._owner is not None and self._owner is not task:
            raise ConcurrentUseError(f"another task ({self._owner.get_name()}) is using this consumer; one at a time may, but for wakeup()")
        self._owner = task
        self._depth += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
