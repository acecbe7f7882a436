"""Delayed operations of a node, and its timers and periodic tasks.

A request that cannot be answered yet waits in the purgatory until something that it watches has changed, or until its deadline. Its
operation is checked whenever one of its keys is woken. It is completed once: when it is ready, or when its deadline has come.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from heapq import heappop, heappush
from itertools import count

from levada.base.clock import NEVER_MS
from levada.errors import BrokerError
from levada.logs import Log

_log = Log("levada.broker")


class Delayed:
    """An operation that waits.

    is_ready: whether it can be completed before its deadline. complete: completes it; called once. owner: for cancel().
    """

    __slots__ = ("complete", "done", "is_ready", "keys", "owner")

    def __init__(self, is_ready: Callable[[], bool], complete: Callable[[int], None], keys: Iterable[Hashable], owner: Hashable) -> None:
        self.is_ready = is_ready
        self.complete = complete
        self.keys = tuple(keys)
        self.owner = owner
        self.done = False


class Purgatory:
    """The waiting operations, by key, by owner and by deadline."""

    def __init__(self) -> None:
        self._watchers: dict[Hashable, dict[Delayed, None]] = {}
        self._owned: dict[Hashable, dict[Delayed, None]] = {}
        self._deadlines: list[tuple[int, int, Delayed]] = []
        self._sequence = count()

    def __len__(self) -> int:
        return sum(len(operations) for operations in self._owned.values())

    def add(self, operation: Delayed, deadline_ms: int) -> None:
        """Add an operation that the caller has found not to be ready."""
        heappush(self._deadlines, (deadline_ms, next(self._sequence), operation))
        self._owned.setdefault(operation.owner, {})[operation] = None
        for key in operation.keys:
            self._watchers.setdefault(key, {})[operation] = None

    def has(self, owner: Hashable) -> bool:
        """Whether an owner has a waiting operation."""
        return owner in self._owned

    def wake(self, key: Hashable, now_ms: int) -> None:
        """Complete those operations with this key that are ready now."""
        for operation in list(self._watchers.get(key, ())):
            if not operation.done and operation.is_ready():
                self._complete(operation, now_ms)

    def expire(self, now_ms: int) -> None:
        """Complete every operation whose deadline has passed."""
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            operation = heappop(self._deadlines)[2]
            if not operation.done:
                self._complete(operation, now_ms)

    def next_deadline_ms(self) -> int:
        """Return when expire() has to be called, NEVER_MS if nothing waits."""
        while self._deadlines and self._deadlines[0][2].done:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else NEVER_MS

    def cancel(self, owner: Hashable) -> None:
        """Remove all operations of an owner without completing them."""
        for operation in list(self._owned.get(owner, ())):
            self._forget(operation)

    def _complete(self, operation: Delayed, now_ms: int) -> None:
        self._forget(operation)
        operation.complete(now_ms)

    def _forget(self, operation: Delayed) -> None:
        operation.done = True
        _discard(self._owned, operation.owner, operation)
        for key in operation.keys:
            _discard(self._watchers, key, operation)


def _discard(index: dict[Hashable, dict[Delayed, None]], key: Hashable, operation: Delayed) -> None:
    operations = index.get(key)
    if operations is None:
        return
    operations.pop(operation, None)
    if not operations:
        del index[key]


class Timers:
    """Timers of one node, at most one per key. Purgatory.expire() calls the functions of due timers, and passes them the current time."""

    def __init__(self, purgatory: Purgatory) -> None:
        self._purgatory = purgatory

    def schedule(self, key: Hashable, at_ms: int, act: Callable[[int], None]) -> None:
        """Set the timer of a key: call a function at a time. A timer that the key already has is replaced."""
        self._purgatory.cancel(key)
        self._purgatory.add(Delayed(lambda: False, act, (), key), at_ms)

    def is_scheduled(self, key: Hashable) -> bool:
        """Whether a key has a timer."""
        return self._purgatory.has(key)

    def cancel(self, key: Hashable) -> None:
        """Remove the timer of a key, if it has one."""
        self._purgatory.cancel(key)


class PeriodicTask:
    """A function that is called at once and then every interval_ms, with the node's time."""

    def __init__(self, interval_ms: int, do: Callable[[int], None]) -> None:
        self.interval_ms = interval_ms
        self._do = do
        self._next_ms: int | None = None

    def run(self, now_ms: int) -> int:
        """Call the function if it is due; return the time when it is due next. After a BrokerError, it is called again at that time."""
        if self._next_ms is None or self._next_ms <= now_ms:
            try:
                self._do(now_ms)
            except BrokerError as fault:
                _log.error("a task that runs every %d ms has failed: %s", self.interval_ms, fault)
            self._next_ms = now_ms + self.interval_ms
        return self._next_ms
