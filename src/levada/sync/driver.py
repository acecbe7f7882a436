"""The driver of the blocking API: runs an engine on an I/O thread, and on the threads of users who wait (sync.stepper).

A call on the main thread delays Python's signal handlers (levada.base.signals); their exceptions are raised where the call waits. User
callbacks and log lines (`engine.deferred`) run in order, without the lock and the baton, on the I/O thread; those that are left when it has
ended, or was never started, run in close().
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from levada.api.arguments import deadline_ms
from levada.api.lifecycle import CALLBACK_THREADS, Process
from levada.api.waiting import not_awaitable, result_of, run_flow
from levada.base.clock import Clock, SystemClock
from levada.base.flow import CallerFlow, CallUser, Compute, Flow, Until
from levada.base.promise import Promise
from levada.base.signals import DeferredSignals, UserCode, run_noted
from levada.client.engine import Engine
from levada.errors import ClosedError, CrashedError, ForkedError, IllegalStateError
from levada.net.selectable import Selectable
from levada.sync import exits
from levada.sync.stepper import Stepper
from levada.sync.waiter import Waiter

T = TypeVar("T")

JOIN_MS = 50
"""close() waits in pieces of this length, so that signal handlers run in between."""


class Driver:
    """Runs the engine of one blocking client. name: the name of the I/O thread, and of the client in messages.

    when_dropped: makes the flow to run when the client is dropped without close(), or when the interpreter exits. The flow has its own time
    limit.
    """

    def __init__(
        self,
        engine: Engine,
        selectable: Selectable,
        *,
        name: str,
        clock: Clock | None = None,
        when_dropped: Callable[[], Flow[Any]] | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self.name = name
        self.when_dropped = when_dropped
        self.now_ms = clock.now_ms
        self.wall_ms = clock.wall_ms
        self._stepper = Stepper(engine, selectable, clock, name)
        self.lock = self._stepper.lock
        self.wakeup = self._stepper.wakeup
        self.run_handlers = run_noted
        self._engine = engine
        self._log = engine.log(__name__)
        self._pid = Process.id
        self._started_in = 0
        """The process in which the I/O thread is being started or was started; 0 before, and if it could not be started."""
        self._runs = False
        """Whether the I/O thread was started."""
        self._starting = False
        self._start_lock = threading.RLock()
        self._abandoned = False
        self._calling_back = False
        self._ending: Promise[Any] | None = None
        self._finish_lock = threading.Lock()
        self._finishing = self._finished = False
        self._thread = threading.Thread(target=self._run_io, name=name, daemon=True)
        self._io_thread = 0
        """The ident of the I/O thread; 0 before it runs its first line. Read faster than Thread.ident."""

    # For the clients of the blocking API

    def start(self) -> None:
        """Start the I/O thread, if it was not started yet. The first call of a client does so.

        Until then a client has nothing that a child made by fork() could not use: servers such as gunicorn load a program, which makes its
        clients, and then fork. A member whose id is made in the constructor is started there. Raises ForkedError if the parent has begun to
        start it, ClosedError after the end of all clients at the interpreter's exit.
        """
        if self._started_in not in (0, Process.id):
            raise self._forked()
        if exits.has_ended:
            raise ClosedError(f"{self.name} was not used before the interpreter exits, and cannot be used any more; persisted: no")
        # Set before the lock is taken. A child that is forked while this thread holds the lock must not wait for it: the child has no such
        # thread to release it.
        self._started_in = Process.id
        with DeferredSignals(), self._start_lock:
            # A finalizer that runs in here may use the client. The thread takes up its work in a moment.
            if self._runs or self._starting:
                return
            self._starting = True
            try:
                if Process.id != self._pid:
                    self._stepper.renew()
                    self._pid = Process.id
                exits.began(self)
                self._thread.start()
                self._runs = True
            except BaseException:
                exits.ended(self)
                self._started_in = 0
                raise
            finally:
                self._starting = False

    @property
    def in_callback(self) -> bool:
        """Whether the calling thread is the one that runs the program's callbacks."""
        # The ident of a thread that has ended, or that a child made by fork() does not have, is given to a new one.
        return threading.get_ident() == (self._io_thread or self._thread.ident) and self._thread.is_alive()

    def check_usable(self) -> None:
        """Raise ForkedError in a child of the process that has started the I/O thread, ClosedError after close(), CrashedError after a bug.
        Starts the I/O thread if it was not started.

        Raises IllegalStateError if the calling thread is already doing this client's work: a finalizer runs between any two bytecodes, and
        would wait for its own thread.
        """
        if not (self._runs or self._stepper.closing):
            self.start()
        if Process.id != self._pid:
            raise self._forked()
        if self._stepper.crash is not None:
            raise CrashedError(self.name, self._stepper.crash)
        if self._stepper.closing:
            raise ClosedError(f"{self.name} is closed")
        if self.is_within():
            raise IllegalStateError(f"{self.name} was called by a finalizer that runs within one of its own calls; call it from a thread")

    def _forked(self) -> ForkedError:
        return ForkedError(
            f"{self.name} was used in process {self._pid} and cannot be used in process {Process.id}: its connections and thread did not "
            "come along; create the client after fork(), or do not use it before"
        )

    def check_open(self) -> None:
        """Raise as check_usable() does; the blocking API does not restrict threads."""
        self.check_usable()

    def is_within(self) -> bool:
        """Whether the calling thread is doing the client's own work already. A finalizer may run while it does."""
        thread, stepper = threading.get_ident(), self._stepper
        # One expression for all three: each call of a client comes through here several times.
        return (
            thread == stepper.user_thread
            or stepper.lock._is_owned()  # type: ignore[attr-defined]
            or (thread == (self._io_thread or self._thread.ident) and not self._calling_back and self._thread.is_alive())
        )

    def look(self) -> None:
        """Let the engine act on a change, in the calling thread. May be called with or without the lock."""
        with self.lock:
            self._stepper.advance(self.now_ms())

    def change(self, change: Callable[[int], T]) -> T:
        """Call `change` with the time in ms, under the engine's lock; then let the engine act, and return the result of `change`."""
        self.check_usable()
        with DeferredSignals(), self.lock:
            now_ms = self.now_ms()
            changed = change(now_ms)
            self._stepper.advance(now_ms)
        return changed

    def undisturbed(self) -> DeferredSignals:
        """Return a context in which signal handlers are delayed."""
        return DeferredSignals()

    def user_code(self) -> UserCode:
        """Return a context for code of the program, in which signal handlers run as usual."""
        return UserCode()

    def due_now(self) -> None:
        """Let the engine act in the next step, after network events were handled."""
        with self.lock:
            self._stepper.due_now()

    def call(self, steps: CallerFlow[T]) -> T:
        """Run a caller's flow to its end, without the lock: wait for each Until, compute each Compute.

        An exception of a signal handler is thrown into the flow where it waits, or raised by the program's code that the flow runs, or
        raised at the very end. In the last case the result is lost, and the caller has to undo the call with take_back().
        """
        if not (self._runs or self._stepper.closing):
            self.start()
        with DeferredSignals(self.wakeup) as signals:
            return self._run_steps(steps, signals)

    def wait(self, promise: Promise[T], timeout_s: float | None, what: str) -> T:
        """Block until a promise is settled; return its value or raise its error. Must be called without the lock.

        Raises TimeoutError with `what` in its text, or its subclass BootstrapError if no broker was ever reached. KeyboardInterrupt ends
        the wait.
        """
        return promise.result() if promise.done else self.call(result_of(self, self._engine, promise, timeout_s, what))

    def run(self, flow: Flow[T], timeout_s: float | None, what: str) -> T:
        """Run a flow on the engine to its end, and return or raise as wait() does.

        An exception that interrupts the wait, such as KeyboardInterrupt, ends the flow. timeout_s: seconds; None for no limit. what: names
        the call in a timeout error.
        """
        return self.call(run_flow(self, self._engine, flow, timeout_s, what))

    def abandon(self) -> None:
        """End the client, because its last reference is gone or the interpreter exits.

        The I/O thread does so. If it was never started, this call does. The locks that it takes are free then: no other thread uses the
        client.
        """
        self._abandoned = True
        if self._started_in:
            self.wakeup()
        else:
            self._stepper.closing = True
            self._finish()

    def join(self, timeout_s: float) -> bool:
        """Wait until the I/O thread has ended. Return False if the time was over first."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def close(self, timeout_s: float | None = None) -> None:
        """Stop the I/O thread, close every connection, and reject everything that waits. Idempotent; no effect in a forked child.

        In a callback, which runs on the I/O thread, and in a finalizer that interrupts the client's own work, this returns at once, and the
        thread ends afterwards. timeout_s: for how many seconds to wait for a callback that does not return; None waits without limit.
        """
        if self._started_in and Process.id != self._pid:
            return
        self._stepper.closing = True
        self.wakeup()
        if not self._thread.is_alive():
            self._finish()
        elif not self.in_callback and not self.is_within():
            over_ms = deadline_ms(self.now_ms(), timeout_s)
            with DeferredSignals(self.wakeup) as signals:
                while self._thread.is_alive() and (left_ms := over_ms - self.now_ms()) > 0:
                    self._thread.join(min(left_ms, JOIN_MS) / 1000)
                    signals.check()

    # Waiting

    def _run_steps(self, steps: Generator[Any, Any, T], signals: DeferredSignals) -> T:
        resume: Callable[[Any], Any] = steps.send
        outcome: Any = None
        try:
            while True:
                step = resume(outcome)
                resume = steps.send
                try:
                    outcome = step.run() if type(step) is Compute else self._take_step(step, signals)
                except BaseException as error:
                    resume, outcome = steps.throw, error
        except StopIteration as done:
            result: T = done.value
            return result

    def _take_step(self, step: Until | CallUser, signals: DeferredSignals) -> Any:
        if type(step) is Until:
            return self._wait_until(step, signals)
        assert type(step) is CallUser
        with self.user_code():
            return not_awaitable(step.run(), step.what)

    def _wait_until(self, step: Until, signals: DeferredSignals) -> bool:
        promise, limit_ms = step.promise, step.deadline_ms
        if promise.done:
            signals.check()
            return True
        waiter = Waiter()

        def wake() -> None:
            waiter.wake()
            self.wakeup()

        def settled(_: Promise[Any]) -> None:
            waiter.settle()
            self._stepper.settled()

        signals.wake = wake
        with self.lock:
            promise.on_done(settled)
        self._stepper.waiting[waiter] = None
        try:
            while not waiter.settled and (left_ms := limit_ms - self.now_ms()) > 0:
                if signals.noted:
                    signals.check()
                elif self._stepper.closing:
                    self._check_finished(waiter)
                    waiter.sleep(left_ms)
                elif not self._stepper.step_until(waiter, limit_ms, lambda: signals.noted):
                    self._stepper.ask_for_baton()
                    waiter.sleep(left_ms)
            signals.check()
        finally:
            del self._stepper.waiting[waiter]
            if not waiter.settled:
                with self.lock:
                    promise.forget(settled)
            self._stepper.pass_on()
        return waiter.settled

    def _check_finished(self, waiter: Waiter) -> None:
        # In this order: the end of a client settles promises before it has finished, and their errors say more than that it is closed.
        if self._finished and not waiter.settled:
            self.check_usable()

    # The I/O thread

    def _run_io(self) -> None:
        self._io_thread = threading.get_ident()
        CALLBACK_THREADS.add(self._io_thread)
        try:
            while not self._stepper.closing:
                self._run_deferred()
                if self._abandoned:
                    self._end_by_itself()
                self._stepper.step_or_nap()
        except BaseException as crash:
            self._stepper.crashed(crash)
        finally:
            self._finish()
            # `_io_thread` stays: finalizers of what the program has in a threading.local run even later, in this thread.
            CALLBACK_THREADS.discard(self._io_thread)

    def _run_deferred(self) -> None:
        deferred = self._engine.deferred
        while deferred:
            callback = deferred.popleft()
            self._calling_back = True
            try:
                callback()
            except BaseException as error:
                # SystemExit too: a callback must not end the thread that all calls depend on.
                self._log_callback_error(error)
            finally:
                self._calling_back = False

    def _log_callback_error(self, error: BaseException) -> None:
        try:
            self._log.error("a callback raised", error=error)
        except BaseException:
            # A log handler that raises is what brought us here.
            return

    def _end_by_itself(self) -> None:
        """Run the client's last flow, then close: the client is not used any more."""
        if self._ending is None:
            flow = self.when_dropped
            if flow is None:
                self._stepper.closing = True
                return
            with self.lock:
                self._ending = self._engine.flows.start(flow(), self.now_ms(), describe=f"the end of {self.name}")
                self._stepper.due_now()

            def ended(_: Promise[Any]) -> None:
                self._stepper.closing = True
                self.wakeup()

            self._ending.on_done(ended)

    def _finish(self) -> None:
        with self._finish_lock:
            if self._finishing:
                return
            self._finishing = True
        try:
            self._stepper.shut_down()
        except BaseException as bug:
            # Whatever a broken engine does while it closes: no caller waits for it any longer.
            self._log.error("the client could not be closed in order; this is a bug in levada", error=bug)
        self._finished = True
        self._run_deferred()
        exits.ended(self)
        for waiter in list(self._stepper.waiting):
            waiter.wake()
