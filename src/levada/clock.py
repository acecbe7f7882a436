"""Time, passed in. Only drivers hold a clock; everything below is handed `now_ms`."""

from __future__ import annotations

import time
from typing import Protocol

NEVER_MS = 1 << 62
"""A deadline that does not come."""


class Clock(Protocol):
    """Two readings of time in milliseconds: one that never goes back, one that people share."""

    def now_ms(self) -> int:
        """Monotonic time; only differences mean anything."""
        ...

    def wall_ms(self) -> int:
        """Time since the epoch, for record timestamps."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Monotonic time; only differences mean anything."""
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Time since the epoch, for record timestamps."""
        return time.time_ns() // 1_000_000
