"""Asking a child process."""

from __future__ import annotations

import os
from collections.abc import Callable


def told_by_child(tell: Callable[[], str]) -> str:
    """Fork, and return what the child has to tell."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, tell().encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as told:
        return told.read()
