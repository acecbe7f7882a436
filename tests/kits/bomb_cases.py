"""Decompression bombs: 16 KiB that decompress to far more. Each Case is a generator for hardening_kit.cost_of()."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Generator
from importlib import import_module
from typing import Any

import cramjam
import lz4.frame

from levada.errors import ProtocolError
from levada.record.columnar import ColumnDecoder
from levada.record.compression import Codec, compress, decompress
from levada.record.legacy.lz4 import mend_frame
from levada.record.legacy.message import write_message
from levada.record.memory_records import read_batches
from record_kit import build, forge

Case = Generator[None, None, str]
MIB = 1 << 20
BOMB_SIZE = 16 * 1024
ZEROS = bytes(MIB)


def outcome(attempt: Callable[[], Any]) -> str:
    """Call a function, and return its result, or type and text of its ProtocolError. Other errors are not caught."""
    try:
        return f"accepted {attempt()}"
    except ProtocolError as error:
        return f"{type(error).__name__}: {error}"


def gzip_of(size: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(packer.compress(ZEROS) for _ in range(size // MIB)) + packer.flush()


def zstd_of(blocks: int, *, window: int = 0x58, content_size: int | None = None) -> bytes:
    """Return a zstd frame of RLE blocks that each decompress to 128 KiB of zeros.

    window: the window descriptor; 0x58 is 2 MiB, 0x88 is 128 MiB. content_size: in the header; None for no content size.
    """
    head = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (128 * 1024 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    announced = b"" if content_size is None else struct.pack("<Q", content_size)
    descriptor = 0xC0 if announced else 0
    return b"\x28\xb5\x2f\xfd" + bytes([descriptor, window]) + announced + head * (blocks - 1) + last


def lz4_of(size: int) -> bytes:
    return bytes(lz4.frame.compress(bytes(size), block_size=lz4.frame.BLOCKSIZE_MAX4MB))


def lz4_with_content_size(announced: int) -> bytes:
    """Return an lz4 frame whose header has this content size, with a valid header checksum."""
    honest = bytes(lz4.frame.compress(bytes(3 * MIB), store_size=True, block_size=lz4.frame.BLOCKSIZE_MAX4MB))
    return bytes(mend_frame(honest[:6] + struct.pack("<Q", announced) + honest[14:]))


XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def xerial(*blocks: bytes, lengths: tuple[int, ...] = ()) -> bytes:
    sizes = lengths or tuple(len(block) for block in blocks)
    return XERIAL + b"".join(struct.pack(">i", size) + block for size, block in zip(sizes, blocks, strict=True))


def snappy_block() -> bytes:
    return bytes(cramjam.snappy.compress_raw(bytes(300_000)))


BOMBS: dict[str, tuple[Codec, Callable[[], bytes]]] = {
    "gzip, all that fits": (Codec.GZIP, lambda: gzip_of(15 * MIB)),
    "gzip, cut short": (Codec.GZIP, lambda: gzip_of(15 * MIB)[:-9]),
    "zstd, 500 MiB": (Codec.ZSTD, lambda: zstd_of(4000)),
    "zstd, exactly the limit": (Codec.ZSTD, lambda: zstd_of(512)),
    "zstd, exactly the limit in four frames": (Codec.ZSTD, lambda: zstd_of(128) * 4),
    "zstd, window of 128 MiB": (Codec.ZSTD, lambda: zstd_of(4000, window=0x88)),
    "zstd, window of 128 MiB, 8 MiB in it": (Codec.ZSTD, lambda: zstd_of(64, window=0x88)),
    "zstd, announces 1 TiB": (Codec.ZSTD, lambda: zstd_of(4000, content_size=1 << 40)),
    "zstd, announces the limit, is more": (Codec.ZSTD, lambda: zstd_of(4000, content_size=64 * MIB)),
    "zstd, announces 1 KiB, is more": (Codec.ZSTD, lambda: zstd_of(4000, content_size=1024)),
    "zstd, many frames": (Codec.ZSTD, lambda: zstd_of(1000) * 4),
    "lz4, all that fits": (Codec.LZ4, lambda: lz4_of(4_000_000)),
    "lz4, announces 1 TiB": (Codec.LZ4, lambda: lz4_with_content_size(1 << 40)),
    "lz4, no end mark": (Codec.LZ4, lambda: lz4_of(4_000_000)[:-4]),
    "snappy, block announces 4 GiB": (Codec.SNAPPY, lambda: b"\xff\xff\xff\xff\x0f" + snappy_block()),
    "snappy, block announces 64 MiB": (Codec.SNAPPY, lambda: b"\x80\x80\x80\x20" + snappy_block()),
    "snappy, chunk of negative length": (Codec.SNAPPY, lambda: xerial(snappy_block(), lengths=(-1,))),
    "snappy, chunk of 2 GiB": (Codec.SNAPPY, lambda: xerial(snappy_block(), lengths=(2**31 - 1,))),
    "gzip in zstd": (Codec.ZSTD, lambda: bytes(compress(Codec.ZSTD, gzip_of(64 * MIB)))),
}


def _bomb(name: str) -> tuple[Codec, bytes]:
    codec, make = BOMBS[name]
    data = make()
    assert len(data) <= BOMB_SIZE, f"{len(data)} bytes"
    decompress(codec, compress(codec, b"warm"))
    return codec, data


def bomb_at_the_codec(name: str) -> Case:
    codec, data = _bomb(name)
    yield
    return outcome(lambda: f"{len(decompress(codec, data))} bytes")


LARGE_MIB = 160
LARGE: dict[Codec, Callable[[], bytes]] = {
    Codec.GZIP: lambda: gzip_of(LARGE_MIB * MIB),
    Codec.SNAPPY: lambda: xerial(*[bytes(cramjam.snappy.compress_raw(ZEROS))] * LARGE_MIB),
    Codec.LZ4: lambda: lz4_of(LARGE_MIB * MIB),
    Codec.ZSTD: lambda: zstd_of(8 * LARGE_MIB),
}


def large_bomb(number: int) -> Case:
    """Decompress a bomb of any compressed size that exceeds every limit. number: of the codec."""
    codec = Codec(number)
    data = LARGE[codec]()
    decompress(codec, compress(codec, b"warm"))
    yield
    return outcome(lambda: len(decompress(codec, data)))


def bomb_in_a_batch(name: str) -> Case:
    """Read a bomb in a record batch like a fetched batch: as records, then as columns."""
    codec, data = _bomb(name)
    read_rows(build([(0, None, b"warm")], codec))
    read_columns(build([(0, None, b"warm")], codec))
    batch = forged(codec, data)
    yield
    return f"{outcome(lambda: read_rows(batch))}; {outcome(lambda: read_columns(batch))}"


def bomb_in_a_wrapper(magic: int, is_nested: bool) -> Case:
    """Read a gzip wrapper message (magic 0 or 1) that repeats one message, or with is_nested one wrapper, to 5 MiB in total."""
    entry = bytearray()
    inner = gzip_of(MIB) if is_nested else b""
    write_message(entry, magic, 5, 0, None, inner, codec=Codec.GZIP if is_nested else Codec.NONE)
    body = bytes(compress(Codec.GZIP, bytes(entry) * (5 * MIB // len(entry)), 9))
    wrapper = bytearray()
    write_message(wrapper, magic, 5, 0, None, body, codec=Codec.GZIP)
    assert len(wrapper) <= BOMB_SIZE, f"{len(wrapper)} bytes"
    warm = bytearray()
    write_message(warm, magic, 5, 0, None, compress(Codec.GZIP, bytes(entry)), codec=Codec.GZIP)
    outcome(lambda: read_rows(warm))
    outcome(lambda: read_columns(warm))
    yield
    return f"{outcome(lambda: read_rows(wrapper))}; {outcome(lambda: read_columns(wrapper))}"


def forged(codec: Codec, body: bytes) -> bytearray:
    """Return a sealed batch with these compressed bytes as its records."""
    return forge(body, attributes=int(codec))


def read_rows(data: bytes | bytearray) -> int:
    return sum(len(batch.records()) for batch in read_batches(data))


def read_columns(data: bytes | bytearray) -> int:
    decoder = ColumnDecoder()
    for batch in read_batches(data):
        decoder.add(batch, "t", 0)
    return int(decoder.finish().num_rows)


def bomb_at_peer(module: str, name: str) -> Case:
    """Decompress a bomb with the decoder of another client. module: the module of the decoder."""
    theirs = import_module(module)
    codec, data = _bomb(name)
    read = getattr(theirs, f"{codec.name.lower()}_decode")
    read(bytes(compress(codec, b"warm")))
    yield
    try:
        return f"{len(read(data))} bytes"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
