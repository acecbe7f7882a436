"""The driver of the asyncio API: runs an engine on the event loop of the task that made the client.

A step is: process the events of the sockets, complete, advance; it never waits. It is taken when the loop finds sockets ready, at the
engine's deadline, and when a call changes something. A call is a caller's flow: where the flow waits, its task awaits a future; long pieces
of decoding run in the loop's executor, one at a time. A cancelled task has its CancelledError thrown into the flow where it waits.

User callbacks run in the loop, between steps. Signal handlers are delayed during a step (levada.base.signals).
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from time import perf_counter_ns
from typing import Any, TypeVar

from levada.aio.tasks import Timer
from levada.aio.watch import Watch, watch
from levada.api.engine_setup import WhenDropped
from levada.api.lifecycle import Process
from levada.api.waiting import result_of, run_flow
from levada.base.clock import NEVER_MS, SystemClock
from levada.base.flow import CallerFlow, CallUser, Compute, Flow, Until
from levada.base.promise import Promise
from levada.base.signals import DeferredSignals
from levada.client.driver_interface import ENDED, how_it_ended
from levada.client.engine import Engine
from levada.errors import ClosedError, CrashedError, ForkedError, IllegalStateError
from levada.net.selectable import Selectable

T = TypeVar("T")

INLINE_BYTES = 512 << 10
"""Pieces of decoding up to this size run in the loop, which they block for some milliseconds at most; longer ones run in its executor.

