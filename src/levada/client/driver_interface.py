"""What an engine and the driver that runs it share. There are three drivers: blocking, asyncio and simulated.

- Host: the methods of a driver that callers' flows and the code below the APIs call.
- Ended: makes the errors for the calls that a client's end breaks off.
- Deferred: callbacks and log lines, which the driver runs without the engine's lock.
- Helpers: functions that block, which run outside of the engine while its flows wait for their results.
- LoopTime: how long the driver waited for the network, and how long it worked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from levada.base.clock import NEVER_MS
from levada.base.measure import Measure
from levada.base.promise import Promise
from levada.errors import ClosedError, CrashedError, KafkaError
from levada.logs import Log
from levada.metrics import Reading, gauge

if TYPE_CHECKING:
    from typing import Unpack

    from levada.logs import About


T = TypeVar("T")


class Host(Protocol):
    """The part of a driver that the code of calls and engine parts uses."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The engine's lock."""
        ...

    def now_ms(self) -> int:
        """The time on a monotonic clock, in ms, as passed to the engine."""
        ...

    def wall_ms(self) -> int:
        """The time in ms since the epoch."""
        ...

    def look(self) -> None:
        """Let the engine act on a change that was just made under the lock."""
        ...

    def due_now(self) -> None:
        """Let the engine act in the next step, after network events were handled."""
        ...

    def change(self, change: Callable[[int], T]) -> T:
        """Call `change` with the time in ms, under the engine's lock; then let the engine act, and return the result of `change`.

        Raises as check_usable() does.
        """
        ...

    def undisturbed(self) -> AbstractContextManager[object]:
        """Return a context in which signal handlers are delayed. They run at its end, and their exceptions are raised then."""
        ...

    def user_code(self) -> AbstractContextManager[object]:
        """Return a context for code of the program within a caller's flow.

        Signal handlers run as usual, and their exceptions are raised.
        """
        ...

    def run_handlers(self) -> None:
        """Run the signal handlers that were delayed, and raise their exceptions."""
        ...

    def wakeup(self) -> None:
        """Let the engine act soon. May be called from any thread, signal handler or finalizer."""
        ...

    def check_usable(self) -> None:
        """Raise an error if the client cannot be used: ClosedError, CrashedError, ForkedError, IllegalStateError."""
        ...

    def check_open(self) -> None:
        """Raise as check_usable() does, but allow any thread and any event loop. For calls that only read, under the lock."""
        ...


Ended: TypeAlias = Callable[[str], KafkaError]
"""Makes the error for a call that the end of the client broke off; its argument names the call. Each waiter gets an error of its own,
because raising an error changes it."""

ENDED = (ClosedError, CrashedError)
"""The types of such errors. They are not retriable."""


def how_it_ended(name: str, bug: BaseException | None) -> Ended:
    """Return a function that makes the error for a call: ClosedError if the client was closed, CrashedError if a bug stopped it.

    name: the client. bug: the exception of the bug; None if the client was closed.
    """
    return closed if bug is None else lambda _: CrashedError(name, bug)


def closed(what: str) -> KafkaError:
    """Return the error for a call that close() broke off. what: the call, in words."""
    return ClosedError(f"the client was closed during {what}")


def raise_bug(done: Promise[None]) -> None:
    """Raise the error of a background flow whose result no caller waits for, unless the client has ended. To be passed to on_done() of its
    promise.
    """
    if done.error is not None and not isinstance(done.error, ENDED):
        raise done.error


class Deferred(deque[Callable[[], None]]):
    """Functions that the driver of one client calls later, in order, when it holds no lock. client: the fields of its log lines.

    A log handler is code of the program: it may send through the very client that logs, or wait for a thread that does. So no code that
    runs under the engine's lock calls a logger; it appends the line to this object.
    """

    def __init__(self, client: Mapping[str, Any]) -> None:
        super().__init__()
        self.client = client

    def log(self, name: str) -> DeferredLog:
        """Return a logger whose lines are written later. name: the name of the module."""
        return DeferredLog(name, self.client, self)


