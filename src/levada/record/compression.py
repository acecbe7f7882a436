"""The codecs of record batches: gzip, snappy, lz4, zstd.

Writing follows what Java's readers accept: snappy in xerial's chunks, lz4 frames of independent blocks (Java refuses linked ones).
Reading accepts the output of any client, but trusts none: bytes are counted while they are decompressed, so a small block that expands to
gigabytes fails at the limit, and bytes after the end of the stream are corruption.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from io import BytesIO
from typing import TypeVar

import cramjam
import lz4.frame
import zstandard

from levada.errors import ConfigError, DecompressionError

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview

# Per batch. A broker accepts batches of 1 MiB by default, and real records do not compress to less than 1/64 of their size.
DEFAULT_MAX_DECOMPRESSED = 64 * 1024 * 1024


class Codec(IntEnum):
    """A compression codec, by its number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def parse(cls, name: str) -> Codec:
        """Return the codec of a `compression.type` value such as "zstd"; raises ConfigError."""
        try:
            return cls[name.upper()]
        except KeyError:
            known = ", ".join(codec.name.lower() for codec in cls)
            raise ConfigError(f"unknown compression codec {name!r}; there are: {known}") from None


def compress(codec: Codec, data: Buffer, level: int | None = None) -> Buffer:
    """Compress `data`. level: gzip -1 to 9, lz4 1 to 17, zstd -131072 to 22 (KIP-390); None for Kafka's default level of the codec."""
    return _COMPRESS[codec](data, level)


def decompress(codec: Codec, data: Buffer, max_bytes: int = DEFAULT_MAX_DECOMPRESSED) -> Buffer:
    """Decompress all of `data`.

    Raises DecompressionError if the data are invalid, if other bytes follow them, or if the result is larger than `max_bytes`.
    """
    try:
        return _DECOMPRESS[codec](data, max_bytes)
    except (zlib.error, RuntimeError, EOFError, struct.error, zstandard.ZstdError, cramjam.DecompressionError) as error:
        raise DecompressionError(f"{codec.name.lower()}: {error} ({len(data)} compressed bytes)") from error


def _too_large(codec: Codec, data: Buffer, max_bytes: int) -> DecompressionError:
    return DecompressionError(
        f"{codec.name.lower()}: {len(data)} compressed bytes decompress to more than the limit of {max_bytes} bytes; none of them were used"
    )


# Libraries allocate the memory of a whole step at once; larger steps cost more than they save.
_STEP = 1 << 20


class _Output:
    """Counts decompressed bytes and collects them in one growing buffer. joined() returns this buffer without a second copy."""

    def __init__(self, codec: Codec, data: Buffer, max_bytes: int) -> None:
        self._codec = codec
        self._data = data
        self._max_bytes = max_bytes
        self._first: bytes | None = None
        self._all: BytesIO | None = None
        self._size = 0

    @property
    def step(self) -> int:
        """The most bytes to request from the library at once: up to one byte more than allowed, so that too large output is noticed."""
        return min(_STEP, self._max_bytes - self._size + 1)

    def add(self, part: bytes) -> None:
        """Add decompressed bytes; raises DecompressionError beyond the limit."""
        self._size += len(part)
        if self._size > self._max_bytes:
            raise _too_large(self._codec, self._data, self._max_bytes)
        if self._first is None:
            self._first = part
            return
        if self._all is None:
            self._all = BytesIO()
            self._all.write(self._first)
        self._all.write(part)

    def joined(self) -> bytes:
        """Return all bytes; raises EOFError if add() was never called."""
        if self._first is None:
            raise EOFError("no stream")
        return self._first if self._all is None else self._all.getvalue()


def _keep(data: Buffer, _: int | None) -> Buffer:
    return data


# --- gzip ---------------------------------------------------------------------------------------------------------------------------


_GZIP_SLICE = 1 << 16


def _gzip_compress(data: Buffer, level: int | None) -> bytes:
    packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _gzip_decompress(data: Buffer, max_bytes: int) -> bytes:
    output = _Output(Codec.GZIP, data, max_bytes)
    rest = memoryview(data)
    while len(rest):
        rest = _gunzip_member(rest, output)
    return output.joined()


