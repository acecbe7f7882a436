"""The codecs of record batches: gzip, snappy, lz4, zstd.

Writing follows what Java's readers accept: snappy in xerial's chunks, lz4 frames of independent blocks (Java refuses linked ones).
Reading accepts the output of any client, but trusts none: bytes are counted while they are decompressed, so a small block that expands to
gigabytes fails at the limit, and bytes after the end of the stream are corruption.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import partial
from io import BytesIO
from typing import TypeVar

import cramjam

from levada.errors import ConfigError, DecompressionError

try:
    from levada.record import zstd_package as zstd
except ImportError:
    from levada.record import zstd_standard as zstd  # type: ignore[no-redef]

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
    """Return `data` compressed. With Codec.NONE, return `data` itself.

    level: gzip -1 to 9, lz4 1 to 17, zstd -131072 to 22 (KIP-390); None for Kafka's default level of the codec. snappy has no levels.
    """
    return _COMPRESS[codec](data, level)


def decompress(codec: Codec, data: Buffer, max_bytes: int = DEFAULT_MAX_DECOMPRESSED) -> Buffer:
    """Return all of `data` decompressed. With Codec.NONE, return `data` itself, whatever its size.

    Raises DecompressionError if the data are invalid, if other bytes follow them, or if the result is larger than `max_bytes`.
    """
    try:
        return _DECOMPRESS[codec](data, max_bytes)
    except (zlib.error, RuntimeError, EOFError, struct.error, zstd.ZstdError, cramjam.DecompressionError) as error:
        raise DecompressionError(f"{codec.name.lower()}: {error} ({len(data)} compressed bytes)") from error


def _too_large(codec: Codec, data: Buffer, max_bytes: int) -> DecompressionError:
    return DecompressionError(
        f"{codec.name.lower()}: {len(data)} compressed bytes decompress to more than the limit of {max_bytes} bytes; none of them were used"
    )


# In a free-threaded Python, also with its lock turned on, cramjam writes to no memoryview (its issue 213).
_FREE_THREADED = "free-threading" in sys.version
# Libraries allocate the memory of a whole step at once; larger steps cost more than they save.
_STEP = 1 << 20


class _Output:
    """Collects decompressed bytes, and raises DecompressionError when they exceed max_bytes.

    The bytes are in one growing buffer, which joined() returns without a second copy. codec, data: for the error.
    """

    def __init__(self, codec: Codec, data: Buffer, max_bytes: int) -> None:
        self._codec = codec
        self._data = data
        self._max_bytes = max_bytes
        self._first: bytes | None = None
        self._all: BytesIO | None = None
        self._size = 0

    @property
    def left(self) -> int:
        """How many more bytes are allowed."""
        return self._max_bytes - self._size

    @property
    def step(self) -> int:
        """The most bytes to request from the library at once: up to one byte more than allowed, so that too large output is noticed."""
        return min(_STEP, self.left + 1)

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


def _unpack_into(unpack: Callable[[Buffer, Buffer], int], packed: memoryview, target: memoryview) -> int:
    """Decompress to the start of `target` with a function of cramjam. Return the size of the result."""
    if not _FREE_THREADED:
        return unpack(packed, target)
    whole = bytearray(len(target))
    size = unpack(packed, whole)
    target[:size] = memoryview(whole)[:size]
    return size


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
        if _unpack_into(cramjam.snappy.decompress_raw_into, chunk, target[:size]) != size:
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
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_FLAGS_AT = len(_LZ4_MAGIC)
LZ4_HAS_CONTENT_SIZE = 0x08
_LZ4_BLOCK_CHECKSUM, _LZ4_CONTENT_CHECKSUM, _LZ4_DICTIONARY = 0x10, 0x04, 0x01
_LZ4_STORED = 1 << 31
"""In the size of a block: the block is not compressed."""
_LZ4_SIZE = struct.Struct("<I")
_LZ4_BEST_RATIO = 255
_LZ4_PLAIN_HEADERS = {
    _LZ4_MAGIC + b"\x60\x40\x82": 64 << 10,
    _LZ4_MAGIC + b"\x60\x50\xfb": 256 << 10,
    _LZ4_MAGIC + b"\x60\x60\x51": 1 << 20,
    _LZ4_MAGIC + b"\x60\x70\x73": 4 << 20,
}
"""The headers, each with its checksum, of frames of independent blocks without checksums and sizes, by the largest block. Kafka's clients
write such frames.
"""
_LZ4_HEADER, _LZ4_BLOCK = next(iter(_LZ4_PLAIN_HEADERS.items()))
_lz4_scratch: list[bytearray] = []
"""Buffers of _LZ4_BLOCK bytes that no call uses now."""


def _lz4_compress(data: Buffer, level: int | None) -> bytes:
    # In Java the default level 9 selects the fast compressor, every other level the slow one (KIP-390).
    blocks = _lz4_fast_blocks(memoryview(data)) if level in (None, _LZ4_KAFKA_DEFAULT) else _lz4_slow_blocks(data, level)
    parts: list[Buffer] = [_LZ4_HEADER]
    for size, block in blocks:
        parts += (_LZ4_SIZE.pack(size), block)
    parts.append(_LZ4_SIZE.pack(0))
    return b"".join(parts)


def _lz4_fast_blocks(view: memoryview) -> Iterator[tuple[int, Buffer]]:
    """Yield the size field and the bytes of each block."""
    for start in range(0, len(view), _LZ4_BLOCK):
        plain = view[start : start + _LZ4_BLOCK]
        packed = memoryview(cramjam.lz4.compress_block(plain, store_size=False))
        yield (len(packed), packed) if len(packed) < len(plain) else (len(plain) | _LZ4_STORED, plain)


def _lz4_slow_blocks(data: Buffer, level: int | None) -> Iterator[tuple[int, Buffer]]:
    """Yield the size field and the bytes of each block, without the block's checksum.

    The library offers compression levels only for whole frames, and adds a checksum to each block of a frame.
    """
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    frame = memoryview(compressor.finish())
    for at, size in _lz4_blocks(frame, len(_LZ4_HEADER), _LZ4_BLOCK, 4)[0]:
        yield size, frame[at : at + (size & ~_LZ4_STORED)]


def _lz4_decompress(data: Buffer, max_bytes: int) -> Buffer:
    view = memoryview(data)
    largest = _LZ4_PLAIN_HEADERS.get(bytes(view[: len(_LZ4_HEADER)]))
    if largest is not None:
        blocks, end, bound = _lz4_blocks(view, len(_LZ4_HEADER), largest, 0)
        if end == len(view):
            return _lz4_plain_frame(view, blocks, largest, min(bound, max_bytes + largest), max_bytes)
    return _lz4_frames(view, max_bytes)


def _lz4_plain_frame(view: memoryview, blocks: list[tuple[int, int]], largest: int, bound: int, max_bytes: int) -> Buffer:
    """Decompress the blocks of a frame with a header of _LZ4_PLAIN_HEADERS. The library's frames take twice as long for a small one."""
    if len(blocks) == 1 and largest == _LZ4_BLOCK:
        # To make and shrink a buffer of this size takes longer than to decompress a small block.
        try:
            scratch = _lz4_scratch.pop()
        except IndexError:
            scratch = bytearray(_LZ4_BLOCK)
        whole = bytes(memoryview(scratch)[: _lz4_blocks_into(scratch, view, blocks, largest, max_bytes)])
        _lz4_scratch.append(scratch)
        return whole
    output = bytearray(bound)
    del output[_lz4_blocks_into(output, view, blocks, largest, max_bytes) :]
    return output


