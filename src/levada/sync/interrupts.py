"""Ctrl-C while a user's thread steps the engine.

KeyboardInterrupt is raised between any two bytecodes; in the middle of a state change it would leave the engine half changed. So while
the main thread steps, the signal is noted, the running select() is ended, and the handler runs right after the step.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class DeferredInterrupts:
    """A context in which SIGINT waits for check(). Does nothing outside the main thread, or where Python does not handle the signal."""

    def __init__(self, wakeup: Callable[[], None]) -> None:
        self._wakeup = wakeup
        self._handler: Any = None
        self._noted: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> DeferredInterrupts:
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self._handler = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        handler, self._handler = self._handler, None
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        if self._noted is not None and error is None:
            handler(*self._noted)

    def check(self) -> None:
        """Run the program's handler, which normally raises KeyboardInterrupt, for a signal that came meanwhile."""
        if self._noted is not None:
            noted, self._noted = self._noted, None
            self._handler(*noted)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = (number, frame)
        self._wakeup()
