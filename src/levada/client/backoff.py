"""How long to wait before the next attempt: exponential, capped, and never the same for two clients (N20)."""

from __future__ import annotations

from random import Random

_MAX_EXPONENT = 30


class ExponentialBackoff:
    """initial x multiplier^attempts, times a random factor in [1 - jitter, 1 + jitter], at most max.

    With max <= initial the delay is fixed: the smaller of both, without jitter.
    """

    def __init__(self, initial_ms: int, max_ms: int, random: Random, multiplier: int = 2, jitter: float = 0.2) -> None:
        self._initial_ms = initial_ms
        self._max_ms = max_ms
        self._random = random
        self._multiplier = multiplier
        self._jitter = jitter

    def delay_ms(self, attempts: int) -> int:
        """Return the delay after this many earlier attempts, 0 for the first delay."""
        if self._max_ms <= self._initial_ms:
            return min(self._initial_ms, self._max_ms)
        exponential = self._initial_ms * self._multiplier ** min(attempts, _MAX_EXPONENT)
        factor = self._random.uniform(1 - self._jitter, 1 + self._jitter)
        return int(min(exponential * factor, self._max_ms))
