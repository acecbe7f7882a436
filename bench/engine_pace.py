"""Ticks at a fixed rate, for threads, epoll and asyncio, and the percentiles of latencies.

The schedule does not shift: after a late tick the missed ticks follow at once. asyncio and epoll wait only for whole milliseconds, so they
use a timer of the kernel.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

SECOND_NS = 1_000_000_000
_LIBC = ctypes.CDLL(None, use_errno=True)
_CLOCK_MONOTONIC = 1
_NON_BLOCKING = os.O_NONBLOCK | os.O_CLOEXEC


class Timer:
    """A file descriptor that is readable when a tick is due (timerfd_create(2); Python has it from 3.13 on)."""

    def __init__(self, rate: int) -> None:
        self.descriptor = _LIBC.timerfd_create(_CLOCK_MONOTONIC, _NON_BLOCKING)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        interval_ns = SECOND_NS // rate
        # struct itimerspec: interval, then the first tick, each in seconds and nanoseconds.
        seconds, nanoseconds = divmod(interval_ns, SECOND_NS)
        setting = struct.pack("@llll", seconds, nanoseconds, seconds, nanoseconds)
        if _LIBC.timerfd_settime(self.descriptor, 0, setting, None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def due(self) -> int:
        """Return how many ticks were due since the last call."""
        try:
            return int.from_bytes(os.read(self.descriptor, 8), "little")
        except BlockingIOError:
            return 0

    def close(self) -> None:
        os.close(self.descriptor)


def ticks(count: int, rate: int, wait: Callable[[float], object] = time.sleep) -> Iterator[int]:
    """Yield 0, 1, ... each when it is due. wait: called with the seconds to wait; it may return earlier."""
    start = time.monotonic_ns()
    for number in range(count):
        due = start + number * SECOND_NS // rate
        while (left := due - time.monotonic_ns()) > 0:
            wait(left / SECOND_NS)
        yield number


async def async_ticks(count: int, rate: int) -> AsyncIterator[int]:
    """Do what ticks() does on an asyncio loop."""
    loop, timer, ticked, number = asyncio.get_running_loop(), Timer(rate), asyncio.Event(), 0
    loop.add_reader(timer.descriptor, ticked.set)
    try:
        while number < count:
            await ticked.wait()
            ticked.clear()
            for _ in range(min(timer.due(), count - number)):
                yield number
                number += 1
    finally:
        loop.remove_reader(timer.descriptor)
        timer.close()


def percentiles(latencies_ns: Sequence[int]) -> dict[str, float]:
    """Return p50, p99 and the maximum, in milliseconds."""
    ordered = sorted(latencies_ns)
    places = {"p50 ms": len(ordered) // 2, "p99 ms": len(ordered) * 99 // 100, "max ms": len(ordered) - 1}
    return {name: ordered[place] / 1e6 for name, place in places.items()}
