"""Not more than so many per second."""

from __future__ import annotations

import time


class Pace:
    """Makes its caller wait, so that on average it does at most `rate` things per second. rate: None for any number."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._began_s = time.monotonic()
        self._done = 0

    @property
    def at_once(self) -> int:
        """How many may come together, so that the waits stay short: a tenth of a second's."""
        return 1 << 30 if self._rate is None else max(int(self._rate / 10), 1)

    def wait(self, count: int = 1) -> None:
        """Wait until so many more are due."""
        if self._rate is None:
            return
        self._done += count
        ahead_s = self._done / self._rate - (time.monotonic() - self._began_s)
        if ahead_s > 0:
            time.sleep(ahead_s)
