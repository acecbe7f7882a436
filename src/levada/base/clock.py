"""Clocks, times in milliseconds, and the back-off between attempts. Drivers read a monotonic clock and pass `now_ms` to the other parts."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from operator import index
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from random import Random

NEVER_MS = 1 << 62
"""A time in ms that never comes: no deadline."""
LONG_WAIT_S = 0.5
TIME_BITS = 63
"""The number of bits of a time in Kafka's protocol, without its sign."""


def first_wait_s(wait_s: float) -> float:
    """Return how many seconds to wait first if a deadline is wait_s seconds away; the caller then waits again for the remaining time.

    The kernel may end epoll_wait and similar calls late, by up to 0.1 % of the time, or 0.5 % for a niced process. So a long wait is split:
    the first part ends 1 % early, and the second part is short.
    """
    return wait_s if wait_s < LONG_WAIT_S else wait_s * 0.99


class Clock(Protocol):
    """Two clocks in milliseconds: a monotonic one, and the time since the epoch."""

    def now_ms(self) -> int:
        """The time on a monotonic clock, in ms; only differences have a meaning."""
        ...

    def wall_ms(self) -> int:
        """The time in ms since the epoch, for record timestamps."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """The time on a monotonic clock, in ms; only differences have a meaning."""
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """The time in ms since the epoch, for record timestamps."""
        return time.time_ns() // 1_000_000


_ISO_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)(?:[.,](?P<fraction>\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)


def duration_ms(text: str) -> int:
    """Return an ISO 8601 duration in milliseconds, as Java's Duration.parse() reads it: P1D, PT6H, PT1H30M, PT0.5S.

    A fraction of a millisecond is dropped. Raises ValueError for any other text, and for a negative duration.
    """
    found = _ISO_DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ValueError(f"expected an ISO 8601 duration such as PT6H, PT1H30M or P7D, got {text!r}")
    days, hours, minutes, seconds = (int(found[part] or 0) for part in ("days", "hours", "minutes", "seconds"))
    fraction_ms = int((found["fraction"] or "").ljust(3, "0")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000 + fraction_ms


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def epoch_ms(time: datetime | int) -> int:
    """Return a time in milliseconds since the epoch. time: an aware datetime, or milliseconds since the epoch.

    Raises ValueError for a time before 1970, a number beyond 64 bits, and a datetime without a time zone; TypeError for other types.
    """
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError(f"{time!r} has no time zone; give an aware datetime, such as one with tzinfo=datetime.UTC")
        ms = (time - _EPOCH) // timedelta(milliseconds=1)
    else:
        try:
            ms = index(time)
        except TypeError:
            raise TypeError(f"a time in milliseconds must be a whole number, got {time!r}") from None
    if ms < 0:
        raise ValueError(f"{time} is before 1970; times are milliseconds since the epoch")
    if ms.bit_length() > TIME_BITS:
        raise ValueError(f"{time} is too far in the future for a time; times are milliseconds since the epoch, in 64 bits")
    return ms


class Now:
    """The time of the engine's last step, for components that need a time between two calls of their poll().

    ms: the time on the monotonic clock in ms. The engine sets it at the beginning of each step; it does not change until the next step.
    """

    __slots__ = ("ms",)

    def __init__(self) -> None:
        self.ms = 0


_BACKOFF_MULTIPLIER = 2
_BACKOFF_JITTER = 0.2
_MAX_EXPONENT = 30


class ExponentialBackoff:
    """Computes the delay before the next attempt: initial x 2^attempts, times a random factor in [0.8, 1.2], at most max.

    The factor prevents clients that failed at the same time from trying again at the same time. If max_ms <= initial_ms, the delay is
    always max_ms, without a random factor.
    """

    def __init__(self, initial_ms: int, max_ms: int, random: Random) -> None:
        self._initial_ms = initial_ms
        self._max_ms = max_ms
        self._random = random

    def delay_ms(self, attempts: int) -> int:
        """Return the delay in ms after this many failed attempts; with 0 attempts, the first delay."""
        if self._max_ms <= self._initial_ms:
            return min(self._initial_ms, self._max_ms)
        exponential = self._initial_ms * _BACKOFF_MULTIPLIER ** min(attempts, _MAX_EXPONENT)
        factor = self._random.uniform(1 - _BACKOFF_JITTER, 1 + _BACKOFF_JITTER)
        return int(min(exponential * factor, self._max_ms))
