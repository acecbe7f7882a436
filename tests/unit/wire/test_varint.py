from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.errors import ProtocolError, TruncatedError
from levada.wire.varint import (
    decode_uvarint,
    decode_uvarlong,
    decode_varint,
    decode_varlong,
    encode_uvarint,
    encode_varint,
    uvarint_size,
    varint_size,
)

SIGNED = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (2, "04"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    ((1 << 31) - 1, "feffffff0f"),
    (-(1 << 31), "ffffffff0f"),
    ((1 << 63) - 1, "fe" + "ff" * 8 + "01"),
    (-(1 << 63), "ff" * 9 + "01"),
]


@pytest.mark.parametrize(("value", "text"), SIGNED)
def test_W6_signed_varints_fold_the_sign_into_the_lowest_bit(value: int, text: str) -> None:
    data = bytes.fromhex(text)

    assert encode_varint(value) == data
    assert decode_varlong(b"\xaa" + data, 1) == (value, 1 + len(data))
    assert varint_size(value) == len(data)


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_W6_every_32_bit_number_comes_back(value: int) -> None:
    assert decode_varint(encode_varint(value), 0) == (value, varint_size(value))


@given(st.integers(0, (1 << 64) - 1))
def test_W5_every_unsigned_64_bit_number_comes_back(value: int) -> None:
    data = encode_uvarint(value)

    assert decode_uvarlong(memoryview(data), 0) == (value, len(data))
    assert uvarint_size(value) == len(data)


@pytest.mark.parametrize(("value", "text"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), ((1 << 32) - 1, "ffffffff0f")])
def test_W5_unsigned_varints_hold_the_lowest_bits_first(value: int, text: str) -> None:
    assert encode_uvarint(value) == bytes.fromhex(text)
    assert decode_uvarint(bytes.fromhex(text), 0) == (value, len(text) // 2)


def test_W5_more_than_5_bytes_are_no_32_bit_varint() -> None:
    with pytest.raises(ProtocolError, match="longer than 5 bytes"):
        decode_uvarint(b"\x80" * 5 + b"\x00", 0)


def test_W5_more_than_10_bytes_are_no_64_bit_varint() -> None:
    with pytest.raises(ProtocolError, match="longer than 10 bytes"):
        decode_uvarlong(b"\x80" * 10 + b"\x00", 0)


@pytest.mark.parametrize(("decode", "data"), [(decode_uvarint, b"\xff\xff\xff\xff\x10"), (decode_uvarlong, b"\xff" * 9 + b"\x02")])
def test_W5_bits_beyond_the_width_are_refused(decode: object, data: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"more than (32|64) bits"):
        decode(data, 0)  # type: ignore[operator]


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff"])
def test_W5_a_varint_that_is_cut_off_is_truncated(data: bytes) -> None:
    with pytest.raises(TruncatedError):
        decode_uvarint(data, 0)


@pytest.mark.parametrize("value", [-1, 1 << 64])
def test_W5_what_does_not_fit_is_not_written(value: int) -> None:
    with pytest.raises(ProtocolError, match="does not fit"):
        encode_uvarint(value)
