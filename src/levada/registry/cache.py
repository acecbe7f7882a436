"""A thread-safe cache for answers of a registry, with a limited number of entries, which may expire."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from levada.base.clock import NEVER_MS
from levada.base.forks import lock_for_forks

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """Holds up to `capacity` values, and removes the least recently used value first.

    ttl_ms: how long a value is valid, in ms; None if values do not expire.

    The cache requests values without holding its lock, so that a slow registry delays only the threads that need the value. If two threads
    need the same missing value at the same time, both request it.
    """

    def __init__(self, capacity: int, ttl_ms: int | None, now_ms: Callable[[], int]) -> None:
        self._capacity = capacity
        self._ttl_ms = ttl_ms
        self._now_ms = now_ms
        self._lock = lock_for_forks()
        self._values: OrderedDict[K, tuple[int, V]] = OrderedDict()
        self._generation = 0

    def get(self, key: K, ask: Callable[[], V]) -> V:
        """Return the value of a key. If the cache has no valid value, call `ask` to request the value, and store it."""
        with self._lock:
            generation = self._generation
            if (known := self._valid(key)) is not None:
                return known
        value = ask()
        with self._lock:
            # Do not store a value that was requested before clear(), because it may be outdated.
            if generation == self._generation:
                self._keep(key, value)
        return value

    def known(self, key: K) -> V | None:
        """Return the value of a key; None if the cache has no valid value."""
        with self._lock:
            return self._valid(key)

    def clear(self) -> None:
        """Remove all values. A value that is being requested now is not stored when it arrives."""
        with self._lock:
            self._values.clear()
            self._generation += 1

    def __len__(self) -> int:
        return len(self._values)

    def _valid(self, key: K) -> V | None:
        expires_ms, value = self._values.get(key, (-1, None))
        if value is None or (expires_ms != NEVER_MS and self._now_ms() >= expires_ms):
            return None
        self._values.move_to_end(key)
        return value

    def _keep(self, key: K, value: V) -> None:
        self._values[key] = (NEVER_MS if self._ttl_ms is None else self._now_ms() + self._ttl_ms, value)
        self._values.move_to_end(key)
        while len(self._values) > self._capacity:
            self._values.popitem(last=False)
