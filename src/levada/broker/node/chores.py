"""What a node does every so often, apart from requests."""

from __future__ import annotations

from collections.abc import Callable

from levada.errors import BrokerError
from levada.logs import Log

_log = Log("levada.broker")


class Chore:
    """Something to do at once and then every interval_ms. do: is passed the node's time."""

    def __init__(self, interval_ms: int, do: Callable[[int], None]) -> None:
        self.interval_ms = interval_ms
        self._do = do
        self._next_ms: int | None = None

    def run(self, now_ms: int) -> int:
        """Do it if it is due; return when it is due next. What a disk refuses is tried again then: the node goes on."""
        if self._next_ms is None or self._next_ms <= now_ms:
            try:
                self._do(now_ms)
            except BrokerError as fault:
                _log.error("what a broker does every %d ms was not done: %s", self.interval_ms, fault)
            self._next_ms = now_ms + self.interval_ms
        return self._next_ms
