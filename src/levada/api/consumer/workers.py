"""Calls of consumer.process()'s handler in an executor, and the worker processes.

A worker process, and the pool, must not end because of an object of the program. So handler and record come as bytes that are unpickled
inside the call, the handler's result is dropped, and an exception comes back as bytes that can be unpickled, or as text. Every worker
imports this module, so it imports little.
"""

from __future__ import annotations

import builtins
import faulthandler
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from typing import Any, Final, Never

from levada.base.text import shown
from levada.errors import HandlerError
from levada.types import AnyRecord

_STDERR: Final = 2
_PARENT_EVERY_S: Final = 0.5
"""How often a worker checks whether its parent lives, where the operating system does not notify it."""


# Calls


class CannotRun(TypeError):
    """The handler cannot run in its executor with any record."""


class Raised(Exception):
    """Wraps the exception `error` that the handler has raised. An exception of a future that is not a Raised comes from the executor."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error

    def __reduce__(self) -> Any:
        return _received, (_pickled(self.error), shown(self.error), _traceback(self.error))


class HandlerTraceback(Exception):
    """The traceback of an exception that was raised in a worker process. It becomes the cause of the exception in the program's process."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def call(handler: Callable[[Any], object], record: AnyRecord) -> None:
    """Call a handler with a record. Raises Raised for its exception, and CannotRun if the handler returned an awaitable or a generator."""
    try:
        returned = handler(record)
    except BaseException as error:
        raise Raised(error) from None
    check_ran(returned)


def check_ran(returned: object) -> None:
    """Raise CannotRun if the handler returned an awaitable or a generator, because then its body has not run."""
    if isinstance(returned, Awaitable):
        what = f"an awaitable {type(returned).__name__}"
        if isinstance(returned, Coroutine):
            returned.close()
            what = "a coroutine"
        raise CannotRun(
            f"the handler returned {what}, which no executor awaits; consumers of levada.aio await what a handler returns where executor "
            "is left out, but not what comes of that (is an await missing in it?)"
        )
    if isinstance(returned, Generator | AsyncGenerator):
        raise CannotRun(
            "the handler returned a generator, and nothing of its body has run, as nothing iterates it; give a function without yield"
        )


def call_pickled(handler: bytes, record: bytes) -> None:
    """Unpickle handler and record in a worker process, and call the handler. Raises as call() does, and CannotRun if the handler cannot be
    unpickled.
    """
    try:
        function = pickle.loads(handler)
    except Exception as error:
        raise CannotRun(
            f"the handler cannot be imported in a worker process: {shown(error)}; define it at the top of a module that can be imported "
            "there, rather than in an interactive session or a notebook"
        ) from None
    try:
        read = pickle.loads(record)
    except Exception as error:
        raise Raised(error) from None
    call(function, read)


# Exceptions on their way from another process


def _pickled(error: BaseException) -> bytes | None:
    """Return an exception as bytes that can be unpickled; None if that is not possible."""
    pickled = _surviving(error)
    if pickled is None and not isinstance(error, Exception | CancelledError):
        # It has to end the program all the same, as SystemExit and KeyboardInterrupt do.
        pickled = _surviving(SystemExit(shown(error)))
    return pickled


def _surviving(error: BaseException) -> bytes | None:
    try:
        pickled = pickle.dumps(error)
        return pickled if isinstance(pickle.loads(pickled), BaseException) else None
    except Exception:
        return None


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception as wrong:
        return f"{shown(error)}, whose traceback cannot be shown: {shown(wrong)}"


def _received(pickled: bytes | None, text: str, trace: str) -> Raised:
    """Return the exception that a handler has raised in a worker process, for the process that called it.

    pickled: the exception, None if it cannot be pickled; a HandlerError with `text` then stands for it. trace: its traceback as text, which
    becomes its cause.
    """
    error: Any = None
    if pickled is not None:
        try:
            error = pickle.loads(pickled)
        except Exception:
            error = None
    if not isinstance(error, BaseException):
        error = HandlerError(
            f"the handler raised {text} in another process. This stands for that exception, which cannot be pickled and unpickled; its "
            "class needs an __init__() that can be called with the exception's args, or a __reduce__()"
        )
    # An exception may refuse to be changed, as one that is a frozen dataclass does.
    BaseException.__setattr__(error, "__cause__", HandlerTraceback(trace))
    return Raised(error)


# A worker's life


def begin_worker() -> None:
    """Ignore Ctrl-C, which the program handles by letting handlers finish, and end this process when the program's process ends, however it
    ends.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="levada-parent-watch", daemon=True).start()


def _end_with_parent() -> None:
    if hasattr(signal, "pthread_sigmask"):
        # A signal that this thread took would not interrupt a handler, which runs in the main thread.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker is started by multiprocessing"
    # The end of the parent closes a pipe, unless another child of it, made by fork(), has that pipe open as well.
    while parent.is_alive() and os.getppid() == parent.pid:
        parent.join(_PARENT_EVERY_S)
    # At once, in the middle of a handler: its record belongs to another consumer as soon as the group has noticed.
    os._exit(1)


# How long a handler may take


def interrupted(seconds: float) -> builtins.TimeoutError:
    """Return the error of a handler that was interrupted."""
    return builtins.TimeoutError(f"the handler was interrupted after handler_timeout={seconds:g} s")


class Interrupted:
    """Interrupts a handler that takes too long. It runs in the main thread of a process that does nothing else.

    ending_s: how long the handler may take to end after that. Code outside of Python does not notice the interruption, and its process is
    ended.
    """

    def __init__(self, handler: Callable[[Any], object], seconds: float, ending_s: float) -> None:
        self._handler = handler
        self._seconds = seconds
        self._ending_s = ending_s

    def __call__(self, record: AnyRecord) -> object:
        """Call the handler. After the time limit raise TimeoutError within it, and end the process if it still runs `ending_s` later.

        Without alarms (Windows), end the process at the time limit.
        """
        has_alarms = hasattr(signal, "setitimer")  # Windows has none.
        faulthandler.dump_traceback_later(self._seconds + (self._ending_s if has_alarms else 0), exit=True, file=_STDERR)
        try:
            if not has_alarms:
                return self._handler(record)
            signal.signal(signal.SIGALRM, self._interrupt)
            signal.setitimer(signal.ITIMER_REAL, self._seconds)
            try:
                return self._handler(record)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _interrupt(self, *_: object) -> Never:
        raise interrupted(self._seconds)
