"""Threads for what blocks while a client logs in (client.helpers): each lives for one call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from levada.api.waiting import not_awaitable
from levada.client.helpers import Ended

Finish: TypeAlias = Callable[[Any], Any]
"""Returns the result of what a user's function returned, where that is an awaitable."""


def start_helper(function: Callable[[], Any], ended: Ended) -> None:
    """Run a function in a thread of its own (client.helpers.StartHelper)."""
    try:
        threading.Thread(target=run_here, args=(function, ended), name="levada-login", daemon=True).start()
    except RuntimeError as error:
        if threading.main_thread().is_alive():
            ended(None, error)
        else:
            # At exit a producer flushes for some seconds yet, and from Python 3.12 on no thread can be started then.
            run_here(function, ended)


def run_here(function: Callable[[], Any], ended: Ended) -> None:
    """Run a function in the calling thread, and tell what came of it."""
    try:
        value = function()
    except Exception as error:
        ended(None, error)
    except BaseException as error:
        # SystemExit, say: whoever waits for the outcome has to hear of it, too, or would wait for ever. As a bug, it is not tried again.
        told = RuntimeError(f"{type(error).__name__} was raised while a client logged in")
        told.__cause__ = error
        ended(None, told)
    else:
        ended(value, None)


def finish_nothing(found: Any) -> Any:
    """Refuse an awaitable: no loop is there to run it. Raises TypeError."""
    return not_awaitable(found, "the function that gives tokens")
