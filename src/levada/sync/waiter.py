"""Threads of a program: how one sleeps until it is woken, and that a consumer is used by one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from levada.errors import ConcurrentUseError


class Waiter:
    """Puts one thread to sleep until another one wakes it. A wake() that comes first ends the next sleep() at once.

    It is a bare lock, because a signal handler or a finalizer may call wake(), and must not wait for a lock itself.
    """

    __slots__ = ("_lock", "settled")

    def __init__(self) -> None:
        self.settled = False
        """Whether the event that the thread waits for has happened."""
        self._lock = threading.Lock()
        self._lock.acquire()

    def sleep(self, ms: int) -> None:
        """Wait until woken, for at most `ms` milliseconds."""
        self._lock.acquire(timeout=min(max(ms, 0) / 1000, threading.TIMEOUT_MAX))

    def wake(self) -> None:
        """End the sleep. Any thread, a signal handler or a finalizer may call it."""
        try:
            self._lock.release()
        except RuntimeError:
            return  # It is awake already.

    def settle(self) -> None:
        """Wake the thread for good."""
        self.settled = True
        self.wake()


class SoleThread:
    """A context that one thread at a time may be in. A second thread does not wait; it gets a ConcurrentUseError.

    check_usable: raises if the client cannot be used at all, as in a forked child.
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
