"""Glue's wire format. The vectors were written by Java's schema-registry-serde 1.1.24."""

from __future__ import annotations

import tracemalloc
import zlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.errors import SerializationError
from levada.registry.glue.wire_format import HEADER_SIZE, after_message_number, is_of_glue, packed, unpacked, version_id_of
from levada.registry.wire_format import header, uvarint

ID = UUID("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63")
JSON = '{"item":"äpple","price":3}'.encode()
PLAIN = bytes.fromhex("0300b7b4a7f09c964e4aa687fb5de9ef0c637b226974656d223a22c3a470706c65222c227072696365223a337d")
ZLIB = bytes.fromhex("0305b7b4a7f09c964e4aa687fb5de9ef0c63789cab56ca2c49cd55b2523abca4a02027554947a9a028333955c9cab8160088b80972")


def test_plain_data_are_those_of_java() -> None:
    assert packed(ID, JSON, compress=False) == PLAIN
    assert version_id_of(PLAIN) == ID.bytes
    assert unpacked(PLAIN) == JSON


def test_compressed_data_are_read_from_java_and_written_with_the_same_header() -> None:
    assert unpacked(ZLIB) == JSON
    written = packed(ID, JSON, compress=True)
    assert written[:HEADER_SIZE] == ZLIB[:HEADER_SIZE]
    assert zlib.decompress(written[HEADER_SIZE:]) == JSON, "another zlib may compress to other bytes"


@given(st.binary(max_size=200), st.uuids(), st.booleans())
def test_what_was_written_is_read(data: bytes, version_id: UUID, compress: bool) -> None:
    written = packed(version_id, data, compress=compress)
    assert is_of_glue(written)
    assert (version_id_of(written), unpacked(written)) == (version_id.bytes, data)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "its length is 0, too short for Glue's header of 18"),
        (PLAIN[: HEADER_SIZE - 1], "its length is 17, too short for Glue's header of 18"),
        (b"{" * HEADER_SIZE, "it begins with b'{{', not with the byte 3: was it written by a serializer of Glue?"),
        (header(1) + JSON, "was it written by Confluent's serializer? Read it with AvroDeserializer, "),
        (b"\x01" + ID.bytes + JSON, "was it written by Confluent's serializer?"),
        (header(1), "make one of them the secondary_deserializer"),
    ],
)
def test_foreign_data_are_refused_with_what_they_may_be(data: bytes, says: str) -> None:
    with pytest.raises(SerializationError) as caught:
        version_id_of(data)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (PLAIN[:1] + b"\x07" + PLAIN[2:], r"compression 7 is unknown: Glue has 0 \(none\) and 5 \(zlib\)"),
        (ZLIB[:-1], "the compressed data are not complete"),
        (ZLIB[:HEADER_SIZE], "the compressed data are not complete"),
        (ZLIB + b"x", "other bytes follow the compressed data"),
        (ZLIB[:-1] + b"x", "cannot be decompressed: Error -3"),
        (ZLIB[:HEADER_SIZE] + JSON, "cannot be decompressed: Error -3"),
    ],
)
def test_damaged_data_are_refused(data: bytes, says: str) -> None:
    with pytest.raises(SerializationError, match=says):
        unpacked(data)


def test_the_limit_of_decompressed_data_is_exact() -> None:
    written = packed(ID, bytes(1000), compress=True)
    assert unpacked(written, limit=1000) == bytes(1000)
    with pytest.raises(SerializationError, match=f"{len(written)} bytes decompress to more than the limit of 999 bytes"):
        unpacked(written, limit=999)


def test_a_bomb_costs_no_more_memory_than_the_limit_allows() -> None:
    limit, bomb = 1 << 20, packed(ID, bytes(64 << 20), compress=True)
    assert len(bomb) < limit
    tracemalloc.start()
    try:
        with pytest.raises(SerializationError, match="more than the limit"):
            unpacked(bomb, limit)
        assert tracemalloc.get_traced_memory()[1] < 4 * limit
    finally:
        tracemalloc.stop()


def test_message_numbers_are_varints_without_a_sign() -> None:
    """As Java's CodedOutputStream.writeUInt32NoTag."""
    written = [b"\x00", b"\x01", b"\x7f", b"\x80\x01", b"\xac\x02"]
    assert [uvarint(number) for number in (0, 1, 127, 128, 300)] == written
    assert [after_message_number(number + b"data") for number in written] == [b"data"] * 5


@given(st.integers(0, (1 << 32) - 1), st.binary(max_size=5))
def test_the_data_after_a_message_number_are_found(number: int, data: bytes) -> None:
    assert after_message_number(uvarint(number) + data) == data


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 5 + b"\x01"])
def test_data_without_a_message_number_are_refused(data: bytes) -> None:
    with pytest.raises(SerializationError, match="do not begin with the number of a message type"):
        after_message_number(data)
