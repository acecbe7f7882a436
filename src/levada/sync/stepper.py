"""Steps an engine from several threads: which thread may step, and which one is woken for what.

A step is: select() without the lock; then process, complete and advance under it. The thread that holds `baton` steps, so only one thread
at a time is in select(). Usually that is the I/O thread. A user's thread that waits takes the baton and steps itself until it has its
result: a response that does not have to pass from one thread to another arrives several milliseconds earlier when the interpreter is busy.

Passing the baton takes two wake-ups of a thread, more than the work of a round trip, so it is not passed back after each wait. The I/O
thread naps instead, and takes the baton when no thread has stepped during a nap, or a deadline comes first. If several threads wait, one
steps and the others sleep; the one that leaves wakes the next.

When much data has arrived, the I/O thread reads on at once only if the program waits between its calls, for example for a database. Beside
a program that computes, both threads would fight for the interpreter, and that costs more than to receive the data in the next call.

A thread that changes something under the lock calls advance(): the engine acts at once, in that thread, and writes what can be written. The
thread in select() is woken only if it would sleep past the engine's next deadline. Lock order: baton, then lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter_ns, thread_time_ns

from levada.base.clock import NEVER_MS, Clock
from levada.client.driver_interface import how_it_ended
from levada.client.engine import Engine
from levada.net.selectable import Selectable
from levada.sync.waiter import Waiter

NAP_MS = 10
"""The shortest nap of the I/O thread, in which it leaves the sockets to users' threads. Each further nap is twice as long."""
LONGEST_NAP_MS = 40
IDLE_NAP_MS = 1_000
"""How long it naps while a user's thread stays in the same select(); that thread wakes it when it leaves."""
BUSY_BYTES = 64 << 10
"""From this amount on, much data has arrived during a call."""
LONGEST_SELECT_MS = 1_000
"""The longest select(), so that a deadline far away, such as the timeout of a request just sent, need not wake the thread in it."""


