"""How long the I/O thread leaves the sockets to users' threads."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from levada.base.clock import NEVER_MS
from levada.client.driver_interface import LoopTime
from levada.net.selectable import NetEvents
from levada.sync.stepper import IDLE_NAP_MS, LONGEST_NAP_MS, Stepper
from levada.sync.waiter import Waiter

PATIENCE_S = 5
MOMENTS = range(1, 12)
"""More than the lines of Stepper._take_nap; at the later ones the nap has begun."""


class IdleEngine:
    """Nothing is ever due."""

    def __init__(self) -> None:
        self.deferred: deque[Any] = deque()
        self.loop_time = LoopTime()

    def complete(self, events: NetEvents, now_ms: int) -> None:
        pass

    def advance(self, now_ms: int) -> int:
        return NEVER_MS


class QuietNetwork:
    """select() lasts until it is told to end."""

    def __init__(self) -> None:
        self.is_selecting = threading.Event()
        self.end = threading.Event()

    def select(self, timeout_ms: int) -> None:
        self.is_selecting.set()
        assert self.end.wait(PATIENCE_S)

    def process(self, ready: None, now_ms: int) -> NetEvents:
        return NetEvents()


class FastNetwork(QuietNetwork):
    """A large response arrives in each select(), and it is what a user's thread waits for."""

    def __init__(self, waiter: Waiter) -> None:
        super().__init__()
        self._waiter = waiter
        self.end.set()

    def process(self, ready: None, now_ms: int) -> NetEvents:
        self._waiter.settle()
        return NetEvents(received=[(1, memoryview(bytes(1 << 20)))])


class StoppedClock:
    def now_ms(self) -> int:
        return 0

    def wall_ms(self) -> int:
        return 0


class Nap(Waiter):
    """Notes for how long the I/O thread would sleep instead of doing so. during: what happens while it sleeps."""

    def __init__(self, during: Callable[[], None]) -> None:
        super().__init__()
        self.during = during
        self.wanted_ms: list[int] = []
        self.slept_ms: list[int] = []

    def sleep(self, ms: int) -> None:
        self.during()
        self.wanted_ms.append(ms)
        self.slept_ms.append(0 if self._lock.acquire(blocking=False) else ms)


class UsersThread:
    """Sits in one select() until it leaves."""

    def __init__(self, stepper: Stepper, network: QuietNetwork) -> None:
        self._network = network
        self._stepper = stepper
        self._waiter = Waiter()
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()
        assert network.is_selecting.wait(PATIENCE_S)

    def _wait(self) -> None:
        self._stepper.step_until(self._waiter, NEVER_MS, lambda: False)
        self._stepper.pass_on()

    def leave(self) -> None:
        self._waiter.settle()
        self._network.end.set()
        self._thread.join(PATIENCE_S)


def at_line(number: int, of: str, act: Callable[[], None]) -> Callable[[FrameType, str, Any], Any]:
    """Return a trace function that acts before one of the lines of a function is run."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_name != of:
            return None
        if event == "line":
            lines += 1
            if lines == number:
                act()
        return trace

    return trace


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_last_user_to_leave_ends_a_long_nap_whenever_it_leaves(moment: int) -> None:
    engine: Any = IdleEngine()
    network: Any = QuietNetwork()
    stepper = Stepper(engine, network, StoppedClock(), "tested")
    user = UsersThread(stepper, network)
    stepper._nap = nap = Nap(during=lambda: None)
    stepper.step_or_nap()

    nap.during = user.leave
    tracing = sys.gettrace()
    sys.settrace(at_line(moment, "_take_nap", user.leave))
    try:
        stepper.step_or_nap()
    finally:
        sys.settrace(tracing)

    assert nap.slept_ms[-1] <= LONGEST_NAP_MS
    if moment == MOMENTS[-1]:
        assert nap.wanted_ms[-1] == IDLE_NAP_MS, "nobody had left before"


@pytest.mark.parametrize(("used_ms", "woken"), [(20, False), (1, True)])
def test_the_io_thread_reads_on_only_beside_a_program_that_waits(monkeypatch: pytest.MonkeyPatch, used_ms: int, woken: bool) -> None:
    """Beside a program that computes, both would fight for the interpreter."""
    spent_ns = {"perf_counter_ns": 0, "thread_time_ns": 0}
    for name in spent_ns:
        monkeypatch.setattr(f"levada.sync.stepper.{name}", lambda name=name: spent_ns[name])
    engine: Any = IdleEngine()
    waiter = Waiter()
    network: Any = FastNetwork(waiter)
    stepper = Stepper(engine, network, StoppedClock(), "tested")

    def poll() -> None:
        waiter.settled = False
        assert stepper.step_until(waiter, NEVER_MS, lambda: False)
        stepper.pass_on()

    def work_and_poll() -> None:
        spent_ns["perf_counter_ns"] += 25_000_000
        spent_ns["thread_time_ns"] += used_ms * 1_000_000
        poll()

    stepper._nap = nap = Nap(during=work_and_poll)
    poll()
    stepper.step_or_nap()
    assert nap.slept_ms == [0 if woken else nap.wanted_ms[0]]
