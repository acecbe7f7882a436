"""Delayed operations of a node, and its timers and periodic tasks.

A request that cannot be answered yet waits in the purgatory until something that it watches has changed, or until its deadline. Its
operation is checked whenever one of its keys is woken. It is completed once: when it is ready, or when its deadline has come. If its owner
is cancelled first, as with the connection of a client that has left, it is never completed.
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
    """An operation that waits until it is ready, or until its deadline.

    is_ready: returns whether the operation can be completed before its deadline. complete: completes the operation, with the current time;
    called at most once. keys: the keys by which wake() finds it. owner: the owner by which cancel() finds it.
    """

    __slots__ = ("complete", "done", "is_ready", "keys", "owner")

    def __init__(self, is_ready: Callable[[], bool], complete: Callable[[int], None], keys: Iterable[Hashable], owner: Hashable) -> None:
        self.is_ready = is_ready
        self.complete = complete
        self.keys = tuple(keys)
        self.owner = owner
        self.done = False


class Purgatory:
    """Operations that wait. They are found by key, by owner and by deadline."""

    def __init__(self) -> None:
        self._watchers: dict[Hashable, dict[Delayed, None]] = {}
        self._owned: dict[Hashable, dict[Delayed, None]] = {}
        self._deadlines: list[tuple[int, int, Delayed]] = []
        self._sequence = count()

    def __len__(self) -> int:
        return sum(len(operations) for operations in self._owned.values())

    def add(self, operation: Delayed, deadline_ms: int) -> None:
        """Add an operation that is not ready yet. deadline_ms: a time of the node's clock, NEVER_MS for no deadline."""
        heappush(self._deadlines, (deadline_ms, next(self._sequence), operation))
        self._owned.setdefault(operation.owner, {})[operation] = None
        for key in operation.keys:
            self._watchers.setdefault(key, {})[operation] = None

    def has(self, owner: Hashable) -> bool:
        """Return whether an operation of this owner waits."""
        return owner in self._owned

    def wake(self, key: Hashable, now_ms: int) -> None:
        """Complete the waiting operations that have this key and are ready."""
        for operation in list(self._watchers.get(key, ())):
            if not operation.done and operation.is_ready():
                self._complete(operation, now_ms)

    def expire(self, now_ms: int) -> None:
        """Complete the operations whose deadline has passed."""
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
        """Remove the operations of an owner without completing them."""
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
    """The timers of one node, at most one per key. Purgatory.expire() calls the function of each timer that is due."""

    def __init__(self, purgatory: Purgatory) -> None:
        self._purgatory = purgatory

    def schedule(self, key: Hashable, at_ms: int, act: Callable[[int], None]) -> None:
        """Set the timer of a key, in place of the timer that it may have. act: the function to call at the time `at_ms`; it gets the
        current time.
        """
        self._purgatory.cancel(key)
        self._purgatory.add(Delayed(lambda: False, act, (), key), at_ms)

    def is_scheduled(self, key: Hashable) -> bool:
        """Return whether a timer is set for a key."""
        return self._purgatory.has(key)

    def cancel(self, key: Hashable) -> None:
        """Remove the timer of a key, if there is one."""
        self._purgatory.cancel(key)


class PeriodicTask:
    """A function that is called at the first run() and then once per interval_ms. It gets the node's time."""

    def __init__(self, interval_ms: int, do: Callable[[int], None]) -> None:
        self.interval_ms = interval_ms
        self._do = do
        self._next_ms: int | None = None

    def run(self, now_ms: int) -> int:
        """Call the function if it is due; return when it is due next. If it raises BrokerError, it is called again after another
        interval.
        """
        if self._next_ms is None or self._next_ms <= now_ms:
            try:
                self._do(now_ms)
            except BrokerError as fault:
                _log.error("a task that runs every %d ms has failed: %s", self.interval_ms, fault)
            self._next_ms = now_ms + self.interval_ms
        return self._next_ms
