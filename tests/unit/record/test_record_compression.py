from __future__ import annotations

import gzip
import os
import struct
import tracemalloc
from itertools import product
from random import Random
from typing import Any

import cramjam
import lz4.frame
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hardening_kit import cost_of, needs_peak_memory
from levada.errors import ConfigError, DecompressionError
from levada.record.compression import DEFAULT_MAX_DECOMPRESSED, Codec, compress, decompress
from levada.record.legacy.lz4 import mend_frame

PACKED = [codec for codec in Codec if codec]
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
MEGABYTE = 1024 * 1024


@pytest.mark.parametrize("codec", Codec)
@given(data=st.binary(max_size=300), copies=st.integers(1, 1000))
def test_Z1_what_is_compressed_comes_back(codec: Codec, data: bytes, copies: int) -> None:
    packed = compress(codec, memoryview(data * copies))

    assert bytes(decompress(codec, memoryview(bytearray(packed)))) == data * copies


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("size", [0, 1, 32 * 1024, 32 * 1024 + 1, 3 * MEGABYTE])
def test_Z7_sizes_around_the_block_sizes(codec: Codec, size: int) -> None:
    for data in (os.urandom(size), bytes(size)):
        assert bytes(decompress(codec, compress(codec, data), len(data))) == data


def test_codecs_are_parsed_by_name() -> None:
    assert [Codec.parse(name) for name in ("none", "gzip", "snappy", "lz4", "ZSTD")] == list(Codec)
    with pytest.raises(ConfigError, match="unknown compression codec 'brotli'; there are: none, gzip, snappy, lz4, zstd"):
        Codec.parse("brotli")


@pytest.mark.parametrize(("codec", "low", "high"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 1, 12), (Codec.ZSTD, -10, 19)])
def test_KIP_390_a_level_changes_the_size(codec: Codec, low: int, high: int) -> None:
    data = b"".join(b'{"id": %d, "carrier": "UA", "delay": %d}' % (row, row * 7919 % 60) for row in range(5000))

    packed = [compress(codec, data, level) for level in (low, high)]

    assert len(packed[1]) < len(packed[0])
    assert all(decompress(codec, each) == data for each in packed)


def test_KIP_390_the_default_lz4_level_is_the_fast_compressor() -> None:
    data = os.urandom(1000) * 20

    assert compress(Codec.LZ4, data) == compress(Codec.LZ4, data, 9) == compress(Codec.LZ4, data, None)


# --- what others write ---------------------------------------------------------------------------------------------------------------


def test_Z5_several_gzip_members_are_one_stream() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two")) == b"one two"


def test_Z2_snappy_is_written_as_xerial_chunks() -> None:
    packed = bytes(compress(Codec.SNAPPY, bytes(70_000)))

    assert packed.startswith(XERIAL)
    sizes, at = [], len(XERIAL)
    while at < len(packed):
        (length,) = struct.unpack_from(">i", packed, at)
        sizes.append(len(bytes(cramjam.snappy.decompress_raw(packed[at + 4 : at + 4 + length]))))
        at += 4 + length
    assert sizes == [32768, 32768, 4464]


def test_Z2_a_bare_snappy_block_is_read() -> None:
    data = os.urandom(100) * 50

    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


def test_Z2_chunks_of_any_size_are_read() -> None:
    blocks = [bytes(cramjam.snappy.compress_raw(data)) for data in (b"a" * 100_000, b"", b"b")]

    packed = XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in blocks)

    assert decompress(Codec.SNAPPY, packed) == b"a" * 100_000 + b"b"


def test_Z3_lz4_frames_are_what_java_reads() -> None:
    packed = bytes(compress(Codec.LZ4, os.urandom(1000) * 200))

    assert packed.startswith(b"\x04\x22\x4d\x18")
    # Version 01, independent blocks, no block checksums, content size, content checksum or dictionary; blocks of 64 KiB.
    assert packed[4:6] == b"\x60\x40"
    assert packed.endswith(bytes(4))


