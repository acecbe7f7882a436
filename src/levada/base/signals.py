"""Delays Python's signal handlers while the main thread is inside a client.

Python runs a signal handler in the main thread, between any two bytecodes, and the handler may raise: KeyboardInterrupt on Ctrl-C,
SystemExit on SIGTERM, a test's timeout on SIGALRM. An exception in the middle of a state change would leave the client inconsistent.
Masking the signal does not help, because the system then delivers it to another thread, and Python still runs the handler in the main
thread.

So a call on the main thread replaces the handlers, for its duration, by one that only records the signal and wakes the call. The call runs
the recorded handlers where it waits, without any lock, and at its end. An exception of a handler therefore comes out at a step of the call,
as the cancellation of an asyncio task does, and never within a step. Around user code, which may take long, the program's handlers are
restored (UserCode). Compiled functions that call no Python code need none of this, because handlers run only between bytecodes.
docs/adr/0009-signals.md has the alternatives.
"""

from __future__ import annotations

import os
import signal
import threading

# The functions of the module `signal` make enums of what these return, which takes ten times as long.
from _signal import getsignal as get_handler  # type: ignore[import-not-found]
from _signal import signal as set_handler
from collections.abc import Callable
from itertools import compress
from types import FrameType, TracebackType
from typing import Any

SIGNALS = tuple(sorted(int(number) for number in signal.valid_signals()))


_main_thread = threading.main_thread().ident
"""Handlers run in this thread, and only it may change them."""


def _nothing() -> None:
    pass


class DeferredSignals:
    """A context in which signals are recorded instead of handled. It does nothing outside the main thread.

    Inside another such context, `with` returns the outer context, which continues to record. wake: called when a signal is recorded, at any
    point of the program, so it must not take a lock.
    """

    __slots__ = ("_deferring", "_replaced", "_thread", "noted", "wake")

    _outermost: DeferredSignals | None = None

    def __init__(self, wake: Callable[[], None] = _nothing) -> None:
        self.noted: list[tuple[int, FrameType | None]] = []
        self.wake = wake
        self._replaced: list[tuple[int, Any]] = []
        self._deferring = False
        self._thread = 0

    def __enter__(self) -> DeferredSignals:
        if threading.get_ident() != _main_thread:
            return self
        if DeferredSignals._outermost is not None:
            return DeferredSignals._outermost
        try:
            self._replace()
        except BaseException:
            self._restore()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # An exception in this method comes before the `return` of the caller, so the caller can still undo its result. After the last
        # handler is restored, no step lets Python check for signals.
        self._restore()
        if self.noted:
            self._run_noted()

    def check(self) -> None:
        """Run the program's handlers for the signals recorded so far. If a handler raises, its exception is raised, and signals are
        recorded again while the caller cleans up.
        """
        if self.noted:
            with UserCode():
                pass

    @classmethod
    def of_this_thread(cls) -> DeferredSignals | None:
        """Return the open context of the calling thread; None without one."""
        deferred = cls._outermost
        return deferred if deferred is not None and deferred._thread == threading.get_ident() else None

    def _replace(self) -> None:
        self._deferring = True
        self._thread = threading.get_ident()
        DeferredSignals._outermost = self
        try:
            for number in compress(SIGNALS, map(callable, map(get_handler, SIGNALS))):
                handler = get_handler(number)
                if callable(handler):  # A handler that ran meanwhile may have removed this one.
                    self._replaced.append((number, handler))
                    set_handler(number, self._note)
        except ValueError:
            # Only the main thread of the main interpreter runs handlers, and may change them.
            self._replaced.clear()

    def _restore(self) -> None:
        """Restore all handlers of the program, even if a handler runs meanwhile and raises."""
        try:
            self._deferring = False
            while self._replaced:
                set_handler(*self._replaced[-1])
                self._replaced.pop()
        finally:
            if DeferredSignals._outermost is self:
                DeferredSignals._outermost = None
            if self._replaced:
                self._restore()

    def _run_noted(self) -> None:
        number, frame = self.noted.pop(0)
        try:
            handler = get_handler(number)
            if callable(handler):
                handler(number, frame)
        finally:
            if self.noted:
                self._run_noted()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._deferring:
            self.noted.append((number, frame))
            self.wake()
        else:
            # A second signal has interrupted _restore() before it restored this handler.
            dict(self._replaced)[number](number, frame)

    @classmethod
    def _forked(cls) -> None:
        """Clean up in a forked child, whose only thread is its main thread: drop the recorded signals, which were sent to the parent.

        Restore the handlers if the thread that would do so does not exist in the child.
        """
        global _main_thread
        _main_thread = threading.get_ident()
        deferred = cls._outermost
        if deferred is not None:
            deferred.noted.clear()
            if deferred._thread != threading.get_ident():
                deferred._restore()


class UserCode:
    """A context around code of the program within a call. Signal handlers run as usual; those of recorded signals run at once.

    Their exceptions can be raised at any point, so this context is only for steps that can be interrupted anywhere. Outside of the calling
    thread's DeferredSignals it does nothing.
    """

    __slots__ = ("_deferred",)

    def __enter__(self) -> None:
        deferred = self._deferred = DeferredSignals.of_this_thread()
        if deferred is not None:
            try:
                deferred._restore()
                if deferred.noted:
                    deferred._run_noted()
            except BaseException:
                deferred._replace()
                raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._deferred is not None:
            self._deferred._replace()


def run_noted() -> None:
    """Run the handlers of the signals recorded in the calling thread, if any.

    Called between two pieces of the program's code, so that an exception of a handler is not taken for an exception of that code.
    """
    deferred = DeferredSignals._outermost
    if deferred is not None and deferred.noted and deferred is DeferredSignals.of_this_thread():
        deferred.check()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=DeferredSignals._forked)
