"""Objects that a program handed to a client and that end with it: serializers, a partitioner, interceptors (K24)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from levada.logs import Log


class HandedOver:
    """Closes each object once that has a close(); functions have none."""

    def __init__(self, objects: Iterable[Any], log: Log) -> None:
        self._log = log
        by_identity = {id(item): item for item in objects}
        self._closes: list[Callable[[], object]] = [item.close for item in by_identity.values() if callable(getattr(item, "close", None))]

    def close(self) -> None:
        """Close them all, when nothing calls them any more. What one raises is logged: the client is closed all the same."""
        closes, self._closes = self._closes, []
        for close in closes:
            try:
                close()
            except Exception as raised:
                self._log.error("%r failed to close", getattr(close, "__self__", close), error=raised)
