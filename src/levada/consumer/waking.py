"""Calls that wait in the caller's context, and how wakeup() ends them: what all consumers share, whatever they read by.

See reading for what such flows may do. One at a time, but for wakeup(), which any thread and any signal handler may call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from levada.base.clock import NEVER_MS
from levada.base.flow import CallerFlow, Flow, Until
from levada.base.promise import Promise
from levada.client.engine import Engine
from levada.client.host import Host
from levada.client.network.network_client import timeout_error
from levada.errors import KafkaError, TimeoutError, WakeupError

T = TypeVar("T")

FLOW_GRACE_MS = 250
"""A flow that ends at its deadline tells more than a wait that does, so the wait lets it go first."""


class Announces(Protocol):
    """A core, as far as it is woken."""

    def announce(self) -> None:
        """Wake a call that waits, so that it looks again."""
        ...


C = TypeVar("C", bound=Announces)


class Waking(Generic[C]):
    """See the module's theory. It adds itself to the engine's pollers."""

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
        """Run a flow of the engine to its end. begin: makes it, under the lock. timeout_ms: None for default.api.timeout.ms.

        may_be_woken: whether wakeup() ends it.
        Raises TimeoutError naming `what`; BootstrapError, which is one, when no broker was ever reached.
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
        """Change what is read, under the lock and at a time, and let the engine see it."""
        self._host.change(lambda now_ms: change(self.core, now_ms))

    def look(self, look: Callable[[C], T]) -> T:
        """Look at what is read, under the lock."""
        self._host.check_usable()
        with self._host.lock:
            return look(self.core)

    # Being woken up

    def wakeup(self) -> None:
        """End the running call that waits, or the next one, with WakeupError. From any thread, and from a signal handler.

        A handler runs between any two bytecodes of the main thread, which may hold any lock at that moment. So nothing is locked or
        settled here: whoever steps the engine next sees the flag.
        """
        self._woken = True
        self._host.wakeup()

    def look_again(self) -> None:
        """Have a running call for records look again at once. From any thread, and from a signal handler."""
        self._looks_again = True
        self._host.wakeup()

    def poll(self, now_ms: int) -> int:
        """End what waits when wakeup() was called: a flow at once, a wait for records by having it look."""
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
    """Return a promise that is settled as another one, unless it is settled before."""
    follower: Promise[T] = Promise()

    def follow(done: Promise[T]) -> None:
        follower.resolve(done.result()) if done.error is None else follower.reject(done.error)

    promise.on_done(follow)
    return follower
