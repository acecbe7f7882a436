"""A thread-safe cache for answers of a registry, with a capacity. Answers that can change have a lifetime."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

from levada.base.clock import NEVER_MS

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """Holds up to `capacity` values and removes the least recently used value first. ttl_ms: how long a value is valid, None for no limit.

    The cache asks for values outside of the lock, so a slow registry delays only the threads that need its answer. Two threads that miss
    the same key at the same time both ask.
    """

    def __init__(self, capacity: int, ttl_ms: int | None, now_ms: Callable[[], int]) -> None:
        self._capacity = capacity
        self._ttl_ms = ttl_ms
        self._now_ms = now_ms
        self._lock = Lock()
        self._values: OrderedDict[K, tuple[int, V]] = OrderedDict()
        self._generation = 0

    def get(self, key: K, ask: Callable[[], V]) -> V:
        """Return the value of a key. Call `ask` if the cache does not have it, or if it has expired."""
        with self._lock:
            expires_ms, value = self._values.get(key, (-1, None))
            generation = self._generation
            if value is not None and (expires_ms == NEVER_MS or self._now_ms() < expires_ms):
                self._values.move_to_end(key)
                return value
        value = ask()
        with self._lock:
            # A value that was asked for before clear() may be outdated.
            if generation == self._generation:
                self._keep(key, value)
        return value

    def forget(self, key: K) -> None:
        """Remove the value of this key."""
        with self._lock:
            self._values.pop(key, None)

    def clear(self) -> None:
        """Remove all values. Values that are being asked for at this moment are not stored either."""
        with self._lock:
            self._values.clear()
            self._generation += 1

    def __len__(self) -> int:
        return len(self._values)

    def _keep(self, key: K, value: V) -> None:
        self._values[key] = (NEVER_MS if self._ttl_ms is None else self._now_ms() + self._ttl_ms, value)
        self._values.move_to_end(key)
        while len(self._values) > self._capacity:
            self._values.popitem(last=False)
