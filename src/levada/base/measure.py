# cython: annotation_typing=False
"""Measures for metrics: the count, the sum and the maximum of values.

Values are noted per batch and per request, not per record, to keep the cost low. A Measure has totals since the client's start, and sums of
the last two windows of 30 seconds (Java's defaults for metrics.num.samples and metrics.sample.window.ms). Rates, averages and maxima cover
the last 30 to 60 seconds.

Cython compiles this module, because a request of one record notes about fifteen values. The C types are in measure.pxd.
"""

from __future__ import annotations

from math import nan

WINDOW_MS = 30_000


class Measure:
    """The count, the sum and the maximum of some values. Used by one thread at a time.

    count, total: the number and the sum of all values since the start. The methods return values of the last 30 to 60 seconds.
    """

    __slots__ = ("_began_ms", "_count", "_earlier", "_most", "_sum", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._began_ms = -1
        self._count = 0
        self._sum = 0.0
        self._most = nan
        self._earlier: tuple[int, int, float, float] | None = None

    def note(self, value: float, now_ms: int) -> None:
        """Measure one value. now_ms: the time of the measurement, which decides the window of the value."""
        if not 0 <= now_ms - self._began_ms < WINDOW_MS or self._began_ms < 0:
            self._begin(now_ms)
        self.count += 1
        self.total += value
        self._count += 1
        self._sum += value
        if not value <= self._most:
            self._most = value

    def _begin(self, now_ms: int) -> None:
        self._earlier = (self._began_ms, self._count, self._sum, self._most) if self._count else None
        self._began_ms, self._count, self._sum, self._most = now_ms, 0, 0.0, nan

    def rate(self, now_ms: int) -> float:
        """Return the sum of the values per second."""
        return sum(window[2] for window in self._windows(now_ms)) / self._seconds(now_ms)

    def frequency(self, now_ms: int) -> float:
        """Return the number of values per second."""
        return sum(window[1] for window in self._windows(now_ms)) / self._seconds(now_ms)

    def average(self, now_ms: int) -> float:
        """Return the mean of the values; nan without values."""
        windows = self._windows(now_ms)
        count = sum(window[1] for window in windows)
        return sum(window[2] for window in windows) / count if count else nan

    def maximum(self, now_ms: int) -> float:
        """Return the maximum of the values; nan without values."""
        return max((window[3] for window in self._windows(now_ms)), default=nan)

    def _windows(self, now_ms: int) -> list[tuple[int, int, float, float]]:
        """Return the windows that began within the last 60 seconds.

        Each has its start (ms), and the count, sum and maximum of its values.
        """
        newest = (self._began_ms, self._count, self._sum, self._most)
        windows = [newest, self._earlier] if self._count else []
        return [window for window in windows if window is not None and now_ms - window[0] < 2 * WINDOW_MS]

    def _seconds(self, now_ms: int) -> float:
        """Return the seconds since the start of the oldest window; at least 30 s, so that the first rates are not much too high."""
        began_ms = min((window[0] for window in self._windows(now_ms)), default=now_ms)
        return max(now_ms - began_ms, WINDOW_MS) / 1000
