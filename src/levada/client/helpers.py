"""What blocks, done outside of the engine: a token fetched over HTTP, a ticket of Kerberos, a function of the user's that may take long.

The engine asks for it under its lock and gets a Promise. A helper runs it elsewhere and leaves what came of it here, from any thread; the
engine's next step settles the Promise. So flows wait for it as for everything else, and nothing of the engine is touched by the helper.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from levada.base.clock import NEVER_MS
from levada.base.promise import Promise

Ended: TypeAlias = Callable[[Any, BaseException | None], None]
"""Told once, from any thread, what a function returned, or what it raised."""
StartHelper: TypeAlias = Callable[[Callable[[], Any], Ended], None]
"""Has a function run where it may block, and tells what came of it. Never waits."""


class Helpers:
    """See the module's theory. start: has a function run elsewhere. notify: makes the engine take its next step soon; it is called
    from a helper's thread.
    """

    def __init__(self, start: StartHelper, notify: Callable[[], None]) -> None:
        self._start = start
        self._notify = notify
        self._ended: deque[tuple[Promise[Any], Any, BaseException | None]] = deque()

    def run(self, function: Callable[[], Any]) -> Promise[Any]:
        """Have a function run elsewhere; the promise is settled in a later step of the engine, whatever the function does."""
        promise: Promise[Any] = Promise()

        def ended(value: Any, error: BaseException | None) -> None:
            self._ended.append((promise, value, error))
            self._notify()

        self._start(function, ended)
        return promise

    def poll(self, now_ms: int) -> int:
        """Settle what has ended."""
        while self._ended:
            promise, value, error = self._ended.popleft()
            promise.resolve(value) if error is None else promise.reject(error)
        return NEVER_MS