def _gunzip_member(rest: memoryview, output: _Output) -> memoryview:
    """Decompress the gzip member at the start of `rest`; return the bytes after the member.

    The library gets the data in slices, because after every step it copies the part of the slice that it has not used.
    """
    member = zlib.decompressobj(16 + zlib.MAX_WBITS)
    at = 0
    while not member.eof:
        piece: Buffer = member.unconsumed_tail
        if not piece:
            piece = rest[at : at + _GZIP_SLICE]
            at += len(piece)
        part = member.decompress(piece, output.step)
        if not part and not len(piece):
            raise EOFError("the stream is cut short")
        output.add(part)
    return rest[at - len(member.unused_data) :]


# --- snappy -------------------------------------------------------------------------------------------------------------------------

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_CHUNK = 32 * 1024
_INT = struct.Struct(">i")


def _snappy_compress(data: Buffer, _: int | None) -> bytes:
    view = memoryview(data)
    parts: list[Buffer] = [_XERIAL_HEADER]
    # Also empty data gets one chunk, so that it becomes a valid stream.
    for start in range(0, len(view) or 1, _XERIAL_CHUNK):
        chunk = memoryview(cramjam.snappy.compress_raw(view[start : start + _XERIAL_CHUNK]))
        parts += (_INT.pack(len(chunk)), chunk)
    return b"".join(parts)


def _snappy_decompress(data: Buffer, max_bytes: int) -> Buffer:
    view = memoryview(data)
    chunks = _xerial_chunks(view) if view[:8] == _XERIAL_MAGIC else [view]
    sizes = [_snappy_size(chunk) for chunk in chunks]
    if sum(sizes) > max_bytes:
        raise _too_large(Codec.SNAPPY, data, max_bytes)
    output = bytearray(sum(sizes))
    target = memoryview(output)
    for chunk, size in zip(chunks, sizes, strict=True):
        if cramjam.snappy.decompress_raw_into(chunk, target[:size]) != size:
            raise EOFError(f"a block that announces {size} bytes holds less")
        target = target[size:]
    return output


def _xerial_chunks(view: memoryview) -> list[memoryview]:
    chunks = []
    at = len(_XERIAL_HEADER)
    if len(view) < at:
        raise EOFError("the xerial header is cut short")
    while at < len(view):
        (size,) = _INT.unpack_from(view, at)
        at += 4
        if not 0 < size <= len(view) - at:
            raise EOFError(f"a xerial chunk of {size} bytes where {len(view) - at} remain")
        chunks.append(view[at : at + size])
        at += size
    return chunks


def _snappy_size(chunk: memoryview) -> int:
    """Return the decompressed size that a raw Snappy block announces. Raises EOFError if the block is too short for that size.

    3 bytes of a block can decompress to at most 64 bytes.
    """
    size = int(cramjam.snappy.decompress_raw_len(chunk))
    if 3 * size > 64 * len(chunk):
        raise EOFError(f"a block of {len(chunk)} bytes announces {size}")
    return size


# --- lz4 ----------------------------------------------------------------------------------------------------------------------------

_LZ4_KAFKA_DEFAULT = 9
_LZ4_BEST_RATIO = 255
_LZ4_SMALL = 64 * 1024
LZ4_FLAGS_AT = 4  # After the magic number.
LZ4_HAS_CONTENT_SIZE = 0x08


def _lz4_compress(data: Buffer, level: int | None) -> bytes:
    # In Java the default level 9 selects the fast compressor, every other level the slow one (KIP-390). This library's fast one is level 0.
    packed: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level in (None, _LZ4_KAFKA_DEFAULT) else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return packed


