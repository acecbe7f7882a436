"""The memory of large frames, used again for the next ones.

The operating system clears each page of new memory when it is first touched, which takes as long as receiving into it. So a client keeps
the buffers of its last large frames, and receives into one again once no view of it is left.
"""

from __future__ import annotations

from collections import deque
from typing import Final

LEAST_BYTES: Final = 1 << 18
"""Smaller buffers are not worth keeping: the C library has memory of that size at hand."""

MOST_BYTES: Final = 32 << 20
MOST_BUFFERS: Final = 8
LEAST_SHARE: Final = 4
"""A frame that fills less than this part of a buffer does not get it, as it may be kept for long."""

IDLE_MS: Final = 10_000
"""After so long without a large frame, or up to twice that, nothing is kept."""


class FrameMemory:
    """Buffers that were handed out, at most 8, and 32 MiB together. One thread at a time may use it."""

    def __init__(self) -> None:
        self._kept: deque[bytearray] = deque()
        self._bytes = 0
        self._is_used = False
        self.review_from_ms = 0
        """When review() has something to do."""

    def keep(self, buffer: bytearray) -> None:
        """Keep a buffer of which views were handed out. Beyond the limits the oldest ones are let go."""
        if not LEAST_BYTES <= len(buffer) <= MOST_BYTES:
            return
        if not self._is_used:
            # One alone does not tell that others follow. And where it is given back, the C library, too, keeps more memory at hand.
            self._is_used = True
            return
        self._kept.append(buffer)
        self._bytes += len(buffer)
        while self._bytes > MOST_BYTES or len(self._kept) > MOST_BUFFERS:
            self._bytes -= len(self._kept.popleft())

    def take(self, size: int) -> bytearray | None:
        """Return a buffer of at least `size` bytes that nobody else can see, None where there is none."""
        for at, buffer in enumerate(self._kept):
            if size <= len(buffer) <= size * LEAST_SHARE and _is_unseen(buffer):
                del self._kept[at]
                self._bytes -= len(buffer)
                return buffer
        return None

    def review(self, now_ms: int) -> None:
        """Let go of everything if no large frame has come since the last call."""
        if not self._is_used:
            self._kept.clear()
            self._bytes = 0
        self._is_used = False
        self.review_from_ms = now_ms + IDLE_MS


def _is_unseen(buffer: bytearray) -> bool:
    """Whether no view of a buffer is left: Python refuses to change the size of one that has any."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True
