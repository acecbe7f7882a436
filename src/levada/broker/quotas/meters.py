"""Meters of the use of a quota, as in Kafka: a rate over a window of samples, or a token bucket. They have no clock."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

LONGEST_MS: Final = 2**31 - 1
"""The longest throttle time that a response can hold. With a very small quota the computed time may be far longer."""


class SampledRate:
    """Measures a use per second, over a window of several samples (quota.window.num and quota.window.size.seconds).

    The window is at least as long as all samples but one. A client that was idle may therefore use the quota of this time at once.
    """

    def __init__(self, samples: int, sample_ms: int) -> None:
        self._most = samples
        self._sample_ms = sample_ms
        self._samples: deque[list[float]] = deque()

    def record(self, value: float, now_ms: int) -> None:
        """Add an amount to the use. A negative amount takes back an amount that was added before."""
        if not self._samples or now_ms - self._samples[-1][0] >= self._sample_ms:
            self._samples.append([now_ms, 0.0])
            if len(self._samples) > self._most:
                self._samples.popleft()
        self._samples[-1][1] += value

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return how long the client must use nothing until its rate is down at the limit, in ms; 0 if the rate is not above the limit."""
        used = self.used(now_ms)
        window_ms = self._window_ms(now_ms)
        rate = used * 1000 / window_ms
        return round(min((rate - limit) / limit * window_ms, LONGEST_MS)) if rate > limit else 0

    def used(self, now_ms: int) -> float:
        """Return the amount used within the window."""
        while self._samples and now_ms - self._samples[0][0] >= self._most * self._sample_ms:
            self._samples.popleft()
        return sum(used for _, used in self._samples)

    def is_idle(self, since_ms: int) -> bool:
        """Return whether nothing was used since a time."""
        return not self._samples or self._samples[-1][0] < since_ms

    def _window_ms(self, now_ms: int) -> float:
        elapsed_ms = now_ms - self._samples[0][0] if self._samples else 0
        missing = self._most - 1 - elapsed_ms // self._sample_ms
        return max(elapsed_ms + max(missing, 0) * self._sample_ms, 1)


class TokenBucket:
    """A bucket of tokens, which fills at the quota's rate up to a maximum (KIP-599). It is full at first. A request may take more tokens
    than the bucket holds: the bucket is then overdrawn and has to fill again.
    """

    def __init__(self, samples: int, sample_ms: int) -> None:
        self._burst_s = samples * sample_ms / 1000
        self._tokens = math.inf
        self._filled_ms = 0

    def record(self, value: float, limit: float, now_ms: int) -> None:
        """Take tokens out of the bucket. value: their number. limit: the tokens that are added per second."""
        self._fill(limit, now_ms)
        self._tokens = min(self._burst_s * limit, self._tokens - value)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return how long it takes until the bucket is not overdrawn any more, in ms; 0 if it is not overdrawn."""
        self._fill(limit, now_ms)
        return round(min(-self._tokens / limit * 1000, LONGEST_MS)) if self._tokens < 0 else 0

    def is_idle(self, since_ms: int) -> bool:
        """Return whether the bucket was not used since a time. A call of throttle_ms() counts as a use."""
        return self._filled_ms < since_ms

    def _fill(self, limit: float, now_ms: int) -> None:
        self._tokens = min(self._burst_s * limit, self._tokens + (now_ms - self._filled_ms) / 1000 * limit)
        self._filled_ms = now_ms
