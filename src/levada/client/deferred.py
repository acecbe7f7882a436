"""What is done later, without a lock: callbacks and log lines.

A log handler is user code: it may send through the very client that logs, or wait for somebody who does. So nothing that runs under the
engine's lock calls a logger. It leaves the line in `Engine.deferred`, which the driver works off in order when it holds no lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from levada.logs import Log

if TYPE_CHECKING:
    from typing import Unpack

    from levada.logs import About


class Deferred(deque[Callable[[], None]]):
    """What one client's driver is to call, in order. client: the fields of its log lines."""

    def __init__(self, client: Mapping[str, Any]) -> None:
        super().__init__()
        self.client = client

    def log(self, name: str) -> DeferredLog:
        """Return what takes the log lines of a module."""
        return DeferredLog(name, self.client, self)


class DeferredLog(Log):
    """A Log whose lines are written later; arguments are put into the message then."""

    def __init__(self, name: str, client: Mapping[str, Any], deferred: Deferred) -> None:
        super().__init__(name, client)
        self._deferred = deferred

    def log(self, level: int, message: str, *args: object, error: BaseException | None = None, **about: Unpack[About]) -> None:
        """Have a line written. error: what it is about, with its traceback."""
        self._deferred.append(partial(super().log, level, message, *args, error=error, **about))
