"""Code of the user's that the engine needs a result of: it runs without the lock, and its result comes back under it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from levada.base.promise import Promise
from levada.client.host import ENDED, Host

T = TypeVar("T")


def run_beside(run: Callable[[], T], deferred: deque[Callable[[], None]], host: Host) -> Promise[T]:
    """Have the driver run a function soon; return a promise of its result, to be used under the lock. deferred: the engine's."""
    promise: Promise[T] = Promise()

    def work() -> None:
        settle: Callable[[], bool]
        try:
            settle = partial(promise.resolve, run())
        except Exception as error:
            settle = partial(promise.reject, error)
        with suppress(*ENDED):
            host.change(lambda now_ms: settle())

    deferred.append(work)
    return promise
