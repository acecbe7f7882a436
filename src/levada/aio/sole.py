"""One task at a time uses a consumer."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

from levada.errors import ConcurrentUseError


class SoleTask:
    """Lets one task in at a time, and says so to a second one instead of letting it wait. A listener is in already, and may call."""

    def __init__(self) -> None:
        self._owner: asyncio.Task[Any] | None = None
        self._depth = 0

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if self._owner is not None and self._owner is not task:
            raise ConcurrentUseError(f"another task ({self._owner.get_name()}) is using this consumer; one at a time may, but for wakeup()")
        self._owner = task
        self._depth += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