class DeferredLog(Log):
    """A Log whose lines are formatted and written later, without the lock."""

    def __init__(self, name: str, client: Mapping[str, Any], deferred: Deferred) -> None:
        super().__init__(name, client)
        self._deferred = deferred

    def log(self, level: int, message: str, *args: object, error: BaseException | None = None, **about: Unpack[About]) -> None:
        """Append a line. error: an exception to log with its traceback."""
        self._deferred.append(partial(super().log, level, message, *args, error=error, **about))


HelperEnded: TypeAlias = Callable[[Any, BaseException | None], None]
"""Called once, from any thread, with what a function returned, or with the error that it raised."""
StartHelper: TypeAlias = Callable[[Callable[[], Any], HelperEnded], None]
"""Starts a function where it may block, and has its outcome passed to a HelperEnded. Never waits."""


class Helpers:
    """Runs functions that block, outside of the engine: fetching a token over HTTP, requesting a Kerberos ticket, or a function of the
    program.

    The engine calls run() under its lock and gets a promise. The function runs in another thread, which stores the outcome; the next step
    of the engine settles the promise. So the other thread does not touch the engine.

    start: starts a function in a new thread. notify: makes the engine take its next step soon; it is called from the new thread.
    """

    def __init__(self, start: StartHelper, notify: Callable[[], None]) -> None:
        self._start = start
        self._notify = notify
        self._ended: deque[tuple[Promise[Any], Any, BaseException | None]] = deque()

    def run(self, function: Callable[[], Any]) -> Promise[Any]:
        """Start a function in another thread.

        The promise is settled in a later step of the engine, even if the function returns at once.
        """
        promise: Promise[Any] = Promise()

        def ended(value: Any, error: BaseException | None) -> None:
            self._ended.append((promise, value, error))
            self._notify()

        self._start(function, ended)
        return promise

    def poll(self, now_ms: int) -> int:
        """Settle the promises of functions that have ended. Always returns NEVER_MS."""
        while self._ended:
            promise, value, error = self._ended.popleft()
            promise.resolve(value) if error is None else promise.reject(error)
        return NEVER_MS


_NS_PER_S = 1_000_000_000


class LoopTime:
    """Measures how long a driver waits for the network and how long it works, in nanoseconds. A simulation does not measure this.

    waits: the durations of Selector.select(). work: the durations of the work between two waits, under the engine's lock.
    """

    def __init__(self) -> None:
        self.waits = Measure()
        self.work = Measure()

    def turned(self, waited_ns: int, worked_ns: int, now_ms: int) -> None:
        """Count one wait and the work after it. Both are in nanoseconds."""
        self.waits.note(waited_ns, now_ms)
        self.work.note(worked_ns, now_ms)


LOOP_READINGS: Sequence[Reading[Any]] = (
    *gauge("select-rate", "Waits for the network, per second", lambda loop, now_ms: loop.waits.frequency(now_ms)),
    *gauge("select-total", "Waits for the network, in total", lambda loop, _: loop.waits.count),
    *gauge("io-wait-time-ns-avg", "Nanoseconds of a wait for the network, on average", lambda loop, now_ms: loop.waits.average(now_ms)),
    *gauge("io-wait-time-ns-total", "Nanoseconds of all waits for the network", lambda loop, _: loop.waits.total),
    *gauge("io-wait-ratio", "Share of the time spent waiting for the network", lambda loop, now_ms: loop.waits.rate(now_ms) / _NS_PER_S),
    *gauge("io-time-ns-avg", "Nanoseconds of work after a wait, on average", lambda loop, now_ms: loop.work.average(now_ms)),
    *gauge("io-time-ns-total", "Nanoseconds of all work after waits", lambda loop, _: loop.work.total),
    *gauge("io-ratio", "Share of the time spent in work after waits", lambda loop, now_ms: loop.work.rate(now_ms) / _NS_PER_S),
)
