"""Threads of a program: how one sleeps until it is woken, and that a consumer is used by one at a time."""

from __future__ import annotations

import threading
from _thread import RLock
from collections.abc import Callable
from typing import Self

from levada.errors import ConcurrentUseError

_WITHOUT_WAITING = (False,)


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


class SoleThread(RLock):  # type: ignore[misc]
    """A context in which only one thread at a time may be. A second thread does not wait, but gets a ConcurrentUseError.

    The same thread may enter again: a rebalance listener calls the consumer while a call of the consumer runs.

    A signal handler that raises leaves the lock free: it cannot interrupt `__exit__`, which is C, nor a call of C that takes the lock and
    notes that it did.

    check_usable: raises an error if the client cannot be used at all, for example in a forked child.
    """

    def __new__(cls, check_usable: Callable[[], None]) -> Self:
        """Without arguments for RLock, which takes none from Python 3.15 on."""
        return super().__new__(cls)

    def __init__(self, check_usable: Callable[[], None]) -> None:
        self._check_usable = check_usable
        self._owner = 0

    def __enter__(self) -> None:  # type: ignore[override]
        taken: list[bool] = []
        try:
            taken.extend(map(self.acquire, _WITHOUT_WAITING))
            if taken[0]:
                self._owner = threading.get_ident()
                return
            # In a forked child it is held for ever, by a thread that did not come along.
            self._check_usable()
            raise ConcurrentUseError(
                f"another thread ({self._owner}) is using this consumer; one thread at a time may, wakeup() alone is for others"
            )
        except BaseException:
            if taken == [True]:
                self.release()
            raise
