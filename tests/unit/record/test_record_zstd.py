"""zstd with each of the two libraries: the package zstandard, and that of the standard library."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
from collections.abc import Iterator
from random import Random
from types import ModuleType
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from bomb_cases import zstd_of
from levada.errors import DecompressionError
from levada.record import compression, zstd_package, zstd_standard
from levada.record.compression import DEFAULT_MAX_DECOMPRESSED, Codec, compress, decompress

MEGABYTE = 1024 * 1024
SKIPPABLE = struct.pack("<II", 0x184D2A50, 4) + b"skip"


@pytest.fixture(scope="module", params=[zstd_package, zstd_standard], ids=["zstandard", "standard library"], autouse=True)
def library(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compression, "zstd", request.param)
        patch.setattr(compression, "_packers", {})
        patch.setattr(compression, "_unpackers", {})
        yield request.param


@given(data=st.binary(max_size=300), copies=st.integers(1, 1000), level=st.sampled_from((None, -131072, -1, 1, 3, 9, 19, 22)))
def test_Z1_what_is_compressed_comes_back(data: bytes, copies: int, level: int | None) -> None:
    packed = compress(Codec.ZSTD, memoryview(bytearray(data * copies)), level)

    assert zstandard.decompress(packed) == data * copies
    assert decompress(Codec.ZSTD, memoryview(bytearray(packed)), len(data) * copies) == data * copies


@pytest.mark.parametrize("size", [0, 1, 32 * 1024, 128 * 1024 + 1, MEGABYTE, 3 * MEGABYTE])
def test_Z7_sizes_around_the_block_sizes(size: int) -> None:
    for data in (os.urandom(size), bytes(size)):
        packed = compress(Codec.ZSTD, data)
        assert decompress(Codec.ZSTD, packed, size) == data
        if size:
            with pytest.raises(DecompressionError, match="limit"):
                decompress(Codec.ZSTD, packed, size - 1)


def test_Z5_zstd_frames_need_not_tell_their_size() -> None:
    packer = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True)
    frames = [packer.compress(b"one " * 1000), packer.compress(b""), packer.compress(b"two")]

    assert [decompress(Codec.ZSTD, frame) for frame in frames] == [b"one " * 1000, b"", b"two"]
    assert decompress(Codec.ZSTD, b"".join(frames)) == b"one " * 1000 + b"two"


def test_Z5_zstd_as_a_stream_writes_it() -> None:
    data = os.urandom(MEGABYTE) + bytes(MEGABYTE)
    target = io.BytesIO()
    with zstandard.ZstdCompressor().stream_writer(target, closefd=False) as writer:
        for start in range(0, len(data), 10_000):
            writer.write(data[start : start + 10_000])

    assert decompress(Codec.ZSTD, target.getvalue()) == data


def test_Z6_the_limit_counts_all_frames() -> None:
    packed = bytes(compress(Codec.ZSTD, bytes(60_000))) * 2

    with pytest.raises(DecompressionError, match="limit"):
        decompress(Codec.ZSTD, packed, 119_999)
    assert decompress(Codec.ZSTD, packed, 120_000) == bytes(120_000)


@pytest.mark.parametrize("options", [{}, {"write_checksum": True}, {"write_content_size": False}])
def test_Z6_a_frame_that_is_cut_short_or_damaged_is_corrupt(options: dict[str, Any]) -> None:
    # Always the same data: with others, the last byte of the frame may be the zero that is appended below.
    packed = zstandard.ZstdCompressor(**options).compress(Random(1).randbytes(50) + bytes(50))
    for length in range(len(packed)):
        with pytest.raises(DecompressionError, match="zstd: "):
            decompress(Codec.ZSTD, packed[:length])
        with pytest.raises(DecompressionError, match="zstd: "):
            decompress(Codec.ZSTD, packed + packed[:length] + b"\0")


@given(position=st.integers(0), value=st.integers(0, 255), size=st.integers(0, 400))
def test_Z6_a_damaged_frame_fails_only_as_decompression_error(position: int, value: int, size: int) -> None:
    packed = bytearray(compress(Codec.ZSTD, os.urandom(size) + bytes(size)))
    packed[position % len(packed)] = value

    try:
        assert len(decompress(Codec.ZSTD, packed)) <= DEFAULT_MAX_DECOMPRESSED
    except DecompressionError as error:
        assert str(error).startswith("zstd: ")


@given(data=st.binary(max_size=200))
def test_Z6_any_blocks_decompress_or_fail_as_decompression_error(data: bytes) -> None:
    try:
        decompress(Codec.ZSTD, b"\x28\xb5\x2f\xfd" + data)
    except DecompressionError as error:
        assert str(error).startswith("zstd: ")


def test_Z6_skippable_frames_are_corruption() -> None:
    frame = bytes(compress(Codec.ZSTD, b"records"))
    for data in (SKIPPABLE, SKIPPABLE + frame, frame + SKIPPABLE):
        with pytest.raises(DecompressionError, match="no frame begins at byte"):
            decompress(Codec.ZSTD, data)


@pytest.mark.parametrize("announced", [None, 300 * MEGABYTE, 2**40])
def test_M_C9_a_zstd_bomb_takes_no_more_than_the_limit(announced: int | None) -> None:
    tracemalloc.start()
    with pytest.raises(DecompressionError):
        decompress(Codec.ZSTD, zstd_of(2400, content_size=announced), 2 * MEGABYTE)
    assert tracemalloc.get_traced_memory()[1] < 8 * MEGABYTE
    tracemalloc.stop()


def test_M_C9_memory_follows_the_data_where_many_small_frames_are_in_a_row() -> None:
    frames = bytes(compress(Codec.ZSTD, b"x")) * 20_000
    tracemalloc.start()
    assert decompress(Codec.ZSTD, frames) == b"x" * 20_000
    assert tracemalloc.get_traced_memory()[1] < MEGABYTE
    tracemalloc.stop()


def test_M_C9_a_zstd_frame_that_lies_about_its_size() -> None:
    honest = zstandard.ZstdCompressor(write_content_size=True).compress(bytes(300))
    assert honest[4] >> 6 == 1
    lying = honest[:5] + struct.pack("<H", 60_000) + honest[7:]

    with pytest.raises(DecompressionError):
        decompress(Codec.ZSTD, lying)


def zstd_with_window(data: bytes, window_log: int) -> bytes:
    parameters = zstandard.ZstdCompressionParameters(window_log=window_log)
    frame = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return frame.compress(data) + frame.flush()


def test_M_C9_a_zstd_window_beyond_8_mib_is_refused_where_it_could_be_filled() -> None:
    with pytest.raises(DecompressionError, match="memory"):
        decompress(Codec.ZSTD, zstd_with_window(bytes(9 * MEGABYTE), 27))
    with pytest.raises(DecompressionError, match="memory"):
        decompress(Codec.ZSTD, zstd_with_window(b"x", 28))


def test_the_windows_of_the_highest_zstd_levels_are_read() -> None:
    assert decompress(Codec.ZSTD, zstd_with_window(b"x" * 100_000, 27)) == b"x" * 100_000


def test_a_zstd_frame_larger_than_any_window_is_read() -> None:
    data = bytes(9 * MEGABYTE)

    for level in (3, 22):
        assert decompress(Codec.ZSTD, compress(Codec.ZSTD, data, level)) == data
