"""The thread driver: steps an engine, on its own I/O thread or on the thread of a user who waits.

A step is: select and process without the lock (only the stepping thread touches the Selectable), then complete and advance with it.
Who holds `_baton` steps. Usually that is the I/O thread. A user's thread that waits for something becomes the guest: it asks for the
baton, wakes the I/O thread out of select() and steps itself until it has what it waits for, because an answer that need not pass from
one thread to another arrives several milliseconds earlier beside a busy interpreter. There is one guest at a time; other waiting
threads sleep, and the guest that leaves wakes the next of them, so somebody steps even while the I/O thread is busy with a callback.

User callbacks (`engine.deferred`) run on the I/O thread only, without lock and baton, in order. Lock order: baton, then lock.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any, TypeVar

from levada.client.engine import Engine
from levada.client.timeouts import timeout_error
from levada.clock import NEVER_MS, Clock, SystemClock
from levada.errors import ClosedError, ForkedError, KafkaError, TimeoutError
from levada.flow import Flow
from levada.net.selectable import Selectable
from levada.promise import Promise
from levada.sync.arguments import deadline_ms, wait_s
from levada.sync.interrupts import DeferredInterrupts
from levada.sync.process import Process

log = logging.getLogger(__name__)

T = TypeVar("T")

FLOW_GRACE_S = 0.25
"""A flow that ends at its deadline tells more than a wait that does, so the wait lets it go first."""


class _Waiter:
    """A thread that waits. signal: its promise is settled, or the guest's place is free."""

    __slots__ = ("done", "signal")

    def __init__(self) -> None:
        self.done = False
        self.signal = threading.Event()

    def settled(self, _: object = None) -> None:
        """Wake the thread for good."""
        self.done = True
        self.signal.set()


