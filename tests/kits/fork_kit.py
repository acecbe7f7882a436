"""Asking a child process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

LIMIT_S = 20


def told_by_child(tell: Callable[[], str]) -> str:
    """Fork, and return what the child has to tell; "" if it takes longer than LIMIT_S."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            # The handler that this process may have would not end the child.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(LIMIT_S)
            os.write(writer, tell().encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as told:
        return told.read()
