"""Record batches into message sets for old brokers and old clients, and message sets into record batches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.errors import UnsupportedRecordFormatError
from levada.record.batch import assign_offsets, set_producer_state
from levada.record.compression import Codec
from levada.record.legacy.conversion import down_convert, down_convert_fetched, up_convert
from levada.record.memory_records import read_batches
from levada.types import TimestampType
from record_kit import NOW_MS, OLD_CODECS, build, forge, only_batch, raw_message, raw_record, raw_wrapper, values

BOTH = pytest.mark.parametrize("magic", [0, 1])
EACH_CODEC = pytest.mark.parametrize("codec", OLD_CODECS)
rows = st.lists(
    st.tuples(st.integers(0, 2**50), st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=200)), min_size=1, max_size=30
)


def shown(data: Any) -> list[tuple[Any, ...]]:
    return [tuple(record[:4]) for batch in read_batches(data) for record in batch.records()]


def placed(batch: bytearray, base_offset: int, append_time: int | None = None) -> bytes:
    assign_offsets(batch, base_offset=base_offset, leader_epoch=2, log_append_time_ms=append_time)
    return bytes(batch)


# --- a producer and an old broker ------------------------------------------------------------------------------------------------------


@BOTH
@EACH_CODEC
@given(rows=rows)
def test_M15_a_built_batch_becomes_a_message_set(magic: int, codec: Codec, rows: list[tuple[Any, ...]]) -> None:
    data = down_convert(only_batch(build(rows, codec)), magic)

    for batch in read_batches(data):
        batch.verify_crc()
    assert {(batch.magic, batch.codec) for batch in read_batches(data)} == {(magic, codec)}
    assert shown(data) == [(offset, ms if magic else -1, key, value) for offset, (ms, key, value) in enumerate(rows)]


@BOTH
@pytest.mark.parametrize("codec", OLD_CODECS[1:])
def test_M4_a_produce_request_holds_one_wrapper_numbered_from_0(magic: int, codec: Codec) -> None:
    data = down_convert(only_batch(build([(9, None, b"a"), (7, None, b"b")], codec)), magic)

    (batch,) = read_batches(data)
    assert (batch.base_offset, batch.last_offset, batch.max_timestamp) == (0, 1, 9 if magic else -1)
    # The wrapper's own time, null key, and offset.
    assert data[:8] == (1).to_bytes(8)
    if magic:
        assert data[18:30] == (9).to_bytes(8) + b"\xff" * 4


@pytest.mark.parametrize("magic", [-1, 2, None])
def test_M15_a_message_set_of_another_magic_is_refused(magic: Any) -> None:
    with pytest.raises(ValueError, match=f"message sets are of magic 0 or 1, got {magic}"):
        down_convert(only_batch(build(values(2))), magic)


def test_M1_messages_are_no_larger_than_their_fields() -> None:
    for magic, overhead in ((0, 26), (1, 34)):
        assert len(down_convert(only_batch(build([(NOW_MS, b"key", b"value")])), magic)) == overhead + 8


def test_a_level_reaches_the_codec() -> None:
    batch = only_batch(build(values(2000), Codec.GZIP))

    assert len(down_convert(batch, 1, level=9)) != len(down_convert(batch, 1, level=1))


@BOTH
def test_headers_are_refused_with_what_to_do(magic: int) -> None:
    batch = only_batch(build([(1, None, b"a"), (1, None, b"b", (("name", b"x"),))]))

    with pytest.raises(
        UnsupportedRecordFormatError, match=rf"headers need Kafka 0\.11; the broker takes only message sets \(magic {magic}\)"
    ):
        down_convert(batch, magic)


@BOTH
def test_M7_zstd_is_refused(magic: int) -> None:
    with pytest.raises(UnsupportedRecordFormatError, match=r"zstd needs Kafka 2\.1"):
        down_convert(only_batch(build(values(2), Codec.ZSTD)), magic)


@BOTH
@pytest.mark.parametrize("is_transactional", [False, True])
def test_M15_an_idempotent_producer_is_refused(magic: int, is_transactional: bool) -> None:
    batch = build(values(2))
    set_producer_state(batch, producer_id=0, producer_epoch=0, base_sequence=0, is_transactional=is_transactional)

    with pytest.raises(UnsupportedRecordFormatError, match=r"idempotent or transactional producer needs Kafka 0\.11"):
        down_convert(only_batch(batch), magic)


# --- a broker and an old client --------------------------------------------------------------------------------------------------------


@BOTH
def test_V10_an_old_client_gets_no_headers_and_no_markers(magic: int) -> None:
    data = placed(build([(5, b"k", b"v", (("name", b"x"),))]), 7)
    marker = placed(forge(raw_record(key=b"\x08" + bytes(4)), attributes=0x30), 8)
    more = placed(build([(6, b"k", b"w")], Codec.GZIP), 9)

    converted = down_convert_fetched(read_batches(data + marker + more), magic)

    assert shown(converted) == [(7, 5 if magic else -1, b"k", b"v"), (9, 6 if magic else -1, b"k", b"w")]


def test_V10_what_is_old_enough_already_is_passed_on() -> None:
    old = raw_message(3, 0) + raw_wrapper(5, 0, Codec.GZIP, raw_message(4, 0) + raw_message(5, 0))

    # To the letter, with bits that mean nothing.
    odd = raw_message(6, 1, attributes=0x40)
    assert down_convert_fetched(read_batches(old + odd), 1) == old + odd
    assert down_convert_fetched(read_batches(old + raw_message(6, 1)), 0) == old + raw_message(6, 0)


@BOTH
def test_V10_plain_messages_begin_where_the_client_asked_and_wrappers_are_whole(magic: int) -> None:
    plain, packed = placed(build(values(3)), 10), placed(build(values(3), Codec.GZIP), 13)

    def offsets(first_offset: int) -> list[int]:
        return [offset for offset, *_ in shown(down_convert_fetched(read_batches(plain + packed), magic, first_offset))]

    assert offsets(12) == [12, 13, 14, 15]
    assert offsets(14) == [13, 14, 15]


@EACH_CODEC
def test_M6_append_time_goes_along(codec: Codec) -> None:
    stored = placed(build([(5, None, b"a"), (6, None, b"b")], codec), 3, append_time=99)

    (batch,) = read_batches(down_convert_fetched(read_batches(stored), 1))

    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert shown(batch.data) == [(3, 99, None, b"a"), (4, 99, None, b"b")]


@EACH_CODEC
def test_M1_magic_0_has_no_bit_for_append_time(codec: Codec) -> None:
    stored = placed(build([(5, None, b"a")], codec), 3, append_time=99)

    assert down_convert_fetched(read_batches(stored), 0)[17] == codec


def test_M11_a_batch_that_compaction_emptied_is_left_out() -> None:
    assert down_convert_fetched([only_batch(forge(b"", records_count=0, last_offset_delta=4))], 1) == b""


@BOTH
def test_Z1_an_old_client_cannot_have_zstd(magic: int) -> None:
    with pytest.raises(UnsupportedRecordFormatError, match=r"offsets 0\.\.1.* zstd"):
        down_convert_fetched([only_batch(build(values(2), Codec.ZSTD))], magic)


# --- up ----------------------------------------------------------------------------------------------------------------------------------


@BOTH
@EACH_CODEC
@given(rows=rows)
def test_messages_come_back_as_batches(magic: int, codec: Codec, rows: list[tuple[Any, ...]]) -> None:
    old = down_convert_fetched([only_batch(placed(build(rows, codec), 40))], magic)

    new = up_convert(old)

    for batch in read_batches(new):
        batch.verify_crc()
        assert (batch.magic, batch.codec, batch.partition_leader_epoch, batch.producer_id) == (2, codec, -1, -1)
    assert shown(new) == shown(old)
    if magic:
        assert new[16:] == build(rows, codec)[16:]


def test_up_conversion_keeps_what_is_new_and_drops_what_is_cut_short() -> None:
    new = placed(build(values(3)), 9)

    converted = up_convert(raw_message(7, 1) + new + raw_message(12, 1)[:-1])

    assert converted[-len(new) :] == new
    assert [batch.base_offset for batch in read_batches(converted)] == [7, 9]


def test_M6_append_time_comes_back() -> None:
    old = raw_message(7, 1, timestamp=5, attributes=8) + raw_message(8, 1, timestamp=6, attributes=8)

    batches = list(read_batches(up_convert(old)))

    assert [(batch.timestamp_type, batch.max_timestamp) for batch in batches] == [(1, 5), (1, 6)]
    assert shown(up_convert(old)) == shown(old)


def test_offsets_too_far_apart_for_one_batch_are_refused() -> None:
    def spanning(offsets: int) -> bytes:
        return raw_wrapper(1 + offsets, 0, Codec.GZIP, raw_message(1, 0) + raw_message(1 + offsets, 0))

    assert [offset for offset, *_ in shown(up_convert(spanning(2**31 - 1)))] == [1, 2**31]
    for offsets in (2**31, 2**40):
        assert [offset for offset, *_ in shown(spanning(offsets))] == [1, 1 + offsets]
        with pytest.raises(UnsupportedRecordFormatError, match=f"spans {offsets} offsets"):
            up_convert(spanning(offsets))
