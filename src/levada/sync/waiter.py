"""Threads of a program: how one sleeps until it is woken, and that a consumer is used by one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from levada.errors import ConcurrentUseError


class Waiter:
    """Suspends one thread until another thread wakes it. If wake() is called first, the next sleep() ends at once.

    It is a bare lock, because a signal handler or a finalizer may call wake(), and must not wait for a lock itself.
    """

    __slots__ = ("_lock", "settled")

    def __init__(self) -> None:
        self.settled = False
        """Whether the event that the thread waits for has happened."""
        self._lock = threading.Lock()
        self._lock.acquire()

    def sleep(self, ms: int) -> None:
        """Sleep until woken, for at most `ms` milliseconds."""
        self._lock.acquire(timeout=min(max(ms, 0) / 1000, threading.TIMEOUT_MAX))

    def wake(self) -> None:
        """End the sleep. May be called from any thread, signal handler or finalizer."""
        try:
            self._lock.release()
        except RuntimeError:
            return  # It is awake already.

    def settle(self) -> None:
        """Wake the thread, and mark the wait as over."""
        self.settled = True
        self.wake()


class SoleThread:
    """A context in which only one thread at a time may be. A second thread does not wait, but gets a ConcurrentUseError.

    check_usable: raises an error if the client cannot be used at all, for example in a forked child.
    """

    def __init__(self, check_usable: Callable[[], None]) -> None:
        self._check_usable = check_usable
        self._lock = threading.RLock()
        self._owner = 0

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            # In a forked child it is held for ever, by a thread that did not come along.
            self._check_usable()
            raise ConcurrentUseError(
                f"another thread ({self._owner}) is using this consumer; one thread at a time may, wakeup() alone is for others"
            )
        self._owner = threading.get_ident()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lock.release()
