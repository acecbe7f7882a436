"""Log lines that are written later, without a lock.

A log handler is user code: it may send through the very client that logs, or wait for somebody who does. So nothing that runs under the
engine's lock calls a logger. It leaves the line in `Engine.deferred`, which the driver works off in order when it holds no lock.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial


class DeferredLog:
    """Stands where a logger would. deferred: the engine's."""

    def __init__(self, logger: logging.Logger, deferred: deque[Callable[[], None]]) -> None:
        self._logger = logger
        self._deferred = deferred

    def log(self, level: int, message: str, *args: object, error: BaseException | None = None) -> None:
        """Have a line written; args are put into the message then. error: what the line is about, with its traceback."""
        self._deferred.append(partial(self._logger.log, level, message, *args, exc_info=error))

    def debug(self, message: str, *args: object) -> None:
        """Log at DEBUG."""
        self.log(logging.DEBUG, message, *args)

    def error(self, message: str, *args: object, error: BaseException | None = None) -> None:
        """Log at ERROR."""
        self.log(logging.ERROR, message, *args, error=error)
