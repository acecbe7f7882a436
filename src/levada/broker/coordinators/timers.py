"""What a coordinator does later, at most one thing per key."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from levada.broker.node.purgatory import Delayed, Purgatory


class Timers:
    """Timers of one node. They go off when its purgatory's operations expire, and are passed the time then."""

    def __init__(self, purgatory: Purgatory) -> None:
        self._purgatory = purgatory

    def schedule(self, key: Hashable, at_ms: int, act: Callable[[int], None]) -> None:
        """Do something at a time, instead of what was to be done for the same key."""
        self._purgatory.cancel(key)
        self._purgatory.add(Delayed(lambda: False, act, (), key), at_ms)

    def is_scheduled(self, key: Hashable) -> bool:
        """Whether something is to be done for a key."""
        return self._purgatory.has(key)

    def cancel(self, key: Hashable) -> None:
        """Do nothing for a key after all."""
        self._purgatory.cancel(key)