class Driver:
    """See the module's theory. name: of the I/O thread, and of the client in messages."""

    def __init__(self, engine: Engine, selectable: Selectable, *, name: str, clock: Clock | None = None) -> None:
        self.lock = threading.RLock()
        self._engine = engine
        self._selectable = selectable
        self._clock = clock or SystemClock()
        self._name = name
        self._pid = Process.id
        self._deadline_ms = 0
        self._baton = threading.Lock()
        self._guest_place = threading.Lock()
        self._guest = False
        self._io_signal = threading.Event()
        self._waiting: deque[_Waiter] = deque()
        self._closing = False
        self._finished = False
        self._crash: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # For faces

    def start(self) -> None:
        """Start the I/O thread."""
        self._thread.start()

    def now_ms(self) -> int:
        """Monotonic milliseconds, as handed to the engine."""
        return self._clock.now_ms()

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, for timestamps."""
        return self._clock.wall_ms()

    def check_usable(self) -> None:
        """Raise ForkedError in a child process, ClosedError after close(), the bug's error after a crash."""
        if Process.id != self._pid:
            raise ForkedError(
                f"{self._name} was created in process {self._pid} and cannot be used in process {Process.id}: "
                "its connections and its thread did not come along; create the client after fork()"
            )
        if self._crash is not None:
            raise KafkaError(f"{self._name} stopped because of a bug in levada: {self._crash!r}") from self._crash
        if self._closing:
            raise ClosedError(f"{self._name} is closed")

    def wakeup(self) -> None:
        """Have the engine look at what has just changed under the lock."""
        self._selectable.wakeup()

    def wait(self, promise: Promise[T], timeout_s: float | None, what: str) -> T:
        """Block until a promise is settled; return its value or raise its error. Must be called without the lock.

        Raises TimeoutError naming `what`; BootstrapError, which is one, when no broker was ever reached. KeyboardInterrupt passes.
        """
        if not promise.done:
            self.check_usable()
            if not self._wait_until(promise, deadline_ms(self.now_ms(), timeout_s)):
                raise timeout_error(self._engine.network, TimeoutError(f"{what}: not done within {timeout_s:g} s"), timeout_s)
        return promise.result()

    def run(self, flow: Flow[T], timeout_s: float | None, what: str) -> T:
        """Run a flow to its end, as wait() does. What breaks the wait off, such as KeyboardInterrupt, ends the flow too."""
        self.check_usable()
        with self.lock:
            now_ms = self.now_ms()
            promise = self._engine.flows.start(flow, now_ms, deadline_ms=deadline_ms(now_ms, timeout_s), describe=what)
        try:
            self.wakeup()
            return self.wait(promise, None if timeout_s is None else timeout_s + FLOW_GRACE_S, what)
        except TimeoutError as error:
            if error is not promise.error:
                raise
            raise timeout_error(self._engine.network, error, timeout_s) from None
        finally:
            if not (promise.done or self._closing):
                self._cancel(promise)

    def _cancel(self, promise: Promise[Any]) -> None:
        with self.lock:
            self._engine.flows.cancel(promise, self.now_ms())
        self.wakeup()

    def close(self, timeout_s: float | None = None) -> None:
        """Stop the I/O thread, close every connection, reject whatever waits. Idempotent; in a forked child it does nothing.

        From a callback, which runs on the I/O thread, it returns at once and the thread ends after the callback. timeout_s bounds
        the wait for a callback that does not return.
        """
        if Process.id != self._pid:
            return
        self._closing = True
        self._io_signal.set()
        self._selectable.wakeup()
        limit_s = wait_s(timeout_s)
        if not self._thread.is_alive():
            self._finish()
        elif threading.current_thread() is not self._thread:
            self._thread.join(limit_s)

    # Waiting

    def _wait_until(self, promise: Promise[Any], deadline_ms: int) -> bool:
        waiter = _Waiter()
        with self.lock:
            promise.on_done(waiter.settled)
        self._waiting.append(waiter)
        try:
            while not waiter.done and self.now_ms() < deadline_ms:
                # Before any wait as well: the driver may have finished, and woken everybody, just before this one joined.
                self._check_alive()
                if not self._closing and self._guest_place.acquire(blocking=False):
                    self._step_as_guest(waiter, deadline_ms)
                elif waiter.signal.wait(_seconds(deadline_ms - self.now_ms())) and not waiter.done:
                    waiter.signal.clear()
        finally:
            self._waiting.remove(waiter)
            if not waiter.done:
                with self.lock:
                    promise.forget(waiter.settled)
            self._invite_next()
        return waiter.done

    def _step_as_guest(self, waiter: _Waiter, deadline_ms: int) -> None:
        try:
            self._guest = True
            self._selectable.wakeup()
            with self._baton, DeferredInterrupts(self._selectable.wakeup) as interrupts:
                while not waiter.done and not self._closing and self.now_ms() < deadline_ms:
                    self._step(deadline_ms)
                    if self._engine.deferred:
                        self._io_signal.set()
                    interrupts.check()
        except Exception as crash:
            self._crashed(crash)
        finally:
            self._guest = False
            self._guest_place.release()
            self._io_signal.set()

    def _invite_next(self) -> None:
        """A thread stops waiting: the guest's place may be free for another, or a signal may have been meant for whoever comes next."""
        for waiter in list(self._waiting)[:1]:
            waiter.signal.set()

    def _check_alive(self) -> None:
        if self._finished:
            self.check_usable()

    # Stepping

    def _run(self) -> None:
        try:
            while not self._closing:
                self._step_as_host()
                self._run_deferred()
                if self._guest:
                    self._io_signal.wait()
                self._io_signal.clear()
        except Exception as crash:
            self._crashed(crash)
        finally:
            self._finish()

    def _crashed(self, crash: Exception) -> None:
        """The engine's state cannot be trusted any more: stop, and tell everybody who waits or calls."""
        log.exception("%s stops because of a bug in levada", self._name)
        self._crash = crash
        self._closing = True
        self._io_signal.set()

    def _step_as_host(self) -> None:
        if self._baton.acquire(blocking=False):
            try:
                if not self._guest:
                    self._step(NEVER_MS)
            finally:
                self._baton.release()

    def _step(self, limit_ms: int) -> None:
        now_ms = self.now_ms()
        ready = self._selectable.select(max(min(self._deadline_ms, limit_ms) - now_ms, 0))
        now_ms = self.now_ms()
        events = self._selectable.process(ready, now_ms)
        with self.lock:
            self._engine.complete(events, now_ms)
            self._deadline_ms = self._engine.advance(now_ms)

    def _run_deferred(self) -> None:
        deferred = self._engine.deferred
        while deferred:
            callback = deferred.popleft()
            try:
                callback()
            except Exception:
                log.exception("%s: a callback raised", self._name)

    def _finish(self) -> None:
        with self._baton:
            if self._finished:
                return
            self._finished = True
        try:
            self._shut_down()
        except Exception:
            # Whatever a broken engine does in its last moment: nobody waits for it any longer.
            log.exception("%s could not be closed in order; this is a bug in levada", self._name)
        self._run_deferred()
        for waiter in list(self._waiting):
            waiter.signal.set()

    def _shut_down(self) -> None:
        with self._baton:
            try:
                with self.lock:
                    self._engine.close(self.now_ms())
            finally:
                self._selectable.shutdown()


def _seconds(ms: int) -> float:
    return min(max(ms, 0) / 1000, threading.TIMEOUT_MAX)
