"""Timers of an event loop that ring in time after a long wait, too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from levada.base.clock import first_wait_s


class Timer:
    """Calls back once, in the loop, after so many seconds, unless it is cancelled."""

    __slots__ = ("_due_s", "_handle", "_loop", "_ring")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._due_s = loop.time() + seconds
        self._wait(seconds)

    def cancel(self) -> None:
        """Do not call back."""
        self._handle.cancel()

    def _wait(self, seconds: float) -> None:
        first_s = first_wait_s(seconds)
        self._handle = self._loop.call_later(first_s, self._ring if first_s == seconds else self._wait_again)

    def _wait_again(self) -> None:
        self._wait(max(self._due_s - self._loop.time(), 0))
