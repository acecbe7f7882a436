"""A consumer is for one thread at a time (F1)."""

from __future__ import annotations

import threading
from types import TracebackType

from levada.errors import ConcurrentUseError
from levada.sync.driver import Driver


class SoleThread:
    """Lets one thread in at a time, and says so to a second one instead of letting it wait (F1)."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lock = threading.RLock()
        self._owner = 0

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            # In a forked child it is held for ever, by a thread that did not come along.
            self._driver.check_usable()
            raise ConcurrentUseError(
                f"another thread ({self._owner}) is using this consumer; one thread at a time may, wakeup() alone is for others"
            )
        self._owner = threading.get_ident()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lock.release()
