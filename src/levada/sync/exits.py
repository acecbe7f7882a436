"""Ends clients that were never closed when the interpreter exits, within a limited time.

I/O threads are daemons, so that a forgotten client does not keep a program alive; but a producer's unsent records would be lost with them.
So at exit every running client has to end by itself, and is waited for. Children of multiprocessing skip Python's atexit and run
finalizers of their own. After os._exit and fatal signals nothing of this runs.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from typing import Protocol

from levada.logs import Log

log = Log(__name__)

EXIT_LIMIT_S = 12.0
"""How long the interpreter waits for all clients together. A producer flushes for at most ten seconds and logs what it could not send."""


class Running(Protocol):
    """A client that has its own thread."""

    name: str

    def abandon(self) -> None:
        """Let the client end by itself. Takes no lock that another thread may hold."""
        ...

    def join(self, timeout_s: float) -> bool:
        """Wait until the client has ended. Return False if the time was over first."""
        ...


has_ended = False
"""Whether end_all() was called. A client that is used later would not be waited for."""
_running: set[Running] = set()
_registered_in: list[int] = []
"""The process that has made end_all() a finalizer of multiprocessing: this one, or the parent before a fork. Empty if none has."""


def began(client: Running) -> None:
    """Register a client whose thread is about to start."""
    _running.add(client)
    _register_in_child()


def ended(client: Running) -> None:
    """Remove a client that has ended, or whose thread could not be started. May be called from any thread."""
    _running.discard(client)


def end_all() -> None:
    """Let every client end by itself, and wait for all of them, together at most EXIT_LIMIT_S seconds."""
    global has_ended
    has_ended = True
    left = list(_running)
    for client in left:
        client.abandon()
    deadline_s = time.monotonic() + EXIT_LIMIT_S
    for client in left:
        if not client.join(max(deadline_s - time.monotonic(), 0)):
            log.warning("%s did not end within %g s of the interpreter's exit; what it had not sent is lost", client.name, EXIT_LIMIT_S)


def _register_in_child() -> None:
    processes, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if processes is None or util is None or processes.parent_process() is None or os.getpid() in _registered_in:
        return
    _registered_in[:] = [os.getpid()]
    util.Finalize(None, end_all, exitpriority=100)


def _forget_parent() -> None:
    """Forget the parent's clients in a forked child, where their threads do not exist."""
    global has_ended
    has_ended = False
    _running.clear()


atexit.register(end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)
