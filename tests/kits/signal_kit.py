"""Signal handlers that raise: at random moments, or at a chosen one."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import FrameType, ModuleType
from typing import Any


class Strike(Exception):
    """Raised by the signal handler."""


class Striker:
    """Sends SIGUSR1 to this process a random time after each arm(). longest_s: the longest time in seconds."""

    def __init__(self, random: Random, longest_s: float) -> None:
        self._random = random
        self._longest_s = longest_s
        self._armed = threading.Event()
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="striker")

    def arm(self) -> None:
        """Send one signal within longest_s seconds."""
        self._armed.set()

    def _run(self) -> None:
        while self._armed.wait() and not self._stop:
            self._armed.clear()
            pause = threading.Event()
            pause.wait(self._random.random() ** 2 * self._longest_s)
            os.kill(os.getpid(), signal.SIGUSR1)


@contextmanager
def striking(random: Random, longest_s: float = 0.004) -> Iterator[Striker]:
    """Within the block, raise Strike for each SIGUSR1. Yields the Striker that sends the signals."""

    def strike(number: int, frame: FrameType | None) -> Any:
        raise Strike

    before = signal.signal(signal.SIGUSR1, strike)
    striker = Striker(random, longest_s)
    striker._thread.start()
    try:
        yield striker
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        striker._stop = True
        striker.arm()
        striker._thread.join()
        signal.signal(signal.SIGUSR1, before)


@contextmanager
def struck(moment: int, *modules: ModuleType) -> Iterator[None]:
    """Within the block, raise Strike at one of the moments of this thread at which Python lets a signal handler run in modules.

    A handler runs as a function of Python begins, and when a call of one in C ends: where a profiler is called. (It runs in loops, too.)
    """
    files = {module.__file__ for module in modules}
    left = moment

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        if event in ("call", "c_return") and frame.f_code.co_filename in files:
            left -= 1
            if left == -1:
                raise Strike

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
