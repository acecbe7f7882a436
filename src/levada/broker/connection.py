"""One client connection as the broker sees it: at most one request in process, the rest waits in order (E2)."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

Frame: TypeAlias = bytes | bytearray | memoryview


class Connection:
    """muted: a request is being processed or its answer withheld. waiting: frames that came in meanwhile."""

    __slots__ = ("id", "muted", "waiting")

    def __init__(self, connection_id: int) -> None:
        self.id = connection_id
        self.muted = False
        self.waiting: deque[Frame] = deque()
