"""Lets several threads use one consumer: levada's consumer belongs to one thread at a time, librdkafka's to any."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from time import sleep
from typing import ParamSpec

P = ParamSpec("P")

_LOOK_AGAIN_S = 0.0005


class Turns:
    """A lock that poll() holds for short steps, and that other calls get between two steps.

    A signal handler of the program may raise after any call in Python code, but not between a lock and its `with` block, nor between `try`
    and an assignment. So the lock is not held, and no call counts as waiting, after a step or call that a handler has ended.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._held = 0
        self._waiting: set[object] = set()

    def step(self, poll: Callable[P, object], *args: P.args, **keywords: P.kwargs) -> None:
        """Run a step of poll(), after the calls of other threads that wait. Without this, poll() would get the lock again and again."""
        while True:
            with self._lock:
                # A callback that polls has the lock already. Calls that wait cannot get it before the callback ends.
                if not self._waiting or self._held:
                    try:
                        self._held += 1
                        poll(*args, **keywords)
                        return
                    finally:
                        self._held -= 1
            sleep(_LOOK_AGAIN_S)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the lock in the `with` block, for one call that uses the consumer."""
        call = object()
        try:
            self._waiting.add(call)
            with self._lock:
                try:
                    self._held += 1
                    self._waiting.remove(call)
                    yield
                finally:
                    self._held -= 1
        finally:
            self._waiting.discard(call)
