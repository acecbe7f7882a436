"""Lets several threads use one consumer: levada's consumer belongs to one thread at a time, librdkafka's to any."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, RLock
from time import sleep

_LOOK_AGAIN_S = 0.0005


class Turns:
    """A lock that poll() holds for short steps, and that other calls get between two steps.

    `with turns:` is a step of poll(), which comes after the calls that wait: otherwise poll() would get the lock again and again.
    `with turns.turn():` is any other call.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._held = 0
        self._waiting = 0
        self._count = Lock()

    def __enter__(self) -> None:
        while True:
            self._lock.acquire()
            # A callback that polls has the lock already. Calls that wait cannot get it before the callback ends.
            if not self._waiting or self._held:
                break
            self._lock.release()
            sleep(_LOOK_AGAIN_S)
        self._held += 1

    def __exit__(self, *_: object) -> None:
        self._held -= 1
        self._lock.release()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Use the consumer for one call."""
        with self._count:
            self._waiting += 1
        try:
            self._lock.acquire()
        finally:
            with self._count:
                self._waiting -= 1
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            self._lock.release()
