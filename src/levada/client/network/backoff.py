"""How long to wait before the next attempt: exponential, capped, and never the same for two clients (N20)."""

from __future__ import annotations

from random import Random

_MULTIPLIER = 2
_JITTER = 0.2
_MAX_EXPONENT = 30


class ExponentialBackoff:
    """initial x 2^attempts, times a random factor in [0.8, 1.2], at most max.

    With max <= initial the delay is fixed: the smaller of both, without jitter.
    """

    def __init__(self, initial_ms: int, max_ms: int, random: Random) -> None:
        self._initial_ms = initial_ms
        self._max_ms = max_ms
        self._random = random

    def delay_ms(self, attempts: int) -> int:
        """Return the delay after this many earlier attempts, 0 for the first delay."""
        if self._max_ms <= self._initial_ms:
            return min(self._initial_ms, self._max_ms)
        exponential = self._initial_ms * _MULTIPLIER ** min(attempts, _MAX_EXPONENT)
        factor = self._random.uniform(1 - _JITTER, 1 + _JITTER)
        return int(min(exponential * factor, self._max_ms))
