"""Splits a stream of bytes into frames. It does not read the stream itself.

A frame is an int32 size and that many bytes. The owner of the socket gets a buffer from get_buffer(), receives into it, and passes the
number of bytes to received(). Small frames share one buffer, so that a single read may bring many of them; each frame is copied. This
buffer starts small and grows with the traffic, because a broker has many connections that send little.

A frame that does not fit the shared buffer gets its own buffer: that of an earlier frame, or a new one. A new buffer grows while bytes
arrive, to twice its size or by 1 MiB, so that an announced size alone takes no memory. The frame is returned as a view of its buffer.

The bytes of a returned frame never change while a view of it exists.
"""

from __future__ import annotations

from typing import Final

from levada.errors import FrameTooLargeError, ProtocolError
from levada.protocol.frame_memory import FrameMemory
from levada.protocol.growth import grow

SIZE_BYTES: Final = 4
GROWTH_BYTES: Final = 1 << 20
PREFIX_BYTES: Final = 64
_FIRST_SHARED_BYTES: Final = 1 << 12
_SHARED_BYTES: Final = 1 << 16
_MOST_BYTES: Final = (1 << 31) - 1


class FrameReader:
    """Divides the bytes from a connection into frames.

    max_frame_bytes: the largest accepted size of a frame, None for no limit. A new value applies to later frames. prefix: the first bytes
    of the stream, which show which program answers if it is not Kafka. fault: the error of a bad frame size, None before. After a bad size
    nothing more can be read: the complete frames before it are returned, then get_buffer() raises `fault`. memory: provides the buffers of
    large frames; None: each large frame gets a new buffer.
    """

    def __init__(self, max_frame_bytes: int | None = None, memory: FrameMemory | None = None) -> None:
        self.prefix = b""
        self.fault: ProtocolError | None = None
        self.max_frame_bytes = max_frame_bytes
        self._memory = memory
        self._shared = bytearray(_FIRST_SHARED_BYTES)
        self._large: bytearray | None = None
        self._large_size = 0
        self._filled = 0
        self._handed_out: memoryview | None = None

    def get_buffer(self) -> memoryview:
        """Return the memory for the next bytes, valid until the next call of received() or get_buffer(). Raises `fault` if it is set."""
        if self.fault is not None:
            raise self.fault
        self._take_back()
        whole = memoryview(self._shared if self._large is None else self._rest_of_large(self._large))
        self._handed_out = whole[self._filled : len(whole) if self._large is None else self._large_size]
        # Released here: a signal handler that runs later keeps the frame that the signal interrupted, with all its variables.
        whole.release()
        return self._handed_out

    def received(self, count: int) -> list[memoryview | bytes]:
        """Take `count` bytes that are now in the buffer; return the frames that are complete, without their sizes.

        Raises FrameTooLargeError for a size above the limit and ProtocolError for a negative size, unless there are frames to return.
        """
        if len(self.prefix) < PREFIX_BYTES and self._handed_out is not None:
            self.prefix += bytes(self._handed_out[: min(count, PREFIX_BYTES - len(self.prefix))])
        self._take_back()
        self._filled += count
        return self._split_shared() if self._large is None else self._finish_large(self._large)

    @property
    def pending_bytes(self) -> int:
        """The bytes of an incomplete frame so far, including its size field."""
        return self._filled if self._large is None else self._filled + SIZE_BYTES

    @property
    def large_bytes(self) -> int:
        """The size in bytes of the buffer of an incomplete large frame; 0 if the incomplete frame has no buffer of its own."""
        return 0 if self._large is None else len(self._large)

    def _take_back(self) -> None:
        # A buffer cannot grow while a view of it exists.
        if self._handed_out is not None:
            self._handed_out.release()
            self._handed_out = None

    def _rest_of_large(self, large: bytearray) -> bytearray:
        if self._filled == len(large):
            grow(large, min(self._large_size, self._filled + max(self._filled, GROWTH_BYTES)))
        return large

    def _finish_large(self, large: bytearray) -> list[memoryview | bytes]:
        if self._filled < self._large_size:
            return []
        self._large, self._filled = None, 0
        if self._memory is not None:
            self._memory.keep(large)
        return [memoryview(large)[: self._large_size]]

    def _split_shared(self) -> list[memoryview | bytes]:
        frames: list[memoryview | bytes] = []
        shared, start, filled = self._shared, 0, self._filled
        limit = _MOST_BYTES if self.max_frame_bytes is None else self.max_frame_bytes
        while filled - start >= SIZE_BYTES:
            body = start + SIZE_BYTES
            size = int.from_bytes(shared[start:body], "big", signed=True)
            if size < 0 or size > limit:
                self.fault = self._refusal(size)
                return self._delivered_before_fault(frames)
            if body + size > filled:
                break
            frames.append(bytes(memoryview(shared)[body : body + size]))
            start = body + size
        if start == filled < len(shared):
            self._filled = 0
        else:
            self._keep(start, filled)
        return frames

    def _delivered_before_fault(self, frames: list[memoryview | bytes]) -> list[memoryview | bytes]:
        if not frames and self.fault is not None:
            raise self.fault
        return frames

    def _keep(self, start: int, filled: int) -> None:
        """Move the incomplete frame to the front of the shared buffer, or to its own buffer if it is too large."""
        shared, left = self._shared, filled - start
        size = int.from_bytes(shared[start : start + SIZE_BYTES], "big") if left >= SIZE_BYTES else 0
        if size + SIZE_BYTES > _SHARED_BYTES:
            self._begin_large(shared[start + SIZE_BYTES : filled], size)
            return
        if start and left:
            shared[:left] = shared[start:filled]
        self._filled = left
        if filled == len(shared) or size + SIZE_BYTES > len(shared):
            shared += bytes(min(max(2 * len(shared), size + SIZE_BYTES), _SHARED_BYTES) - len(shared))

    def _begin_large(self, first: bytearray, size: int) -> None:
        """Continue a frame of `size` bytes in its own buffer. first: the bytes received so far."""
        used_again = None if self._memory is None else self._memory.take(size)
        if used_again is not None:
            used_again[: len(first)] = first
        self._large, self._large_size, self._filled = used_again or first, size, len(first)

    def _refusal(self, size: int) -> ProtocolError:
        first = self.prefix[:16]
        if size < 0:
            return ProtocolError(f"a frame announces the negative size {size}; the first bytes were {first!r}")
        limit = f"more than the limit of {self.max_frame_bytes}"
        return FrameTooLargeError(f"a frame announces {size} bytes, {limit}; the first bytes were {first!r}")