def _lz4_decompress(data: Buffer, max_bytes: int) -> bytes:
    if LZ4_FLAGS_AT < len(data) <= min(_LZ4_SMALL, max_bytes // _LZ4_BEST_RATIO) and not data[LZ4_FLAGS_AT] & LZ4_HAS_CONTENT_SIZE:
        # One call takes half the time of streaming. It is safe: so small a frame cannot hold too much, and it announces no size to
        # allocate.
        whole: bytes
        whole, used = lz4.frame.decompress(data, return_bytes_read=True)
        if used == len(data):
            return whole
    return _lz4_stream(data, max_bytes)


def _lz4_stream(data: Buffer, max_bytes: int) -> bytes:
    output = _Output(Codec.LZ4, data, max_bytes)
    rest: Buffer | None = data
    while rest:
        frame = lz4.frame.LZ4FrameDecompressor()
        while not frame.eof:
            part = frame.decompress(rest, max_length=output.step)
            rest = b""
            output.add(part)
            if not frame.eof and frame.needs_input:
                raise EOFError("the frame is cut short")
        rest = frame.unused_data
    return output.joined()


# --- zstd ---------------------------------------------------------------------------------------------------------------------------

# The window takes memory in addition to the output. A frame may announce a large window, as the highest levels do, if its contents are
# too small to fill it.
_ZSTD_MAX_WINDOW = 8 * 1024 * 1024
_ZSTD_LARGEST_WINDOW = 128 * 1024 * 1024
_ZSTD_BLOCK = 128 * 1024
_RAW, _RLE = 0, 1


def _zstd_compress(data: Buffer, level: int | None) -> bytes:
    level = 3 if level is None else level
    with _pooled(_packers.setdefault(level, []), lambda: zstandard.ZstdCompressor(level=level)) as packer:
        return packer.compress(data)


def _zstd_decompress(data: Buffer, max_bytes: int) -> bytes:
    frames, bound = _zstd_frames(memoryview(data))
    window = _ZSTD_LARGEST_WINDOW if bound <= _ZSTD_MAX_WINDOW else _ZSTD_MAX_WINDOW
    with _pooled(_unpackers.setdefault(window, []), lambda: zstandard.ZstdDecompressor(max_window_size=window)) as unpacker:
        if frames == 1 and bound <= max_bytes and zstandard.frame_content_size(data) <= bound:
            return unpacker.decompress(data, max_output_size=bound)
        return _zstd_stream(unpacker, data, max_bytes)


def _zstd_stream(unpacker: zstandard.ZstdDecompressor, data: Buffer, max_bytes: int) -> bytes:
    output = _Output(Codec.ZSTD, data, max_bytes)
    with unpacker.stream_reader(data, read_across_frames=True) as reader:
        while part := reader.read(output.step):
            output.add(part)
    return output.joined()


def _zstd_frames(view: memoryview) -> tuple[int, int]:
    """Return the number of zstd frames in `view`, and the maximum number of bytes to which they decompress. Reads only block headers.

    A frame need not announce its decompressed size, and the library does not report that the last frame is incomplete. The block headers
    show both.
    """
    frames = bound = at = 0
    while at < len(view):
        header = zstandard.get_frame_parameters(view[at:])
        at += zstandard.frame_header_size(view[at:])
        at, size = _zstd_blocks(view, at)
        at += 4 if header.has_checksum else 0
        frames += 1
        bound += size
    if not frames or at > len(view):
        raise EOFError("the frame is cut short")
    return frames, bound


def _zstd_blocks(view: memoryview, at: int) -> tuple[int, int]:
    """Return the position after the last block of a zstd frame, and the maximum number of bytes to which its blocks decompress.

    at: the position of the frame's first block.
    """
    bound = last = 0
    while not last:
        if len(view) - at < 3:
            raise EOFError("the frame is cut short")
        head = int.from_bytes(view[at : at + 3], "little")
        last, kind, size = head & 1, head >> 1 & 3, head >> 3
        at += 3 + (1 if kind == _RLE else size)
        bound += size if kind in (_RAW, _RLE) else _ZSTD_BLOCK
    return at, bound


# By level, and by window size. A context is expensive to create and must not be shared while in use; popping from a list is atomic.
_packers: dict[int, list[zstandard.ZstdCompressor]] = {}
_unpackers: dict[int, list[zstandard.ZstdDecompressor]] = {}


@contextmanager
def _pooled(idle: list[T], make: Callable[[], T]) -> Iterator[T]:
    try:
        context = idle.pop()
    except IndexError:
        context = make()
    try:
        yield context
    finally:
        idle.append(context)


_COMPRESS: dict[Codec, Callable[[Buffer, int | None], Buffer]] = {
    Codec.NONE: _keep,
    Codec.GZIP: _gzip_compress,
    Codec.SNAPPY: _snappy_compress,
    Codec.LZ4: _lz4_compress,
    Codec.ZSTD: _zstd_compress,
}
_DECOMPRESS: dict[Codec, Callable[[Buffer, int], Buffer]] = {
    Codec.NONE: _keep,
    Codec.GZIP: _gzip_decompress,
    Codec.SNAPPY: _snappy_decompress,
    Codec.LZ4: _lz4_decompress,
    Codec.ZSTD: _zstd_decompress,
}
