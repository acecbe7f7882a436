"""zstd by the package zstandard. Decompressors are reused, and one call decompresses a small frame into one buffer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import zstandard
from zstandard import ZstdError as ZstdError

_STEP = 1 << 20


class Packer:
    """Compresses data to frames."""

    def __init__(self, level: int) -> None:
        self._compressor = zstandard.ZstdCompressor(level=level)

    def compress(self, data: bytes | bytearray | memoryview) -> bytes:
        """Return one frame."""
        return self._compressor.compress(data)


class Unpacker:
    """Decompresses frames whose window is at most 2 to the power of window_log bytes. A larger window needs too much memory."""

    def __init__(self, window_log: int) -> None:
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=1 << window_log)

    def parts(self, frame: memoryview, bound: int, at_once: int) -> Iterable[bytes]:
        """Return the contents of a frame, in one part if they can be no more than at_once bytes.

        bound: the most bytes to which the frame's blocks can decompress.
        """
        if bound <= at_once and zstandard.frame_content_size(frame) <= bound:
            return (self._decompressor.decompress(frame, max_output_size=bound or 1),)
        return self._steps(frame)

    def _steps(self, frame: memoryview) -> Iterator[bytes]:
        with self._decompressor.stream_reader(frame) as reader:
            while part := reader.read(_STEP):
                yield part
