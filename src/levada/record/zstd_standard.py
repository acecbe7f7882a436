"""zstd by Python's standard library, which has it since 3.14. The interface is that of levada.record.zstd_package."""

from __future__ import annotations

import sys
from collections.abc import Iterator

if sys.version_info >= (3, 14):
    from compression import zstd
else:  # For the tests: this package is the same code for older versions.
    from backports import zstd

ZstdError = zstd.ZstdError
_STEP = 1 << 20


class Packer:
    """Compresses data to frames."""

    def __init__(self, level: int) -> None:
        self._compressor = zstd.ZstdCompressor(level=level)

    def compress(self, data: bytes | bytearray | memoryview) -> bytes:
        """Return one frame."""
        return self._compressor.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)


class Unpacker:
    """Decompresses frames whose window is at most 2 to the power of window_log bytes. A larger window needs too much memory."""

    def __init__(self, window_log: int) -> None:
        self._options = {int(zstd.DecompressionParameter.window_log_max): window_log}

    def parts(self, frame: memoryview, bound: int, at_once: int) -> Iterator[bytes]:
        """Yield the contents of a frame in parts. bound and at_once have no effect. Raises EOFError if the frame is cut short."""
        decompressor = zstd.ZstdDecompressor(options=self._options)  # Serves for one frame only.
        rest: memoryview | bytes = frame
        while not decompressor.eof:
            part = decompressor.decompress(rest, _STEP)
            if not part and decompressor.needs_input:
                raise EOFError("the frame is cut short")
            yield part
            rest = b""
