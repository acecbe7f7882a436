"""Tells an event loop that a client's sockets are ready.

The Selector's own file descriptor (epoll, kqueue) becomes readable when any of its sockets is ready, so the loop watches that one. If the
loop has no add_reader (Windows' proactor), or the Selector no descriptor, a thread calls select() and passes the result to the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Protocol

from levada.net.selectable import Selectable

LONGEST_SELECT_MS = 1_000


class Watch(Protocol):
    """Watches sockets, and calls a function in the event loop when they may be ready."""

    def close(self) -> None:
        """Stop watching."""
        ...


def watch(loop: asyncio.AbstractEventLoop, selectable: Selectable, on_ready: Callable[[Any], None], name: str) -> Watch:
    """Start to watch sockets: on_ready(result of select()) is called in the event loop whenever they are ready. name: names the watching
    thread.
    """
    fileno = getattr(selectable, "fileno", None)
    if fileno is not None:
        try:
            return _Reader(loop, fileno(), selectable, on_ready)
        except (NotImplementedError, AttributeError):
            pass
    return _Thread(loop, selectable, on_ready, name)


class _Reader:
    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int, selectable: Selectable, on_ready: Callable[[Any], None]) -> None:
        self._loop = loop
        self._descriptor = descriptor
        loop.add_reader(descriptor, lambda: on_ready(selectable.select(0)))

    def close(self) -> None:
        if not self._loop.is_closed():
            self._loop.remove_reader(self._descriptor)


class _Thread:
    def __init__(self, loop: asyncio.AbstractEventLoop, selectable: Selectable, on_ready: Callable[[Any], None], name: str) -> None:
        self._loop = loop
        self._selectable = selectable
        self._on_ready = on_ready
        self._handled = threading.Semaphore(0)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closed:
            ready = self._selectable.select(LONGEST_SELECT_MS)
            if self._closed or self._loop.is_closed():
                return
            self._loop.call_soon_threadsafe(self._handle, ready)
            # The next select() would find the same until the loop has read it.
            self._handled.acquire()

    def _handle(self, ready: Any) -> None:
        try:
            if not self._closed:
                self._on_ready(ready)
        finally:
            self._handled.release()

    def close(self) -> None:
        self._closed = True
        self._selectable.wakeup()
        self._handled.release()
        self._thread.join()
