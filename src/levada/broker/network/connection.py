"""One client connection as the broker sees it: at most one request in process, the rest waits in order (E2)."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from levada.broker.network.session import Session

Frame: TypeAlias = bytes | bytearray | memoryview


class Connection:
    """session: whose it is. muted: a request is being processed or its answer withheld. waiting: frames that came in meanwhile."""

    __slots__ = ("id", "muted", "session", "waiting")

    def __init__(self, session: Session) -> None:
        self.id = session.connection_id
        self.session = session
        self.muted = False
        self.waiting: deque[Frame] = deque()
