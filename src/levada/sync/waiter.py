"""What a thread sleeps on: bare locks, because a signal handler or a finalizer may wake it and must not wait for a lock itself."""

from __future__ import annotations

import threading


class Waiter:
    """Puts one thread to sleep until another one wakes it. A wake() that comes first ends the next sleep() at once."""

    __slots__ = ("_lock", "settled")

    def __init__(self) -> None:
        self.settled = False
        """Whether what the thread waits for has happened."""
        self._lock = threading.Lock()
        self._lock.acquire()

    def sleep(self, ms: int) -> None:
        """Return when woken, or after so many milliseconds."""
        self._lock.acquire(timeout=min(max(ms, 0) / 1000, threading.TIMEOUT_MAX))

    def wake(self) -> None:
        """End the sleep. From any thread, a signal handler and a finalizer."""
        try:
            self._lock.release()
        except RuntimeError:
            return  # It is awake already.

    def settle(self) -> None:
        """Wake the thread for good."""
        self.settled = True
        self.wake()
