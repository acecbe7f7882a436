"""Confluent's wire format, byte by byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.errors import SerializationError
from levada.registry.wire_format import header, message_path, read_message_path, schema_id_of


def test_an_id_is_four_bytes_after_a_zero() -> None:
    assert header(1) == b"\x00\x00\x00\x00\x01"
    assert header(0x01020304) == b"\x00\x01\x02\x03\x04"
    assert schema_id_of(b"\x00\x00\x00\x01\x00rest") == 256


@pytest.mark.parametrize(("data", "says"), [(b"", "too short"), (b"\x00\x00\x00\x01", "too short"), (b'{"a": 1}', "was it written by")])
def test_other_bytes_are_refused(data: bytes, says: str) -> None:
    with pytest.raises(SerializationError, match=says):
        schema_id_of(data)


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ((0,), b"\x00"),
        ((1,), b"\x02\x02"),
        ((0, 0), b"\x04\x00\x00"),
        ((1, 0), b"\x04\x02\x00"),
        ((2, 64), b"\x04\x04\x80\x01"),
    ],
)
def test_a_path_to_a_message_is_its_length_and_indexes_as_zigzag(path: tuple[int, ...], written: bytes) -> None:
    assert message_path(path) == written
    assert read_message_path(b"head" + written + b"tail", 4) == (path, 4 + len(written))


def test_the_long_form_of_the_first_message_is_read_too() -> None:
    assert read_message_path(b"\x02\x00", 0) == ((0,), 2)


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20))
def test_every_path_comes_back(path: list[int]) -> None:
    written = message_path(path)
    assert read_message_path(written, 0) == (tuple(path), len(written))


@pytest.mark.parametrize("data", [b"", b"\x04\x00", b"\x80", b"\xff\xff\xff\xff\xff\x01", b"\x01", b"\xfe\xff\x03"])
def test_a_damaged_path_is_refused(data: bytes) -> None:
    with pytest.raises(SerializationError):
        read_message_path(data, 0)