LZ4_OPTIONS: list[dict[str, Any]] = [
    {"block_size": size, "block_linked": linked, "block_checksum": of_blocks, "content_checksum": of_content, "store_size": announced}
    for size in (lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX256KB, lz4.frame.BLOCKSIZE_MAX1MB, lz4.frame.BLOCKSIZE_MAX4MB)
    for linked, of_blocks, of_content, announced in product((False, True), repeat=4)
]


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 300_000, 5_000_000])
def test_lz4_frames_of_every_kind_are_read_up_to_the_limit(size: int) -> None:
    random = Random(size)
    data = (random.randbytes(size // 3) + b"abc" * size)[:size]
    for options in LZ4_OPTIONS if size < 1_000_000 else LZ4_OPTIONS[::5]:
        frame = lz4.frame.compress(data, **options)
        assert decompress(Codec.LZ4, frame, size) == data, options
        if size:
            with pytest.raises(DecompressionError):
                decompress(Codec.LZ4, frame, size - 1)
            with pytest.raises(DecompressionError):
                decompress(Codec.LZ4, frame[:-1], size)


@pytest.mark.parametrize("level", [None, 1, 9, 12, 17])
@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 300_000])
def test_Z3_what_is_compressed_with_lz4_has_the_header_of_javas_writer(level: int | None, size: int) -> None:
    random = Random(size)
    data = (random.randbytes(size // 2) + b"abc" * size)[:size]
    frame = bytes(compress(Codec.LZ4, data, level))
    assert frame.startswith(b"\x04\x22\x4d\x18\x60\x40\x82")
    assert lz4.frame.decompress(frame) == data == decompress(Codec.LZ4, frame)


def test_lz4_memory_and_time_follow_the_data_and_not_what_a_frame_announces() -> None:
    one = struct.pack("<I", 1 | 1 << 31) + b"x"
    hostile = b"\x04\x22\x4d\x18\x60\x70\x73" + one * 17 + bytes(4)  # 17 blocks of up to 4 MiB
    tracemalloc.start()
    assert bytes(decompress(Codec.LZ4, hostile)) == b"x" * 17
    assert tracemalloc.get_traced_memory()[1] < 10_000
    frames = bytes(compress(Codec.LZ4, bytes(4096))) * 2_000
    assert len(decompress(Codec.LZ4, frames)) == 4096 * 2_000
    assert tracemalloc.get_traced_memory()[1] < 30_000_000
    tracemalloc.stop()


def test_an_lz4_frame_of_ten_thousand_small_blocks_takes_no_more_than_the_limit() -> None:
    one = bytes(compress(Codec.LZ4, b"x"))
    frame = one[:7] + one[7:-4] * 10_000 + one[-4:]
    tracemalloc.start()
    assert decompress(Codec.LZ4, frame, 100_000) == b"x" * 10_000
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


def test_lz4_frames_in_a_row_are_one_stream() -> None:
    assert decompress(Codec.LZ4, lz4.frame.compress(b"one ") + lz4.frame.compress(b"two")) == b"one two"


# --- invalid data --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", PACKED)
@given(size=st.integers(0, 5000), lost=st.integers(1, 40))
@example(size=0, lost=5)
def test_Z6_a_stream_that_is_cut_short_is_corrupt(codec: Codec, size: int, lost: int) -> None:
    packed = bytes(compress(codec, os.urandom(size)))
    kept = packed[: max(0, len(packed) - lost)]
    # A xerial stream has no end mark: what is left between two chunks is whole.
    assume(kept != XERIAL)

    with pytest.raises(DecompressionError, match=f"^{codec.name.lower()}: "):
        decompress(codec, kept)


def test_Z7_a_xerial_stream_without_chunks_is_empty() -> None:
    assert decompress(Codec.SNAPPY, XERIAL) == b""


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("garbage", [b"\0", b"x", b"garbage behind the end", bytes(100)])
def test_Z6_bytes_behind_the_stream_are_corruption(codec: Codec, garbage: bytes) -> None:
    with pytest.raises(DecompressionError):
        decompress(codec, bytes(compress(codec, b"records")) + garbage)


@pytest.mark.parametrize("codec", PACKED)
@given(data=st.binary(max_size=200))
def test_Z6_any_bytes_decompress_or_fail_as_decompression_error(codec: Codec, data: bytes) -> None:
    try:
        decompress(codec, data)
    except DecompressionError as error:
        assert codec.name.lower() in str(error)


@pytest.mark.parametrize("codec", PACKED)
@given(position=st.integers(0), value=st.integers(0, 255), size=st.integers(0, 400))
def test_Z6_a_damaged_stream_fails_only_as_decompression_error(codec: Codec, position: int, value: int, size: int) -> None:
    packed = bytearray(compress(codec, os.urandom(size) + bytes(size)))
    packed[position % len(packed)] = value

    try:
        assert len(decompress(codec, packed)) <= DEFAULT_MAX_DECOMPRESSED
    except DecompressionError as error:
        assert codec.name.lower() in str(error)


@pytest.mark.parametrize("codec", PACKED)
def test_Z6_the_limit_is_exact(codec: Codec) -> None:
    packed = compress(codec, bytes(100_000))

    assert len(decompress(codec, packed, 100_000)) == 100_000
    with pytest.raises(DecompressionError, match="more than the limit of 99999 bytes"):
        decompress(codec, packed, 99_999)


@pytest.mark.parametrize("codec", PACKED)
def test_Z6_the_limit_counts_all_parts_of_a_stream(codec: Codec) -> None:
    if codec is Codec.SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(bytes(60_000)))
        packed = XERIAL + (struct.pack(">i", len(block)) + block) * 2
    else:
        packed = bytes(compress(codec, bytes(60_000))) * 2

    with pytest.raises(DecompressionError, match="limit"):
        decompress(codec, packed, 100_000)
    assert len(decompress(codec, packed, 120_000)) == 120_000


@pytest.mark.parametrize("length", [-1, 0, 2**31 - 1, -(2**31), 100])
def test_M_C9_xerial_chunk_lengths_that_lie(length: int) -> None:
    with pytest.raises(DecompressionError, match=f"a xerial chunk of {length} bytes where 5 remain"):
        decompress(Codec.SNAPPY, XERIAL + struct.pack(">i", length) + b"abcde")


@pytest.mark.parametrize("announced", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x01"])
def test_M_C9_a_snappy_block_that_announces_gigabytes_takes_no_memory(announced: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(DecompressionError):
        decompress(Codec.SNAPPY, announced + b"abc", max_bytes=2**40)
    assert tracemalloc.get_traced_memory()[1] < MEGABYTE
    tracemalloc.stop()


@pytest.mark.parametrize("announced", [2**40, 2**63])
def test_M_C9_an_lz4_frame_that_announces_terabytes_takes_no_memory(announced: int) -> None:
    honest = lz4.frame.compress(b"abc" * 100, store_size=True)
    lying = mend_frame(honest[:6] + struct.pack("<Q", announced) + honest[14:])
    tracemalloc.start()
    with pytest.raises(DecompressionError):
        decompress(Codec.LZ4, lying)
    assert tracemalloc.get_traced_memory()[1] < 2 * MEGABYTE
    tracemalloc.stop()


@pytest.mark.parametrize(("codec", "levels"), [(Codec.GZIP, (-1, 1, 9)), (Codec.LZ4, (1, 9, 17)), (Codec.ZSTD, (-131072, -1, 22))])
def test_KIP_390_every_level_is_taken(codec: Codec, levels: tuple[int, ...]) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, b"level" * 1000, level)) == b"level" * 1000


@needs_peak_memory
@pytest.mark.parametrize("codec", PACKED)
def test_M_C9_a_bomb_stops_at_the_limit(codec: Codec) -> None:
    cost = cost_of("bomb_cases:large_bomb", int(codec))

    assert "more than the limit of 67108864 bytes" in cost.outcome
    assert cost.grown_mib <= 80
