"""Checks that levada supports the Python that runs it."""

from __future__ import annotations

import sys

FREE_THREADED = (
    "levada has not been proven without the global interpreter lock, and this Python ({version}) runs without: "
    "start it with PYTHON_GIL=1 or -X gil=1, or use the usual build"
)


def refuse_free_threading() -> None:
    """Raise ImportError if threads run without the global interpreter lock, because records could be lost silently."""
    has_lock = getattr(sys, "_is_gil_enabled", None)
    if has_lock is not None and not has_lock():
        raise ImportError(FREE_THREADED.format(version=sys.version.split()[0]))
