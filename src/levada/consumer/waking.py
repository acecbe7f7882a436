"""Calls that wait in the caller's context, and wakeup(): the common base of consumers and share consumers.

See consumer_flows for what such flows may do. One runs at a time. Any thread and any signal handler may call wakeup() and look_again().
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from levada.base.clock import NEVER_MS
from levada.base.flow import CallerFlow, Flow, Until
from levada.base.promise import Promise
from levada.client.driver_interface import Host
from levada.client.engine import Engine
from levada.client.network.network_client import timeout_error
from levada.errors import KafkaError, TimeoutError, WakeupError

T = TypeVar("T")

FLOW_GRACE_MS = 250
"""The wait ends this much later than its flow: the error of a flow that ends at its deadline says more."""


class Announces(Protocol):
    """The part of a core that wakes waiting calls."""

    def announce(self) -> None:
        """Wake a waiting call, so that it checks again."""
        ...


C = TypeVar("C", bound=Announces)


class Waking(Generic[C]):
    """Runs flows for waiting calls that wakeup() can end. Adds itself to the engine's pollers."""

    def __init__(self, core: C, engine: Engine, host: Host, *, default_api_timeout_ms: int) -> None:
        self.core = core
        self.default_api_timeout_ms = default_api_timeout_ms
        self._engine = engine
        self._host = host
        self._woken = False
        self._looks_again = False
        self._interruptible: Promise[Any] | None = None
        engine.add_poller(self)

    def run(self, begin: Callable[[C, int], Flow[T]], timeout_ms: int | None, what: str, *, may_be_woken: bool = True) -> CallerFlow[T]:
        """Run a flow of the engine, wait for its end, and return its result.

        begin: makes the flow, under the lock. timeout_ms: None for default.api.timeout.ms. may_be_woken: whether wakeup() ends the wait
        with WakeupError. Raises the errors of the flow, and TimeoutError with `what` in its text, or its subclass BootstrapError if no
        broker was ever reached. If the wait ends before the flow, for example by wakeup() or by a signal handler that raises, the flow is
        cancelled.
        """
        self._host.check_usable()
        timeout_ms = self.default_api_timeout_ms if timeout_ms is None else timeout_ms
        with self._host.lock:
            if may_be_woken:
                self._raise_if_woken()
            now_ms = self._host.now_ms()
            over_ms = min(now_ms + timeout_ms, NEVER_MS)
            done = self._engine.flows.start(begin(self.core, now_ms), now_ms, deadline_ms=over_ms, describe=what)
            outcome = _followed(done)
            self._interruptible = outcome if may_be_woken else None
        try:
            self._host.due_now()
            if not (yield Until(outcome, over_ms + FLOW_GRACE_MS)):
                raise TimeoutError(f"{what}: not done within {timeout_ms / 1000:g} s")
            result: T = outcome.result()
            return result
        except TimeoutError as error:
            with self._host.lock:
                explained = timeout_error(self._engine.network, error, timeout_ms / 1000)
            raise explained from None
        finally:
            self._interruptible = None
            if not done.done:
                self._cancel(done)

    def _cancel(self, done: Promise[Any]) -> None:
        with self._host.lock:
            self._engine.flows.cancel(done, self._host.now_ms())
        self._host.look()

    def change(self, change: Callable[[C, int], None]) -> None:
        """Call change(core, now in milliseconds) under the lock, and let the engine react to the change."""
        self._host.change(lambda now_ms: change(self.core, now_ms))

    def look(self, look: Callable[[C], T]) -> T:
        """Return the result of `look`, which reads from the core under the lock."""
        self._host.check_usable()
        with self._host.lock:
            return look(self.core)

    # Wakeup

    def wakeup(self) -> None:
        """End the waiting call, or else the next one, with WakeupError. May be called from any thread and from signal handlers.

        A signal handler runs between any two bytecodes of the main thread, which may hold any lock at that moment. So this method takes no
        lock and settles nothing: it sets a flag, which the next step of the engine sees.
        """
        self._woken = True
        self._host.wakeup()

    def look_again(self) -> None:
        """Make a waiting poll() check again at once. May be called from any thread and from signal handlers."""
        self._looks_again = True
        self._host.wakeup()

    def poll(self, now_ms: int) -> int:
        """Carry out wakeup() and look_again(): fail the waiting call with WakeupError, or wake a waiting poll().

        Returns NEVER_MS, because this poller never waits for a time.
        """
        if self._looks_again:
            self._looks_again = False
            self.core.announce()
        if self._woken:
            if self._interruptible is not None and self._interruptible.reject(_woken_up()):
                self._woken = False
            else:
                self.core.announce()
        return NEVER_MS

    def _raise_if_woken(self) -> None:
        if self._woken:
            self._woken = False
            raise _woken_up()


def _woken_up() -> KafkaError:
    return WakeupError("wakeup() was called")


def _followed(promise: Promise[T]) -> Promise[T]:
    """Return a promise that is settled like another one, unless the caller settles it earlier."""
    follower: Promise[T] = Promise()

    def follow(done: Promise[T]) -> None:
        follower.resolve(done.result()) if done.error is None else follower.reject(done.error)

    promise.on_done(follow)
    return follower
