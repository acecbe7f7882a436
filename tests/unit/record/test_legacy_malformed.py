"""Row M-C7 of the fault matrix for message sets: what contradicts itself ends as a typed error, quickly, and without memory."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.errors import CorruptRecordError, DecompressionError, ProtocolError
from levada.record.columnar import ColumnDecoder
from levada.record.compression import Codec
from levada.record.memory_records import read_batches
from record_kit import OLD_CODECS, raw_message, raw_wrapper

BOTH = pytest.mark.parametrize("magic", [0, 1])
Reader = Callable[[bytes], object]


def as_records(data: bytes) -> list[object]:
    found: list[object] = []
    for batch in read_batches(data):
        batch.verify_crc()
        found += batch.records()
    return found


def as_columns(data: bytes) -> list[object]:
    decoder = ColumnDecoder()
    for batch in read_batches(data):
        batch.verify_crc()
        decoder.add(batch, "t", 0)
    rows: list[object] = decoder.finish().to_pylist()
    return rows


READERS = pytest.mark.parametrize("read", [as_records, as_columns])

MESSAGES = {
    "key size -2": {"fields": struct.pack(">ii", -2, -1)},
    "key size huge": {"fields": struct.pack(">ii", 2**31 - 1, -1)},
    "key beyond the message": {"fields": struct.pack(">ii", 1, 0)},
    "no room for the value's size": {"fields": struct.pack(">i", 4) + b"abcd"},
    "value size -2": {"fields": struct.pack(">ii", -1, -2)},
    "value size huge": {"fields": struct.pack(">ii", -1, 2**31 - 1)},
    "value too short": {"fields": struct.pack(">ii", -1, 0) + b"x"},
    "value too long": {"fields": struct.pack(">ii", -1, 2) + b"x"},
    "zstd": {"attributes": 4},
    "codec 5": {"attributes": 5},
    "codec 7": {"attributes": 7},
    "compressed null": {"attributes": 1, "value": None},
    "compressed nothing": {"attributes": 1, "value": b""},
    "checksum": {"crc": 1},
}
SIZES = [-(2**31), -1, 0, 13]


@READERS
@BOTH
@pytest.mark.parametrize("fields", MESSAGES.values(), ids=MESSAGES)
def test_M_C7_messages_that_contradict_themselves(fields: dict[str, Any], magic: int, read: Reader) -> None:
    with pytest.raises(CorruptRecordError, match="offset 5"):
        read(raw_message(5, magic, **fields))


@READERS
@BOTH
@pytest.mark.parametrize("codec", OLD_CODECS[1:])
@pytest.mark.parametrize("fields", MESSAGES.values(), ids=MESSAGES)
def test_M_C7_messages_that_contradict_themselves_in_a_wrapper(fields: dict[str, Any], magic: int, codec: Codec, read: Reader) -> None:
    inside = raw_message(4, magic) + raw_message(5, magic, **fields)

    with pytest.raises(CorruptRecordError, match="compressed messages up to offset 5"):
        read(raw_wrapper(5, magic, codec, inside))


@READERS
@BOTH
@pytest.mark.parametrize("size", [*SIZES, 21])
def test_M2_a_size_below_the_least_is_corrupt(magic: int, size: int, read: Reader) -> None:
    if (magic, size) == (0, 21):
        assert as_records(raw_message(0, 0, value=b"1234567")) != []
        return
    with pytest.raises(CorruptRecordError, match=f"offset 3 .* {size} bytes"):
        read(raw_message(3, magic, size=size))


@READERS
@BOTH
@pytest.mark.parametrize("size", SIZES)
def test_M2_a_size_below_the_least_is_corrupt_in_a_wrapper(magic: int, size: int, read: Reader) -> None:
    with pytest.raises(CorruptRecordError, match=f"up to offset 3: .* a size of {size} bytes"):
        read(raw_wrapper(3, magic, Codec.GZIP, raw_message(3, magic, size=size)))


@READERS
@BOTH
def test_M_C7_a_huge_size_is_a_message_that_is_not_there_yet(magic: int, read: Reader) -> None:
    assert read(raw_message(3, magic, size=2**31 - 1)) == []


@READERS
@BOTH
def test_M7_zstd_is_refused_though_it_could_be_unpacked(magic: int, read: Reader) -> None:
    with pytest.raises(CorruptRecordError, match=r"message at offset 5 .* zstd, which magic 2 introduced"):
        read(raw_wrapper(5, magic, Codec.ZSTD, raw_message(5, magic)))


@READERS
@BOTH
def test_M_C7_a_negative_offset_is_corrupt(magic: int, read: Reader) -> None:
    with pytest.raises(CorruptRecordError, match=r"offset -1 .*negative"):
        read(raw_message(-1, magic))


INSIDES = {
    "nothing": (lambda magic: b"", "there are none"),
    "a message cut short": (lambda magic: raw_message(0, magic) + raw_message(1, magic)[:-1], "bytes where .* remain"),
    "too little for a message": (lambda magic: raw_message(0, magic) + bytes(16), "16 bytes are left over"),
    "the other magic": (lambda magic: raw_message(0, 1 - magic), "within magic"),
    "magic 2": (lambda magic: raw_message(0, 2), "magic 2 within magic"),
    "a wrapper": (lambda magic: raw_wrapper(0, magic, Codec.GZIP, raw_message(0, magic)), "compressed within compressed"),
    "a negative offset": (lambda magic: raw_message(-7, magic), "negative"),
}


@READERS
@BOTH
@pytest.mark.parametrize("codec", OLD_CODECS[1:])
@pytest.mark.parametrize(("inside", "says"), INSIDES.values(), ids=INSIDES)
def test_M7_what_cannot_be_in_a_wrapper(inside: Callable[[int], bytes], says: str, magic: int, codec: Codec, read: Reader) -> None:
    with pytest.raises(CorruptRecordError, match=f"compressed messages up to offset 9: .*{says}"):
        read(raw_wrapper(9, magic, codec, inside(magic)))


@READERS
@BOTH
def test_M4_wrappers_within_wrappers_are_refused_at_the_first(magic: int, read: Reader) -> None:
    data = raw_message(0, magic)
    for _ in range(100):
        data = raw_wrapper(0, magic, Codec.GZIP, data)

    with pytest.raises(CorruptRecordError, match="compressed within compressed messages"):
        read(data)


@READERS
@BOTH
@pytest.mark.parametrize("codec", OLD_CODECS[1:])
def test_M_C7_a_wrapper_that_is_not_compressed_as_it_says(magic: int, codec: Codec, read: Reader) -> None:
    with pytest.raises(DecompressionError, match=f"up to offset 5: {codec.name.lower()}"):
        read(raw_message(5, magic, value=raw_message(5, magic), attributes=codec))


@READERS
@BOTH
@pytest.mark.parametrize("kept", range(12))
def test_Z4_an_lz4_frame_that_ends_in_its_header(magic: int, kept: int, read: Reader) -> None:
    frame = bytes.fromhex("04224d1868400100000000000000d1")[:kept]

    with pytest.raises(DecompressionError, match="lz4"):
        read(raw_message(5, magic, value=frame, attributes=Codec.LZ4))


@READERS
def test_a_time_that_no_record_can_hold_beside_the_first(read: Reader) -> None:
    inside = raw_message(0, 1, timestamp=2**63 - 1) + raw_message(1, 1, timestamp=-2)

    with pytest.raises(CorruptRecordError, match="timestamp -2 is out of range"):
        read(raw_wrapper(1, 1, Codec.GZIP, inside))


def test_M_C6_the_smallest_messages_take_no_more_than_their_bytes() -> None:
    inside = b"".join(raw_message(at, 0, value=None) for at in range(40_000))
    data = raw_wrapper(39_999, 0, Codec.GZIP, inside)
    next(read_batches(data)).payload()

    tracemalloc.start()
    next(read_batches(data)).payload()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 4 * len(inside)


messages = st.builds(
    raw_message,
    st.integers(0, 100),
    st.integers(0, 1),
    st.none() | st.binary(max_size=4),
    st.none() | st.binary(max_size=8),
    timestamp=st.integers(-1, 2**40),
)
wrappers = st.builds(
    raw_wrapper,
    st.integers(0, 100),
    st.integers(0, 1),
    st.sampled_from(OLD_CODECS[1:]),
    st.lists(messages, max_size=3).map(b"".join),
)


@given(data=st.data(), parts=st.lists(messages | wrappers, min_size=1, max_size=4))
def test_M_C2_mutated_message_sets_fail_only_as_protocol_errors(data: st.DataObject, parts: list[bytes]) -> None:
    mutated = bytearray(b"".join(parts))
    for _ in range(data.draw(st.integers(0, 3))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))

    outcomes = [_outcome(read, bytes(mutated)) for read in (unchecked_records, unchecked_columns)]

    assert outcomes[0] == outcomes[1]


def unchecked_records(data: bytes) -> None:
    for batch in read_batches(data):
        batch.records()


def unchecked_columns(data: bytes) -> None:
    decoder = ColumnDecoder()
    for batch in read_batches(data):
        decoder.add(batch, "t", 0)
    decoder.finish()


def _outcome(read: Reader, data: bytes) -> str:
    try:
        read(data)
    except ProtocolError as error:
        return str(error)
    return "accepted"
