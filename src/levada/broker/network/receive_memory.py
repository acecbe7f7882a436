"""The memory limit for the unfinished requests of all connections (queued.max.request.bytes).

Only requests with buffers of their own count: a small one is read into the buffer that its connection has anyway. When the limit is
reached, only the connection with the oldest unfinished request is read, until memory is free again; the others wait in TCP. So one request
can always be finished, even if it is larger than the limit. If it takes too long while others wait, its connection is closed.

Connections that still have to log in have memory of their own, so that they never block connections that have logged in.
"""

from __future__ import annotations

from typing import Final

from levada.base.clock import NEVER_MS

LONGEST_TURN_MS: Final = 5_000
"""How long one connection may be the only one that is read while others wait."""

LOGIN_BYTES: Final = 16 << 20
"""Memory for unfinished requests of connections that still have to log in: 32 of the largest that they may send by default. Usual logins
are too small to be counted, so only tokens of many KiB can ever wait."""


class ReceiveMemory:
    """Counts and limits the memory of unfinished requests. limit_bytes: -1 for no limit. name: the name of the setting with the limit, for
    log lines.
    """

    def __init__(self, limit_bytes: int, name: str = "queued_max_request_bytes") -> None:
        self.name = name
        self.limit_bytes = limit_bytes
        self._held: dict[int, int] = {}
        """Bytes of the unfinished requests by connection, the oldest first."""
        self._total_bytes = 0
        self._turn: int | None = None
        self._turn_ends_ms = NEVER_MS

    def hold(self, conn_id: int, size_bytes: int) -> None:
        """Set the number of bytes that a connection's unfinished request uses; 0 if it has none."""
        before = self._held.get(conn_id, 0)
        if size_bytes == before:
            return
        self._total_bytes += size_bytes - before
        if size_bytes:
            self._held[conn_id] = size_bytes
        else:
            del self._held[conn_id]

    def may_read(self, conn_id: int) -> bool:
        """Return whether bytes may be read from a connection now. While the memory is used up, a connection whose request uses some of it
        must wait, unless its request is the oldest of these.
        """
        return conn_id not in self._held or not self._is_short or conn_id == next(iter(self._held))

    def late(self, now_ms: int) -> int | None:
        """Return the connection that is to be closed, because the others have waited too long for the end of its request; None if there is
        none. The wait is measured from the first call in which others wait.
        """
        others_wait = self._is_short and len(self._held) > 1
        turn = next(iter(self._held)) if others_wait else None
        if turn != self._turn:
            self._turn, self._turn_ends_ms = turn, NEVER_MS if turn is None else now_ms + LONGEST_TURN_MS
        return turn if self._turn_ends_ms <= now_ms else None

    @property
    def next_deadline_ms(self) -> int:
        """The time at which late() has to be called again. Another call of hold() may make it earlier."""
        return self._turn_ends_ms

    @property
    def _is_short(self) -> bool:
        return 0 <= self.limit_bytes <= self._total_bytes
