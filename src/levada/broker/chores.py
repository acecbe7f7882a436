"""What a node does every so often, apart from requests."""

from __future__ import annotations

from collections.abc import Callable


class Chore:
    """Something to do at once and then every interval_ms. do: is passed the node's time."""

    def __init__(self, interval_ms: int, do: Callable[[int], None]) -> None:
        self._interval_ms = interval_ms
        self._do = do
        self._next_ms: int | None = None

    def run(self, now_ms: int) -> int:
        """Do it if it is due; return when it is due next."""
        if self._next_ms is None or self._next_ms <= now_ms:
            self._do(now_ms)
            self._next_ms = now_ms + self._interval_ms
        return self._next_ms
