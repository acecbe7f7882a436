"""What a consumer does in its caller's context: wait until there is something, collect it, say what is wrong, be woken up, close.

Everything here is flows that a driver runs in a thread or a task of the caller's (levada.flow.CallerFlow). They take the engine's lock for
moments, decode outside of it, and yield where they wait. One flow at a time, but for wakeup(), which any thread and any signal handler may
call.

A signal handler or a cancelled task may end a flow at any point. Positions move at its very end, in one step under the lock (see
fetch_collector); when it is ended between that step and its caller's getting the result, take_back() undoes the step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from levada.client.engine import Engine
from levada.client.host import Host
from levada.client.timeouts import timeout_error
from levada.clock import NEVER_MS
from levada.consumer.columns_ahead import BatchSink
from levada.consumer.core import ConsumerCore
from levada.consumer.fetch_cursor import ColumnSink
from levada.errors import KafkaError, TimeoutError, WakeupError
from levada.flow import CallerFlow, Flow, Until
from levada.promise import Promise
from levada.types import AnyRecord

T = TypeVar("T")

SESSION_CLOSE_MS = 100
"""How long close() waits for brokers to take note; they forget a session by themselves."""
FLOW_GRACE_MS = 250
"""A flow that ends at its deadline tells more than a wait that does, so the wait lets it go first."""


class Reading:
    """See the module's theory. It adds itself to the engine's pollers."""

    def __init__(self, core: ConsumerCore, engine: Engine, host: Host, *, default_api_timeout_ms: int) -> None:
        self.core = core
        self.default_api_timeout_ms = default_api_timeout_ms
        self._engine = engine
        self._host = host
        self._woken = False
        self._interruptible: Promise[Any] | None = None
        engine.add_poller(self)

    # Records

    def records(self, deadline_ms: int, limit: int) -> CallerFlow[list[AnyRecord]]:
        """Return up to `limit` records; [] when the time is over, when positions moved without a record, or at the end of all ranges."""
        return (yield from self._until_some(deadline_ms, partial(self.core.collect_records, limit))) or []

    def batch(self, deadline_ms: int, sink: BatchSink, limit: int | None, max_bytes: int) -> CallerFlow[Any]:
        """Return an Arrow batch of up to `limit` records, with no rows where records() would return []."""
        # Rows that an earlier call left behind were taken back with the positions.
        sink.discard()
        if limit is None:
            return (yield from self.columns(deadline_ms, sink, None, max_bytes, sink.finish))
        found = self._ahead(sink, limit, max_bytes)
        if found is None:
            found = yield from self._until_some(deadline_ms, partial(self.core.collect_part, sink, limit, max_bytes))
        return sink.finish() if found is None else found

    def _ahead(self, sink: BatchSink, limit: int, max_bytes: int) -> Any:
        """Return what an earlier call decoded ahead. Mostly the engine has nothing to do afterwards, and a step of it costs more."""
        self._host.check_usable()
        with self._host.lock:
            self._raise_if_woken()
            found, is_seen = self.core.take_ahead(sink, limit, max_bytes, self._host.now_ms())
        if found is not None and not is_seen:
            self._host.look()
        return found

    def columns(self, deadline_ms: int, sink: ColumnSink, limit: int | None, max_bytes: int, finish: Callable[[], T]) -> CallerFlow[T]:
        """Add records to columns until there are `limit` or they take `max_bytes`, and return what finish() makes of them, also of none.

        finish() is called before positions move, so what it raises costs no records.
        """
        found = yield from self._until_some(deadline_ms, partial(self.core.collect_columns, sink, limit, max_bytes, finish))
        return finish() if found is None else found

    @property
    def next_call(self) -> int:
        """The number of the next records(), batch() or columns(), for take_back()."""
        return self.core.calls + 1

    def take_back(self, call: int) -> None:
        """Undo records(), batch() or columns(), whose result did not reach the caller.

        A face notes next_call before it begins, and calls this for any exception that leaves it, KafkaErrors too. Without effect when the
        call did not begin, or failed by itself. What was moved since, as by seek(), stays where it is.
        """
        with self._host.lock:
            self.core.take_back(call)

    def _until_some(self, deadline_ms: int, collect: Callable[[int], CallerFlow[T | None]]) -> CallerFlow[T | None]:
        """Collect what is there; while there is nothing, wait, and look whether something is wrong."""
        self._host.check_usable()
        with self._host.lock:
            self._raise_if_woken()
            self.core.begin_call(self._host.now_ms())
        is_due = True
        try:
            while True:
                found = yield from collect(self._host.now_ms())
                if found is not None or self.core.has_moved:
                    is_due = self.core.is_due
                    return found
                if self.core.subscription.is_finished:
                    return None
                now_ms = self._host.now_ms()
                changed, look_ms = self._look_around(now_ms, is_over=now_ms >= deadline_ms)
                if now_ms >= deadline_ms:
                    return None
                # A loop steps the engine only when something happens, and that a call has begun to wait is something.
                self._host.due_now()
                yield Until(changed, min(deadline_ms, look_ms))
        finally:
            # Memory given back, a position to be looked up, an error that was raised: a call that did not wait has changed things too.
            if is_due:
                self._host.look()

    def _look_around(self, now_ms: int, *, is_over: bool) -> tuple[Promise[None], int]:
        """Raise what keeps records away, where that is for the caller to know; return what settles when there may be some, and when to
        look again.
        """
        with self._host.lock:
            error = self.core.explain(now_ms, last_word=is_over)
            if error is None and not is_over:
                self._raise_if_woken()
                self.core.commits.begin_automatic(now_ms)
            changed, look_ms = self.core.changed(), min(self.core.next_look_ms(now_ms), self.core.commits.due_ms)
        if error is not None:
            raise error
        return changed, look_ms

    # Everything else

    def run(
        self, begin: Callable[[ConsumerCore, int], Flow[T]], timeout_ms: int | None, what: str, *, may_be_woken: bool = True
    ) -> CallerFlow[T]:
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

    def change(self, change: Callable[[ConsumerCore, int], None]) -> None:
        """Change what is read, under the lock and at a time, and let the engine see it."""
        self._host.change(lambda now_ms: change(self.core, now_ms))

    def look(self, look: Callable[[ConsumerCore], T]) -> T:
        """Look at what is read, under the lock."""
        self._host.check_usable()
        with self._host.lock:
            return look(self.core)

    def close(self) -> CallerFlow[None]:
        """Stop reading and tell the brokers that can be told; the driver is to be closed next, whatever happens here."""
        with self._host.lock:
            told = self.core.close(self._host.now_ms())
            over_ms = self._host.now_ms() + SESSION_CLOSE_MS
        self._host.look()
        for promise in told:
            if not (yield Until(promise, over_ms)):
                return

    # Being woken up

    def wakeup(self) -> None:
        """End the running call that waits, or the next one, with WakeupError. From any thread, and from a signal handler.

        A handler runs between any two bytecodes of the main thread, which may hold any lock at that moment. So nothing is locked or
        settled here: whoever steps the engine next sees the flag.
        """
        self._woken = True
        self._host.wakeup()

    def poll(self, now_ms: int) -> int:
        """End what waits when wakeup() was called: a flow at once, a wait for records by having it look."""
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
