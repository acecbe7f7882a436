"""Whether Python has its global interpreter lock (GIL)."""

from __future__ import annotations

import sys
from collections.abc import Callable


def has_gil() -> bool:
    """Whether only one thread at a time runs Python code.

    In a free-threaded Python the answer may change once, from False to True: when a module is imported that needs the lock.
    """
    enabled: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    return enabled()
