"""How message sets look as batches: which messages go together, what a wrapper tells before it is unpacked, and what inside."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import cramjam
import lz4.frame
import pytest

from levada.errors import CorruptRecordError, DecompressionError
from levada.record.batch import RecordBatch
from levada.record.columnar import ColumnDecoder
from levada.record.compression import Codec
from levada.record.memory_records import read_batches
from levada.types import TimestampType, TopicPartition
from record_kit import NOW_MS, OLD_CODECS, build, only_batch, raw_message, raw_wrapper

BOTH = pytest.mark.parametrize("magic", [0, 1])
WRAPPED = pytest.mark.parametrize("codec", OLD_CODECS[1:])
APPEND_TIME = 0x08


def spans(data: bytes) -> list[tuple[int, int, int]]:
    return [(batch.base_offset, batch.last_offset, batch.records_count) for batch in read_batches(data)]


def offsets(batch: RecordBatch) -> list[int]:
    return [record.offset for record in batch.records()]


def plain(magic: int, *at: int, **options: Any) -> bytes:
    return b"".join(raw_message(offset, magic, **options) for offset in at)


# --- plain messages --------------------------------------------------------------------------------------------------------------------


@BOTH
def test_neighbours_are_read_as_one_batch_whatever_compaction_took(magic: int) -> None:
    batch = only_batch(plain(magic, 7, 8, 12))

    batch.verify_crc()
    assert offsets(batch) == [7, 8, 12]
    assert (batch.base_offset, batch.earliest_offset, batch.last_offset, batch.next_offset, batch.is_empty) == (7, 7, 12, 13, False)
    assert repr(batch) == f"<RecordBatch offsets 7..12, 3 records, {3 * (27 + 8 * magic)} bytes>"


def test_messages_of_another_magic_begin_another_batch() -> None:
    data = plain(0, 0, 1) + plain(1, 2, 3) + bytes(build([(NOW_MS, None, b"v")]))

    assert [batch.magic for batch in read_batches(data)] == [0, 1, 2]


@BOTH
@pytest.mark.parametrize("second", [5, 4, 5 + 2**31])
def test_TR9_an_offset_that_no_batch_can_hold_begins_another(magic: int, second: int) -> None:
    assert spans(plain(magic, 5, second)) == [(5, 5, 1), (second, second, 1)]


def test_append_times_of_their_own_keep_messages_apart() -> None:
    appended = [raw_message(at, 1, timestamp=ms, attributes=APPEND_TIME) for at, ms in enumerate([5, 5, 6])]

    batches = list(read_batches(b"".join(appended)))

    assert [[record.timestamp for record in batch.records()] for batch in batches] == [[5, 5], [6]]
    assert {batch.timestamp_type for batch in batches} == {TimestampType.LOG_APPEND_TIME}


def test_created_messages_keep_their_own_times() -> None:
    batch = only_batch(b"".join(raw_message(at, 1, timestamp=ms) for at, ms in enumerate([5, -1, 2**62, -(2**62)])))

    assert [record.timestamp for record in batch.records()] == [5, -1, 2**62, -(2**62)]
    assert batch.max_timestamp == 2**62


def test_times_that_lie_too_far_apart_keep_messages_apart() -> None:
    data = raw_message(0, 1, timestamp=2**63 - 1) + raw_message(1, 1, timestamp=-2)

    assert [batch.max_timestamp for batch in read_batches(data)] == [2**63 - 1, -2]


@BOTH
def test_the_flag_of_append_time_has_no_meaning_in_magic_0(magic: int) -> None:
    batch = only_batch(plain(magic, 0, attributes=APPEND_TIME, timestamp=9))

    expected = [(TimestampType.NO_TIMESTAMP_TYPE, -1), (TimestampType.LOG_APPEND_TIME, 9)][magic]
    assert (batch.timestamp_type, batch.max_timestamp) == expected


@BOTH
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_bits_that_mean_something_only_in_magic_2_mean_nothing(magic: int, codec: Codec) -> None:
    message = plain(magic, 0, attributes=0x70)
    batch = only_batch(raw_wrapper(0, magic, codec, message, attributes=0x70) if codec else message)

    assert offsets(batch) == [0]
    assert (batch.is_control, batch.is_transactional, batch.delete_horizon_ms, batch.codec) == (False, False, None, codec)
    assert batch.attributes == codec


@BOTH
def test_M13_a_faulty_message_takes_no_good_one_along(magic: int) -> None:
    batches = list(read_batches(plain(magic, 0, 1) + raw_message(2, magic, crc=7) + plain(magic, 3, 4)))

    assert [offsets(batch) for batch in batches] == [[0, 1], [2], [3, 4]]
    batches[0].verify_crc()
    with pytest.raises(CorruptRecordError, match=r"message at offset 2 .*checksum.*0x00000007"):
        batches[1].verify_crc()
    batches[2].verify_crc()


@BOTH
def test_a_message_that_breaks_off_the_rules_is_met_after_the_good_ones(magic: int) -> None:
    found = read_batches(plain(magic, 0, 1) + raw_message(2, magic, fields=bytes(9)) + plain(magic, 3))

    assert offsets(next(found)) == [0, 1]
    with pytest.raises(CorruptRecordError, match="message at offset 2"):
        next(found)


def test_what_is_converted_at_once_is_bounded() -> None:
    data = b"".join(raw_message(at, 1, value=bytes(100_000)) for at in range(25))

    assert spans(data) == [(0, 9, 10), (10, 19, 10), (20, 24, 5)]


@BOTH
def test_null_and_empty_are_told_apart(magic: int) -> None:
    pairs = [(None, None), (b"", b""), (b"k", None), (None, b"v")]
    batch = only_batch(b"".join(raw_message(at, magic, *pair) for at, pair in enumerate(pairs)))

    assert [(record.key, record.value) for record in batch.records()] == pairs


def test_records_for_a_consumer_have_no_timestamp_type_in_magic_0() -> None:
    found = only_batch(plain(0, 3)).consumer_records(TopicPartition("orders", 1))

    assert found == [("orders", 1, 3, -1, TimestampType.NO_TIMESTAMP_TYPE, None, b"v", (), -1)]


def test_a_column_says_what_a_record_does_about_magic_0() -> None:
    decoder = ColumnDecoder(("offset", "timestamp", "timestamp_type", "leader_epoch", "headers"))

    decoder.add(only_batch(plain(0, 3)), "orders", 1)

    found = decoder.finish()
    assert found["timestamp"].cast("int64").to_pylist() == [-1]
    assert found.select(["offset", "timestamp_type", "leader_epoch", "headers"]).to_pylist() == [
        {"offset": 3, "timestamp_type": -1, "leader_epoch": -1, "headers": []}
    ]


# --- wrappers --------------------------------------------------------------------------------------------------------------------------


@WRAPPED
def test_M5_offsets_inside_count_from_the_first_with_magic_1_and_are_absolute_with_magic_0(codec: Codec) -> None:
    relative = only_batch(raw_wrapper(42, 1, codec, plain(1, 0, 1, 2)))
    absolute = only_batch(raw_wrapper(42, 0, codec, plain(0, 40, 41, 42)))

    assert offsets(relative) == offsets(absolute) == [40, 41, 42]
    assert (relative.base_offset, relative.next_offset) == (absolute.base_offset, absolute.next_offset) == (40, 43)


@WRAPPED
def test_M5_compaction_leaves_holes_inside(codec: Codec) -> None:
    assert offsets(only_batch(raw_wrapper(49, 1, codec, plain(1, 2, 5, 9)))) == [42, 45, 49]


def test_TR9_inner_offsets_that_are_absolute_already_stay() -> None:
    assert offsets(only_batch(raw_wrapper(42, 1, Codec.GZIP, plain(1, 40, 41, 42)))) == [40, 41, 42]


@BOTH
def test_M5_a_wrapper_left_at_offset_0_says_nothing(magic: int) -> None:
    batch = only_batch(raw_wrapper(0, magic, Codec.GZIP, plain(magic, 0, 1, 2)))

    assert offsets(batch) == [0, 1, 2]
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (0, 2, 3)


def test_M5_a_wrapper_below_its_own_messages_is_refused() -> None:
    with pytest.raises(CorruptRecordError, match="up to offset 1: the last one's relative offset is 2"):
        only_batch(raw_wrapper(1, 1, Codec.GZIP, plain(1, 0, 1, 2))).records()


@pytest.mark.parametrize(("offset", "last"), [(41, 42), (50, 50)])
def test_TR9_absolute_offsets_need_not_end_at_the_wrapper(offset: int, last: int) -> None:
    batch = only_batch(raw_wrapper(offset, 0, Codec.GZIP, plain(0, 40, 42)))

    assert offsets(batch) == [40, 42]
    assert (batch.last_offset, batch.next_offset) == (last, last + 1)


@BOTH
def test_TR9_a_message_that_is_there_twice_is_read_once(magic: int) -> None:
    batch = only_batch(raw_wrapper(3, magic, Codec.GZIP, plain(magic, 1, 2, 2, 1, 3)))

    assert offsets(batch) == [1, 2, 3]


def test_M6_the_wrappers_append_time_is_everybodys() -> None:
    inside = raw_message(0, 1, timestamp=7) + raw_message(1, 1, timestamp=2**63 - 1)
    batch = only_batch(raw_wrapper(1, 1, Codec.LZ4, inside, attributes=APPEND_TIME, timestamp=9))

    assert [record.timestamp for record in batch.records()] == [9, 9]
    assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 9)


def test_M6_created_messages_keep_their_time_whatever_the_wrapper_says() -> None:
    inside = raw_message(0, 1, timestamp=7) + raw_message(1, 1, timestamp=5)
    batch = only_batch(raw_wrapper(1, 1, Codec.LZ4, inside, timestamp=99))

    assert [record.timestamp for record in batch.records()] == [7, 5]
    assert batch.max_timestamp == 7


def test_M4_a_key_on_a_wrapper_is_passed_over() -> None:
    data = raw_message(1, 1, b"key", gzip.compress(plain(1, 0, 1)), attributes=Codec.GZIP)

    assert offsets(only_batch(data)) == [0, 1]


def test_Z2_a_bare_snappy_block_is_read() -> None:
    data = raw_message(1, 1, None, bytes(cramjam.snappy.compress_raw(plain(1, 0, 1))), attributes=Codec.SNAPPY)

    assert offsets(only_batch(data)) == [0, 1]


def test_Z5_gzip_members_are_read_to_the_last() -> None:
    members = gzip.compress(plain(0, 4)) + gzip.compress(plain(0, 5))

    assert offsets(only_batch(raw_message(5, 0, None, members, attributes=Codec.GZIP))) == [4, 5]


@pytest.mark.parametrize("store_size", [False, True])
def test_Z4_no_reader_looks_at_the_lz4_header_checksum_of_magic_0(store_size: bool) -> None:
    frame = bytearray(lz4.frame.compress(plain(0, 4, 5), store_size=store_size, block_linked=False))
    for checksum in (0, frame[6 + 8 * store_size]):
        frame[6 + 8 * store_size] = checksum
        assert offsets(only_batch(raw_message(5, 0, None, bytes(frame), attributes=Codec.LZ4))) == [4, 5]


def test_Z3_with_magic_1_the_lz4_header_checksum_counts() -> None:
    frame = bytearray(lz4.frame.compress(plain(1, 0), store_size=False))
    frame[6] ^= 1

    with pytest.raises(DecompressionError, match="compressed messages up to offset 5: lz4"):
        only_batch(raw_message(5, 1, None, bytes(frame), attributes=Codec.LZ4)).records()


@BOTH
@WRAPPED
def test_M13_what_is_known_without_unpacking_is_said_without_unpacking(magic: int, codec: Codec) -> None:
    batch = only_batch(raw_message(42, magic, None, b"no stream at all", attributes=codec))

    batch.verify_crc()
    assert (batch.last_offset, batch.next_offset, batch.earliest_offset) == (42, 43, 0)
    assert (batch.is_empty, batch.is_control, batch.is_transactional, batch.codec) == (False, False, False, codec)
    assert repr(batch) == f"<CompressedMessages up to offset 42, {42 + 8 * magic} bytes>"
    with pytest.raises(DecompressionError, match="compressed messages up to offset 42"):
        batch.records()
    with pytest.raises(DecompressionError, match="compressed messages up to offset 42"):
        _ = batch.base_offset
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = batch.nonsense  # type: ignore[attr-defined]


def test_a_wrapper_is_unpacked_once() -> None:
    batch = only_batch(raw_wrapper(1, 1, Codec.GZIP, plain(1, 0, 1)))

    assert batch.payload() is batch.payload()
    assert batch.earliest_offset == 0


@BOTH
def test_M13_a_wrappers_checksum_is_checked_before_it_is_unpacked(magic: int) -> None:
    batch = only_batch(raw_wrapper(1, magic, Codec.GZIP, plain(magic, 0, 1), crc=7))

    with pytest.raises(CorruptRecordError, match=r"message at offset 1 .*checksum"):
        batch.verify_crc()
    assert offsets(batch) == [0, 1]


@BOTH
def test_M13_checksums_inside_are_checked_by_who_wants_checksums(magic: int) -> None:
    data = raw_wrapper(1, magic, Codec.GZIP, plain(magic, 0) + raw_message(1, magic, crc=7))

    assert offsets(only_batch(data)) == [0, 1]
    batch = only_batch(data)
    batch.verify_crc()
    with pytest.raises(CorruptRecordError, match=f"up to offset 1: the checksum of the message at byte {27 + 8 * magic} does not fit"):
        batch.records()


@BOTH
@WRAPPED
def test_Z6_a_wrapper_stops_at_the_decompression_limit(magic: int, codec: Codec) -> None:
    inside = raw_message(0, magic, value=bytes(100_000))
    data = raw_wrapper(0, magic, codec, inside)

    with pytest.raises(DecompressionError, match="more than the limit of 50000 bytes"):
        only_batch(data).records(50_000)
    with pytest.raises(DecompressionError):
        ColumnDecoder(max_decompressed=50_000).add(only_batch(data), "t", 0)
    assert offsets(only_batch(data)) == [0]
    assert len(only_batch(data).records(len(inside))) == 1


def test_TR7_the_checksum_is_crc_32_from_the_magic_on() -> None:
    batch = only_batch(plain(1, 0))

    assert batch.crc == zlib.crc32(batch.data[16:])
