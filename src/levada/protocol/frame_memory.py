"""Reuses the memory of large frames.

The operating system clears each page of new memory at its first use, which takes as long as receiving the data. So a client keeps the
buffers of its last large frames, and receives into a buffer again when no view of it exists.
"""

from __future__ import annotations

from collections import deque
from typing import Final

LEAST_BYTES: Final = 1 << 18
"""Smaller buffers are not kept, because the C library itself reuses memory of that size."""

MOST_BYTES: Final = 32 << 20
MOST_BUFFERS: Final = 8
LEAST_SHARE: Final = 4
"""A frame does not get a buffer of more than so many times its size, because the program may keep the frame for long."""

IDLE_MS: Final = 10_000
"""All buffers are freed after this time without a large frame, or up to twice this time."""


class FrameMemory:
    """Keeps the buffers of large frames for later frames: at most 8 buffers, and at most 32 MiB in total. Not thread-safe."""

    def __init__(self) -> None:
        self._kept: deque[bytearray] = deque()
        self._bytes = 0
        self._is_used = False
        self.review_from_ms = 0
        """The time from which review() has work to do, in ms."""

    def keep(self, buffer: bytearray) -> None:
        """Keep a buffer for take(), even if views of it still exist. If a limit is exceeded, the oldest buffers are dropped.

        A buffer of less than LEAST_BYTES or more than MOST_BYTES is not kept, nor is the first buffer between them after review().
        """
        if not LEAST_BYTES <= len(buffer) <= MOST_BYTES:
            return
        if not self._is_used:
            # After a single large frame more need not follow. And when its buffer is freed, the C library begins to reuse memory of that
            # size.
            self._is_used = True
            return
        self._kept.append(buffer)
        self._bytes += len(buffer)
        while self._bytes > MOST_BYTES or len(self._kept) > MOST_BUFFERS:
            self._bytes -= len(self._kept.popleft())

    def take(self, size: int) -> bytearray | None:
        """Return a kept buffer of `size` to LEAST_SHARE x `size` bytes of which no view exists any more, and no longer keep it.

        None if there is no such buffer.
        """
        for at, buffer in enumerate(self._kept):
            if size <= len(buffer) <= size * LEAST_SHARE and _is_unseen(buffer):
                del self._kept[at]
                self._bytes -= len(buffer)
                return buffer
        return None

    def review(self, now_ms: int) -> None:
        """Drop all buffers if no large frame was received since the last call."""
        if not self._is_used:
            self._kept.clear()
            self._bytes = 0
        self._is_used = False
        self.review_from_ms = now_ms + IDLE_MS


def _is_unseen(buffer: bytearray) -> bool:
    """Whether no view of a buffer exists. Python raises BufferError if the size of a buffer with views changes."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True