class Stepper:
    """Runs the steps of one client's engine, in the I/O thread or in threads that wait. name: the client, in messages."""

    def __init__(self, engine: Engine, selectable: Selectable, clock: Clock, name: str) -> None:
        self.lock = threading.RLock()
        self.engine = engine
        self.name = name
        self.now_ms = clock.now_ms
        # Not a deque, which cannot be copied while another thread changes it, if there is no global interpreter lock.
        self.waiting: dict[Waiter, None] = {}
        self.closing = False
        self.crash: BaseException | None = None
        self._selectable = selectable
        self._baton = threading.Lock()
        self._deadline_ms = 0
        self._select_until_ms = 0
        self._selecting = False
        self._io_steps = False
        self._nap = Waiter()
        self._nap_ms = NAP_MS
        self._nap_until_ms = 0
        self.user_thread = 0
        """The ident of the user's thread that steps; 0 if none does."""
        self._steps = 0
        self._steps_at_nap = 0
        self._user_steps = 0
        self._seen_steps = 0
        self._arrived_bytes = 0
        self._left_at: tuple[int, int, int] | None = None
        """When the last call left with much data: its thread's ident, the time, and the processor time of that thread, in ns."""
        self._program_waits = False
        """Whether the program used the processor for less than half of the time between two such calls."""
        self._wanted = False

    # For all threads

    def wakeup(self) -> None:
        """Let the thread that steps look at the engine. Takes no lock: it may be called from any thread, signal handler or finalizer."""
        self._selectable.wakeup()
        self._nap.wake()

    def advance(self, now_ms: int) -> None:
        """Let the engine act on a change, under the lock.

        Wake the thread that sleeps if the next deadline is earlier now, and the I/O thread if it has callbacks to run.
        """
        if self.closing:
            return
        try:
            deadline_ms = self._deadline_ms = self.engine.advance(now_ms)
        except BaseException as crash:
            self.crashed(crash)
            return
        if self._selecting:
            if deadline_ms < self._select_until_ms or (self.engine.deferred and self._io_steps):
                self._selectable.wakeup()
        elif deadline_ms < self._nap_until_ms:
            self._nap.wake()
        if self.engine.deferred and not self._io_steps:
            self._nap.wake()

    def settled(self) -> None:
        """Wake the thread that waits for a promise, and may be in select(), because another thread has settled the promise.

        Under the lock.
        """
        if self._selecting:
            self._selectable.wakeup()

    def due_now(self) -> None:
        """Let the next step advance the engine at once, after network events were handled. Under the lock."""
        self._deadline_ms = 0
        if self._selecting:
            self._selectable.wakeup()

    def crashed(self, crash: BaseException) -> None:
        """Stop, because a bug has left the state of the engine undefined, and reject all waiting calls."""
        self.crash = crash
        self.closing = True
        with suppress(Exception):
            self.engine.stop_taking(how_it_ended(self.name, crash))
        self.engine.deferred.log(__name__).error("the client stops because of a bug in levada", error=crash)
        self.wakeup()

    def renew(self) -> None:
        """Replace what a child made by fork() shares with its parent. Called in the child, before the first step."""
        self._selectable.renew()
        self.engine.random.seed()

    def shut_down(self) -> None:
        """Close the engine and the sockets."""
        with self._baton:
            try:
                with self.lock:
                    self.engine.close(self.now_ms(), how_it_ended(self.name, self.crash))
            finally:
                self._selectable.shutdown()

    def _step(self, limit_ms: int, now_ms: int) -> int:
        """Wait for network events and handle them; return the time afterwards. limit_ms: the longest wait."""
        with self.lock:
            until_ms = self._select_until_ms = min(self._deadline_ms, limit_ms, now_ms + LONGEST_SELECT_MS)
            self._selecting = True
            self._steps += 1
        began_ns = perf_counter_ns()
        ready = self._selectable.select(max(until_ms - now_ms, 0))
        woken_ns = perf_counter_ns()
        with self.lock:
            self._selecting = False
            now_ms = self.now_ms()
            events = self._selectable.process(ready, now_ms)
            for _, frame in events.received:
                self._arrived_bytes += len(frame)
            # Nothing has happened if only a part of a response has come.
            if events or events.woken or now_ms >= self._deadline_ms:
                self.engine.complete(events, now_ms)
                self._deadline_ms = self.engine.advance(now_ms)
            self.engine.loop_time.turned(woken_ns - began_ns, perf_counter_ns() - woken_ns, now_ms)
        return now_ms

    # For users' threads

    def step_until(self, waiter: Waiter, limit_ms: int, is_interrupted: Callable[[], object]) -> bool:
        """Step in the calling thread until the event that `waiter` waits for has happened, the time is over, the wait is interrupted or the
        client is closed. Return False at once if another thread steps, otherwise True.

        limit_ms: the time at which to stop. is_interrupted: returns whether to stop.
        """
        if not self._baton.acquire(blocking=False):
            return False
        self.user_thread = threading.get_ident()
        try:
            self._note_return(self.user_thread)
            now_ms = self.now_ms()
            while not (waiter.settled or self.closing or is_interrupted() or now_ms >= limit_ms):
                now_ms = self._step(limit_ms, now_ms)
                if self.engine.deferred:
                    self._nap.wake()
        except BaseException as crash:
            self.crashed(crash)
        finally:
            self._user_steps += 1
            self.user_thread = 0
            self._baton.release()
        return True

    def ask_for_baton(self) -> None:
        """Make the I/O thread pass the baton after its step. A thread of the program does so without being asked."""
        if self._io_steps:
            self._wanted = True
            self._selectable.wakeup()

    def pass_on(self) -> None:
        """Stop waiting: let the next waiting thread step. If there is none, wake the I/O thread if it would sleep too long, or if it is to
        read on.
        """
        if self.waiting:
            self._wake_next()
            return
        is_much = self._arrived_bytes >= BUSY_BYTES
        if is_much:
            self._arrived_bytes = 0
            self._left_at = threading.get_ident(), perf_counter_ns(), thread_time_ns()
        if (is_much and self._program_waits) or self._is_needed():
            self._nap_ms = 0
            self._nap.wake()

    def _note_return(self, thread: int) -> None:
        """Note how a thread of the program has spent the time since it left with much data."""
        self._arrived_bytes = 0
        if self._left_at is None:
            return
        left_by, left_ns, used_ns = self._left_at
        self._left_at = None
        if left_by == thread:
            self._program_waits = 2 * (thread_time_ns() - used_ns) < perf_counter_ns() - left_ns

    def _is_needed(self) -> bool:
        """Whether the I/O thread has to be woken: it would sleep beyond the next deadline or for long, or the client is being closed."""
        nap_until_ms = self._nap_until_ms
        return self._deadline_ms < nap_until_ms or self.closing or nap_until_ms > self.now_ms() + LONGEST_NAP_MS

    def _wake_next(self) -> None:
        for waiter in list(self.waiting)[:1]:
            waiter.wake()

    # For the I/O thread

    def step_or_nap(self) -> None:
        """Step once in the I/O thread; or sleep for a while, if threads of the program step."""
        if self._users_step() or not self._baton.acquire(blocking=False):
            self._take_nap()
            return
        self._nap_ms = NAP_MS
        self._io_steps = True
        try:
            self._step(NEVER_MS, self.now_ms())
        finally:
            self._io_steps = False
            self._baton.release()
        if self._wanted:
            self._wanted = False
            self._wake_next()
            if self.waiting:
                self._take_nap()

    def _users_step(self) -> bool:
        """Whether threads of the program have stepped since the last call, and no deadline comes that they might miss.

        False, too, if pass_on() has woken the I/O thread.
        """
        seen, self._seen_steps = self._seen_steps, self._user_steps
        return seen != self._user_steps and self._nap_ms > 0 and self._deadline_ms > self.now_ms()

    def _take_nap(self) -> None:
        self._nap_ms = min(max(self._nap_ms * 2, NAP_MS), LONGEST_NAP_MS)
        now_ms = self.now_ms()
        # Set before the decision: a user's thread that leaves select() from now on sees a long nap and ends it (_is_needed).
        self._nap_until_ms = now_ms + IDLE_NAP_MS
        is_idle = self._selecting and self.user_thread != 0 and self._steps == self._steps_at_nap
        self._steps_at_nap = self._steps
        length_ms = IDLE_NAP_MS if is_idle else self._nap_ms
        self._nap_until_ms = now_ms + length_ms
        if not (self.engine.deferred or self.closing):
            self._nap.sleep(length_ms)
        self._nap_until_ms = 0
