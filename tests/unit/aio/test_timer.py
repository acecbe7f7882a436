"""Timers of an event loop."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import cast

import pytest

from levada.aio.tasks import Timer


class Handle:
    """A call that an event loop is to make."""

    def __init__(self, at_s: float, call: Callable[[], None]) -> None:
        self.at_s = at_s
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """As much of an event loop as timers need. Each call comes late, as the kernel has it."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.handles: list[Handle] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, seconds: float, call: Callable[[], None]) -> Handle:
        self.handles.append(Handle(self.now_s + seconds, call))
        return self.handles[-1]

    def run(self) -> None:
        while self.handles:
            handle = self.handles.pop(0)
            if not handle.is_cancelled:
                self.now_s += (handle.at_s - self.now_s) * 1.005
                handle.call()


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.5, 3.0, 3600.0])
def test_a_timer_rings_once_and_in_time(seconds: float) -> None:
    loop, rung = Loop(), []
    Timer(cast("AbstractEventLoop", loop), seconds, lambda: rung.append(loop.now_s - 1_000))
    loop.run()
    assert len(rung) == 1
    assert 0 <= rung[0] - seconds < 0.003


def test_a_timer_is_cancelled_in_each_of_its_waits() -> None:
    loop, rung = Loop(), []
    timer = Timer(cast("AbstractEventLoop", loop), 3, lambda: rung.append(True))
    first = loop.handles.pop()
    loop.now_s = first.at_s
    first.call()
    assert loop.handles, "the rest is waited for"
    timer.cancel()
    loop.run()
    assert not rung