def _lz4_blocks_into(output: bytearray, view: memoryview, blocks: list[tuple[int, int]], largest: int, max_bytes: int) -> int:
    """Decompress blocks one after the other, and return the size of all. Raises DecompressionError beyond max_bytes."""
    done = 0
    with memoryview(output) as target:
        for at, size in blocks:
            if size & _LZ4_STORED:
                stored = size ^ _LZ4_STORED
                target[done : done + stored] = view[at : at + stored]
                done += stored
            else:
                done += _unpack_into(cramjam.lz4.decompress_block_into, view[at : at + size], target[done : done + largest])
            if done > max_bytes:
                raise _too_large(Codec.LZ4, view, max_bytes)
    return done


def _lz4_frames(view: memoryview, max_bytes: int) -> bytearray:
    """Decompress frames of any kind. The library verifies their checksums."""
    output = bytearray()
    at = 0
    while at < len(view) or not at:
        end, bound = _lz4_extent(view, at)
        part = bytearray(min(bound, max_bytes - len(output) + 1))
        try:
            size = cramjam.lz4.decompress_into(view[at:end], part)
        except cramjam.DecompressionError as error:
            if bound > len(part) and "write" in str(error):
                raise _too_large(Codec.LZ4, view, max_bytes) from error
            raise
        if len(output) + size > max_bytes:
            raise _too_large(Codec.LZ4, view, max_bytes)
        del part[size:]
        output += part
        at = end
    return output


def _lz4_extent(view: memoryview, at: int) -> tuple[int, int]:
    """Return where the frame at a position ends, and the maximum number of bytes to which it decompresses. Reads only headers."""
    if len(view) - at < len(_LZ4_HEADER):
        raise EOFError("the frame is cut short")
    if view[at : at + LZ4_FLAGS_AT] != _LZ4_MAGIC:
        raise EOFError(f"no frame begins at byte {at}")
    flags, sizes = view[at + LZ4_FLAGS_AT : at + LZ4_FLAGS_AT + 2]
    code = sizes >> 4 & 7
    if flags & _LZ4_DICTIONARY or code < 4:
        raise EOFError("the frame needs a dictionary, or has blocks of an unknown size")
    largest = 1 << (8 + 2 * code)
    start = at + len(_LZ4_HEADER) + (8 if flags & LZ4_HAS_CONTENT_SIZE else 0)
    _, end, bound = _lz4_blocks(view, start, largest, 4 if flags & _LZ4_BLOCK_CHECKSUM else 0)
    end += 4 if flags & _LZ4_CONTENT_CHECKSUM else 0
    if end > len(view):
        raise EOFError("the frame is cut short")
    return end, bound