A poll of 500 records of 1 KB is below it: decoding them takes about as long as handing them to the executor."""


class Driver:
    """Runs the engine of one asyncio client in the event loop.

    name: the client's name in log and error messages. when_dropped: makes the flow to run when the client is dropped without close().
    """

    def __init__(self, engine: Engine, selectable: Selectable, *, name: str, when_dropped: WhenDropped | None = None) -> None:
        clock = SystemClock()
        self.lock = threading.RLock()
        self.name = name
        self.when_dropped = when_dropped
        self.now_ms = clock.now_ms
        self.wall_ms = clock.wall_ms
        self.loop = running_loop(name)
        self._engine = engine
        self._log = engine.log(__name__)
        self._selectable = selectable
        self._pid = Process.id
        self._watch: Watch | None = None
        self._timer: Timer | None = None
        self._timer_ms = NEVER_MS
        self._rested_since_ns = perf_counter_ns()
        self._step_is_due = False
        self._calling_back = False
        self._ending: asyncio.Task[bool] | None = None
        self._waiting: set[Callable[[], None]] = set()
        self._closed = False
        self._crash: BaseException | None = None

    # For the clients of the asyncio API

    def start(self) -> None:
        """Begin to watch the sockets in the event loop."""
        self._watch = watch(self.loop, self._selectable, self._step, self.name)

    @property
    def in_callback(self) -> bool:
        """Whether a callback of the program is running."""
        return self._calling_back

    def check_usable(self) -> None:
        """Raise as check_open() does, and IllegalStateError if the client's event loop is not the running one."""
        self.check_open()
        if running_loop(self.name) is not self.loop:
            raise IllegalStateError(f"{self.name} belongs to another event loop; create a client in each loop that uses one")

    def check_open(self) -> None:
        """Raise ForkedError in a child process, ClosedError after close(), CrashedError after a bug. May be called in any thread.

        Raises IllegalStateError for a finalizer that runs within one of the client's own calls.
        """
        if Process.id != self._pid:
            raise ForkedError(
                f"{self.name} was created in process {self._pid} and cannot be used in process {Process.id}; create the client after fork()"
            )
        if self._crash is not None:
            raise CrashedError(self.name, self._crash)
        if self._closed:
            raise ClosedError(f"{self.name} is closed")
        if self.lock._is_owned():  # type: ignore[attr-defined]
            raise IllegalStateError(f"{self.name} was called by a finalizer that runs within one of its own calls; call it from a task")

    def has_ended(self) -> bool:
        """Whether there is nothing to close: the client is closed, has crashed, or belongs to the parent process.

        Raises IllegalStateError in another event loop, which cannot close it, and for a finalizer that runs within one of the client's own
        calls.
        """
        try:
            self.check_usable()
        except (*ENDED, ForkedError):
            return True
        return False

    def is_within(self) -> bool:
        """Whether the calling thread holds the engine's lock. A finalizer may run while it does."""
        within: bool = self.lock._is_owned()  # type: ignore[attr-defined]
        return within

    def wakeup(self) -> None:
        """Let the engine act soon. May be called from any thread, signal handler or finalizer."""
        with suppress(RuntimeError):  # The loop is closed.
            self.loop.call_soon_threadsafe(self._step)

    def look(self) -> None:
        """Let the engine act on a change."""
        with DeferredSignals(), self.lock:
            self._advance()

    def undisturbed(self) -> DeferredSignals:
        """Return a context in which signal handlers are delayed."""
        return DeferredSignals()

    def user_code(self) -> AbstractContextManager[object]:
        """Return a context for code of the program. It does nothing: signal handlers are delayed only during a step, and such code runs
        between steps.
        """
        return nullcontext()

    def run_handlers(self) -> None:
        """Do nothing: between steps no signal handler is delayed."""

    def due_now(self) -> None:
        """Let the engine act in the next step."""
        if not self._step_is_due:
            self._step_is_due = True
            self.loop.call_soon(self._step)

    def change(self, change: Callable[[int], T]) -> T:
        """Call `change` with the time in ms, under the engine's lock; then let the engine act, and return the result of `change`."""
        self.check_usable()
        with DeferredSignals(), self.lock:
            changed = change(self.now_ms())
            self._advance()
        return changed

    async def call(self, steps: CallerFlow[T]) -> T:
        """Run a caller's flow to its end: await each Until, compute each Compute."""
        resume: Callable[[Any], Any] = steps.send
        outcome: Any = None
        try:
            while True:
                step = resume(outcome)
                resume = steps.send
                try:
                    outcome = await _STEPS[type(step)](self, step)
                except BaseException as error:
                    resume, outcome = steps.throw, error
        except StopIteration as done:
            result: T = done.value
            return result

    async def wait(self, promise: Promise[T], timeout_s: float | None, what: str) -> T:
        """Wait until a promise is settled; return its value or raise its error. what: names the call in a TimeoutError."""
        return await self.call(result_of(self, self._engine, promise, timeout_s, what))

    async def run(self, flow: Flow[T], timeout_s: float | None, what: str) -> T:
        """Run a flow on the engine to its end, and return or raise as wait() does. A cancellation ends the flow, too.

        timeout_s: seconds; None for no limit. what: names the call in a timeout error.
        """
        return await self.call(run_flow(self, self._engine, flow, timeout_s, what))

    def future(self, promise: Promise[T]) -> asyncio.Future[T]:
        """Return a future that is settled when the promise is settled, in the same way."""
        future: asyncio.Future[T] = self.loop.create_future()

        def settle(done: Promise[T]) -> None:
            if future.cancelled():
                return
            if done.error is not None:
                future.set_exception(done.error)
            else:
                future.set_result(done.result())

        promise.on_done(settle)
        return future

    def abandon(self) -> None:
        """Let the event loop end the client, because its last reference is gone. Takes no lock, unless the loop is closed."""
        try:
            self.loop.call_soon_threadsafe(self._end_by_itself)
        except RuntimeError:
            # The loop is closed, and nothing can be sent any more.
            self._warn_of_lost_loop()
            self._shut_down()

    def close(self) -> None:
        """Close every connection, and reject everything that waits. Idempotent; no effect in a forked child."""
        if self._closed or Process.id != self._pid:
            return
        self._closed = True
        self._shut_down()
        self._run_deferred()

    # Waiting

    async def _until(self, step: Until) -> bool:
        promise = step.promise
        if promise.done:
            return True
        future: asyncio.Future[None] = self.loop.create_future()

        def settled(_: object = None) -> None:
            if not future.done():
                future.set_result(None)

        timer = None
        if step.deadline_ms < NEVER_MS:
            timer = Timer(self.loop, max(step.deadline_ms - self.now_ms(), 0) / 1000, settled)
        promise.on_done(settled)
        self._waiting.add(settled)
        try:
            await future
        finally:
            self._waiting.discard(settled)
            if timer is not None:
                timer.cancel()
            promise.forget(settled)
        if not promise.done and self._closed:
            self.check_usable()
        return promise.done

    async def _compute(self, step: Compute) -> Any:
        if step.size_bytes <= INLINE_BYTES and not step.may_block:
            return step.run()
        running = self.loop.run_in_executor(None, step.run)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # The flow may not be touched while a piece of it runs in another thread.
            while not running.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([running])
            raise

    async def _call_user(self, step: CallUser) -> Any:
        found = step.run()
        return await found if inspect.isawaitable(found) else found

    # Stepping

    def _step(self, ready: Any = None) -> None:
        self._step_is_due = False
        if self._closed or self._crash is not None:
            return
        woken_ns = perf_counter_ns()
        with DeferredSignals(), self.lock:
            try:
                now_ms = self.now_ms()
                events = self._selectable.process(self._selectable.select(0) if ready is None else ready, now_ms)
                self._engine.complete(events, now_ms)
            except BaseException as crash:
                self._crashed(crash)
            else:
                self._advance()
                waited_ns, self._rested_since_ns = woken_ns - self._rested_since_ns, perf_counter_ns()
                self._engine.loop_time.turned(waited_ns, self._rested_since_ns - woken_ns, now_ms)

    def _advance(self) -> None:
        if self._closed or self._crash is not None:
            return
        try:
            due_ms = self._engine.advance(self.now_ms())
        except BaseException as crash:
            self._crashed(crash)
            return
        if due_ms < self._timer_ms or self._timer is None:
            self._set_timer(due_ms)
        if self._engine.deferred:
            self.loop.call_soon(self._run_deferred)
        if self._selectable.has_events:
            # Requests that were written at once, for example: no socket becomes ready for them.
            self.due_now()

    def _set_timer(self, due_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = due_ms
        if due_ms < NEVER_MS:
            self._timer = Timer(self.loop, max(due_ms - self.now_ms(), 0) / 1000, self._timer_rang)

    def _timer_rang(self) -> None:
        self._timer, self._timer_ms = None, NEVER_MS
        self._step()

    def _run_deferred(self) -> None:
        deferred = self._engine.deferred
        while deferred and not self._calling_back:
            callback = deferred.popleft()
            self._calling_back = True
            try:
                callback()
            except BaseException as error:
                self._log.error("a callback raised", error=error)
            finally:
                self._calling_back = False

    # The end

    def _crashed(self, crash: BaseException) -> None:
        """Stop, because a bug has left the state of the engine undefined, and reject all waiting calls."""
        self._crash = crash
        with suppress(Exception):
            self._engine.stop_taking(how_it_ended(self.name, crash))
        # Log handlers and the callbacks of rejected calls are user code, which does not run under the lock.
        self._engine.deferred.log(__name__).error("the client stops because of a bug in levada", error=crash)
        self.loop.call_soon(self.close)

    def _end_by_itself(self) -> None:
        """Run the client's last flow, then close: the client is not used any more.

        A task waits for the flow, so that asyncio.run() finds and cancels it when it ends the loop. A cancelled task closes the client at
        once, and the flow logs how many records were not sent; for that the flow must have begun before the task.
        """
        if self._closed or self._ending is not None:
            return
        if self.when_dropped is None:
            self.close()
            return
        what = f"the end of {self.name}"
        with DeferredSignals(), self.lock:
            flow = self._engine.flows.start(self.when_dropped(), self.now_ms(), describe=what)
            self._advance()
        self._ending = self.loop.create_task(self._until(Until(flow, NEVER_MS)), name=what)
        # It may be cancelled before its first step.
        self._ending.add_done_callback(lambda _: self.close())

    def _shut_down(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self._watch.close()
        try:
            with self.lock:
                self._engine.close(self.now_ms(), how_it_ended(self.name, self._crash))
        except BaseException as bug:
            self._log.error("the client could not be closed in order; this is a bug in levada", error=bug)
        finally:
            self._selectable.shutdown()
            # Not every promise is settled at the end, above all after a bug: waiting tasks check the client again.
            for wake in list(self._waiting):
                wake()

    def _warn_of_lost_loop(self) -> None:
        if not self._closed:
            self._log.warning("the client was not closed before its event loop ended; what it had not sent is lost")


_STEPS: Mapping[type, Callable[[Driver, Any], Awaitable[Any]]] = {
    Until: Driver._until,
    Compute: Driver._compute,
    CallUser: Driver._call_user,
}


def running_loop(name: str) -> asyncio.AbstractEventLoop:
    """Return the event loop of the running task. Raises IllegalStateError if there is none. name: the client, for the error message."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise IllegalStateError(f"{name} needs a running event loop; create and use it within a coroutine") from None