def _lz4_blocks(view: memoryview, at: int, largest: int, checksum_bytes: int) -> tuple[list[tuple[int, int]], int, int]:
    """Return (position and size field) of each block of a frame, the position after the end mark, and the most decompressed bytes.

    at: the position of the first block's size field. checksum_bytes: the size of the checksum after each block; 0 for none.
    """
    blocks: list[tuple[int, int]] = []
    bound = 0
    while True:
        if at + 4 > len(view):
            raise EOFError("the frame is cut short")
        (size,) = _LZ4_SIZE.unpack_from(view, at)
        at += 4
        if not size:
            return blocks, at, bound
        length = size & ~_LZ4_STORED
        if length > min(largest, len(view) - at):
            raise EOFError(f"a block of {length} bytes where {len(view) - at} remain, and {largest} are the most")
        blocks.append((at, size))
        bound += length if size & _LZ4_STORED else min(largest, _LZ4_BEST_RATIO * length)
        at += length + checksum_bytes


# --- zstd ---------------------------------------------------------------------------------------------------------------------------

# The window takes memory in addition to the output. A frame may announce a large window, as the highest levels do, if its contents are
# too small to fill it.
_ZSTD_MAX_WINDOW_LOG = 23
_ZSTD_LARGEST_WINDOW_LOG = 27
_ZSTD_MAX_WINDOW = 1 << _ZSTD_MAX_WINDOW_LOG
_ZSTD_HEAD = struct.Struct("<4sB")
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_ONE_SEGMENT, _ZSTD_CHECKSUM = 0x20, 0x04
_ZSTD_HEADER_BYTES = tuple(
    5 + (0 if flags & _ZSTD_ONE_SEGMENT else 1) + (0, 1, 2, 4)[flags & 3] + (flags >> 5 & 1, 2, 4, 8)[flags >> 6] for flags in range(256)
)
"""The size of a frame's header by its flags: magic, flags, window unless there is one segment, dictionary, size of the contents."""
_ZSTD_BLOCK = 128 * 1024
_RAW, _RLE = 0, 1


def _zstd_compress(data: Buffer, level: int | None) -> bytes:
    level = 3 if level is None else level
    idle = _packers.setdefault(level, [])
    packer = _idle_or_new(idle, partial(zstd.Packer, level))
    packed = packer.compress(data)
    idle.append(packer)
    return packed


def _zstd_decompress(data: Buffer, max_bytes: int) -> bytes:
    output = _Output(Codec.ZSTD, data, max_bytes)
    for frame, bound, is_one_segment in _zstd_frames(memoryview(data)):
        # The window of a frame of one segment is as large as what it decompresses to.
        small = bound <= _ZSTD_MAX_WINDOW or (is_one_segment and bound <= output.left)
        window_log = _ZSTD_LARGEST_WINDOW_LOG if small else _ZSTD_MAX_WINDOW_LOG
        idle = _unpackers.setdefault(window_log, [])
        unpacker = _idle_or_new(idle, partial(zstd.Unpacker, window_log))
        # add() copies the output of several frames into one buffer, so a single large part would only take more memory.
        at_once = output.left if len(frame) == len(data) else output.step
        for part in unpacker.parts(frame, bound, at_once):
            output.add(part)
        idle.append(unpacker)
    return output.joined()


def _zstd_frames(view: memoryview) -> Iterator[tuple[memoryview, int, bool]]:
    """Yield each zstd frame in `view`, the maximum number of bytes to which it decompresses, and whether it is one segment.

    Reads only headers. A frame need not announce its decompressed size; the headers of its blocks show the maximum.
    """
    start = 0
    while start < len(view) or not start:
        magic, flags = _ZSTD_HEAD.unpack_from(view, start)
        if magic != _ZSTD_MAGIC:
            raise EOFError(f"no frame begins at byte {start}")
        at, bound = _zstd_blocks(view, start + _ZSTD_HEADER_BYTES[flags])
        at += 4 if flags & _ZSTD_CHECKSUM else 0
        if at > len(view):
            raise EOFError("the frame is cut short")
        yield view[start:at], bound, bool(flags & _ZSTD_ONE_SEGMENT)
        start = at


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


# By level, and by window. A context is expensive to create and must not be shared while in use; popping from a list is atomic.
_packers: dict[int, list[zstd.Packer]] = {}
_unpackers: dict[int, list[zstd.Unpacker]] = {}


def _idle_or_new(idle: list[T], make: Callable[[], T]) -> T:
    try:
        return idle.pop()
    except IndexError:
        return make()


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
