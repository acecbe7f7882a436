from __future__ import annotations

import gc
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.errors import CorruptRecordError
from levada.record.batch import (
    HEADER_SIZE,
    assign_offsets,
    next_sequence,
    record_size_upper_bound,
    set_producer_state,
)
from levada.record.builder import RecordBatchBuilder
from levada.record.compression import Codec
from levada.record.memory_records import read_batches
from levada.types import ConsumerRecord, Headers, TimestampType, TopicPartition
from record_kit import CODECS, NOW_MS, as_rows, build, forge, headers, only_batch, raw_record, records, values

FROM_A_BROKER = bytes.fromhex(
    "0000000000000000 0000003b 00000001 02 0318a270 0000 00000000 0000015dff7b063c 0000015dff7b063c ffffffffffffffff ffff ffffffff 00000001"
    "12 00 00 00 01 06 313233 00"
)
WITH_A_HEADER = bytes.fromhex(
    "0000000000000000 00000045 00000000 02 5cd8ef52 0000 00000000 0000016585b6f3c1 0000016585b6f3c1 ffffffffffffffff ffff ffffffff 00000001"
    "26 00 00 00 01 06 686472 02 08 686b6579 08 6876616c"
)


def test_M8_a_batch_from_a_real_broker_is_read() -> None:
    batch = only_batch(FROM_A_BROKER)

    batch.verify_crc()
    assert (batch.partition_leader_epoch, batch.size_bytes, batch.magic) == (1, 71, 2)
    assert batch.records() == [(0, 1503229838908, None, b"123", ())]


def test_M8_headers_from_a_real_broker_are_read() -> None:
    batch = only_batch(WITH_A_HEADER)

    batch.verify_crc()
    assert batch.records() == [(0, 0x16585B6F3C1, None, b"hdr", (("hkey", b"hval"),))]


@pytest.mark.parametrize(
    ("vector", "record"), [(FROM_A_BROKER, (None, b"123")), (WITH_A_HEADER, (None, b"hdr", [("hkey", b"hval")]))], ids=["plain", "header"]
)
def test_M14_what_is_built_is_what_a_broker_stores(vector: bytes, record: tuple[object, ...]) -> None:
    stored = only_batch(vector)
    batch = build([(stored.base_timestamp, *record)])

    assign_offsets(batch, base_offset=0, leader_epoch=stored.partition_leader_epoch)

    assert batch == vector


@pytest.mark.parametrize("codec", CODECS)
@given(rows=records)
def test_M8_what_is_built_is_read_back(codec: Codec, rows: list[tuple[Any, ...]]) -> None:
    batch = only_batch(build(rows, codec))

    batch.verify_crc()
    assert as_rows(batch.records()) == rows
    assert [record.offset for record in batch.records()] == list(range(len(rows)))
    assert batch.max_timestamp == max(row[0] for row in rows)
    assert batch.codec is codec


@pytest.mark.parametrize("codec", CODECS)
@given(rows=records)
def test_M8_iteration_finds_the_same_records(codec: Codec, rows: list[tuple[Any, ...]]) -> None:
    batch = only_batch(build(rows, codec))

    found = [(record.offset, record.timestamp, record.key, record.value, record.headers) for record in batch]

    assert found == batch.records()


def test_records_of_an_iteration_outlive_their_batch_and_their_turn() -> None:
    found = list(only_batch(build([(7, b"k", b"v", (("name", b"x"),)), (8, None, b"w")])))

    gc.collect()

    assert [(record.key, record.value) for record in found] == [(b"k", b"v"), (None, b"w")]
    assert repr(found[0]) == "LazyRecord(offset=0, timestamp=7, key=b'k', value=b'v', headers=(('name', b'x'),))"


def test_M12_iteration_ends_at_a_broken_record_after_those_before_it() -> None:
    payload = raw_record(value=b"\x08good") + raw_record(offset=1, value=b"\x08bad")
    records = iter(only_batch(forge(payload, records_count=2, last_offset_delta=1)))

    assert next(records).value == b"good"
    with pytest.raises(CorruptRecordError, match="record 2 of 2"):
        next(records)


@given(rows=records)
def test_records_for_a_consumer_are_the_same_records_with_their_place(rows: list[tuple[object, ...]]) -> None:
    data = build(rows)
    assign_offsets(data, base_offset=40, leader_epoch=5, log_append_time_ms=NOW_MS)
    batch = only_batch(data)

    found = batch.consumer_records(TopicPartition("orders", 3))

    assert found == [
        ConsumerRecord("orders", 3, plain.offset, NOW_MS, TimestampType.LOG_APPEND_TIME, plain.key, plain.value, plain.headers, 5)
        for plain in batch.records()
    ]
    assert {type(record) for record in found} == {ConsumerRecord}


def test_records_for_a_consumer_outlive_a_garbage_collection() -> None:
    found = only_batch(build([(7, b"k", b"v", (("name", b"x" * 50),))])).consumer_records(TopicPartition("orders", 0))

    gc.collect()

    assert found == [("orders", 0, 0, 7, 0, b"k", b"v", (("name", b"x" * 50),), -1)]
    assert found[0]._replace(offset=9).offset == 9


def test_M19_a_control_batch_has_no_records_for_a_consumer() -> None:
    batch = only_batch(forge(raw_record(key=struct.pack(">hh", 0, 1)), attributes=0x30))

    assert list(batch) == []
    assert batch.consumer_records(TopicPartition("orders", 0)) == []


def test_M14_a_new_batch_has_no_place_and_no_producer() -> None:
    batch = only_batch(build([(7, b"k", b"v"), (9, b"k", b"v"), (8, b"k", b"v")]))

    assert (batch.base_offset, batch.partition_leader_epoch, batch.last_offset_delta, batch.records_count) == (0, -1, 2, 3)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (-1, -1, -1, -1)
    assert (batch.base_timestamp, batch.max_timestamp, batch.timestamp_type) == (7, 9, TimestampType.CREATE_TIME)


def test_M10_log_append_time_is_the_time_of_every_record() -> None:
    batch = build([(7, None, b"a"), (8, None, b"b")])

    assign_offsets(batch, base_offset=100, leader_epoch=5, log_append_time_ms=NOW_MS)

    stored = only_batch(batch)
    stored.verify_crc()
    assert [(record.offset, record.timestamp) for record in stored.records()] == [(100, NOW_MS), (101, NOW_MS)]
    assert stored.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_TR71_a_place_in_the_log_needs_no_new_checksum() -> None:
    batch = build(values(3))
    sealed = batch[17:21]

    assign_offsets(batch, base_offset=2**40, leader_epoch=9)

    assert batch[17:21] == sealed
    stored = only_batch(batch)
    stored.verify_crc()
    assert (stored.base_offset, stored.last_offset, stored.next_offset) == (2**40, 2**40 + 2, 2**40 + 3)


def test_a_producer_identity_is_put_into_a_built_batch() -> None:
    batch = build(values(3), Codec.ZSTD)

    set_producer_state(batch, producer_id=77, producer_epoch=3, base_sequence=2**31 - 2, is_transactional=True)

    stored = only_batch(batch)
    stored.verify_crc()
    assert (stored.producer_id, stored.producer_epoch, stored.base_sequence, stored.is_transactional) == (77, 3, 2**31 - 2, True)
    assert stored.last_sequence == 0
    assert stored.codec is Codec.ZSTD
    set_producer_state(batch, producer_id=77, producer_epoch=4, base_sequence=0)
    only_batch(batch).verify_crc()
    assert not only_batch(batch).is_transactional


def test_M13_a_batch_damaged_between_sealing_and_numbering_does_not_become_valid() -> None:
    batch = build(values(3))
    batch[-2] ^= 0x10

    set_producer_state(batch, producer_id=77, producer_epoch=3, base_sequence=0)

    with pytest.raises(CorruptRecordError, match="checksum"):
        only_batch(batch).verify_crc()


@pytest.mark.parametrize(("sequence", "increment", "following"), [(2147483646, 1, 2147483647), (2147483647, 1, 0), (2147483640, 10, 2)])
def test_I5_sequence_numbers_wrap(sequence: int, increment: int, following: int) -> None:
    assert next_sequence(sequence, increment) == following


@given(position=st.integers(21, 10**6), bit=st.integers(0, 7), codec=st.sampled_from(CODECS))
def test_M13_the_checksum_sees_every_flipped_bit(position: int, bit: int, codec: Codec) -> None:
    batch = build(values(20), codec)
    batch[21 + position % (len(batch) - 21)] ^= 1 << bit

    with pytest.raises(CorruptRecordError):
        only_batch(batch).verify_crc()


def test_M13_a_wrong_checksum_names_the_batch_and_both_sums() -> None:
    batch = build(values(1))
    assign_offsets(batch, base_offset=42, leader_epoch=0)
    batch[17:21] = b"\0\0\0\7"

    with pytest.raises(CorruptRecordError, match=r"record batch at offset 42 .*: checksum 0x[0-9a-f]{8}, the header says 0x00000007"):
        only_batch(batch).verify_crc()


def test_M2_an_incomplete_batch_at_the_end_is_no_error() -> None:
    first, second = build(values(3)), build(values(2))

    for kept in range(len(second)):
        found = list(read_batches(first + second[:kept]))
        assert [batch.records_count for batch in found] == [3]
    assert [batch.records_count for batch in read_batches(first + second)] == [3, 2]


def test_batches_are_views_not_copies() -> None:
    data = bytearray(build(values(3)) + build(values(2)))

    second = list(read_batches(memoryview(data)))[1]

    assert second.data.obj is data


@pytest.mark.parametrize("control_type", [0, 1, 2, 6, 99])
def test_M19_control_batches_say_their_type_and_show_no_records(control_type: int) -> None:
    key = b"\x08" + struct.pack(">hh", 0, control_type)
    batch = only_batch(forge(raw_record(key=key), attributes=0x30, producer_id=7, producer_epoch=1))

    assert batch.is_control
    assert batch.is_transactional
    assert batch.control_type() == control_type
    assert batch.records() == []


def test_M20_an_emptied_control_batch_has_no_type() -> None:
    batch = only_batch(forge(b"", attributes=0x30, records_count=0))

    assert batch.control_type() is None
    assert batch.next_offset == 1


def test_M19_a_control_record_without_a_type_is_corrupt() -> None:
    with pytest.raises(CorruptRecordError, match="without version and type"):
        only_batch(forge(raw_record(key=b"\x02\x00"), attributes=0x30)).control_type()


def test_a_batch_of_records_has_no_control_type() -> None:
    assert only_batch(build(values(1))).control_type() is None


def test_M11_a_compacted_batch_keeps_its_offsets() -> None:
    payload = raw_record(offset=2, value=b"\x02a") + raw_record(offset=7, value=b"\x02b")
    batch = only_batch(forge(payload, records_count=2, last_offset_delta=9, base_offset=100))

    assert [record.offset for record in batch.records()] == [102, 107]
    assert (batch.last_offset, batch.next_offset) == (109, 110)


@pytest.mark.parametrize("codec", CODECS)
def test_M11_a_batch_that_compaction_emptied_still_counts(codec: Codec) -> None:
    batch = only_batch(forge(b"", codec=codec, records_count=0, last_offset_delta=9, base_offset=100))

    assert batch.records() == []
    assert batch.next_offset == 110


def test_a_delete_horizon_is_seen() -> None:
    assert only_batch(forge(raw_record(), attributes=0x40, base_timestamp=55)).delete_horizon_ms == 55
    assert only_batch(build(values(1))).delete_horizon_ms is None


@given(key=st.none() | st.binary(max_size=300), value=st.none() | st.binary(max_size=300), headers=headers, timestamp=st.integers(0, 2**62))
def test_M16_no_record_is_larger_than_its_bound(key: bytes | None, value: bytes | None, headers: Headers, timestamp: int) -> None:
    bound = record_size_upper_bound(None if key is None else len(key), None if value is None else len(value), headers)

    size = len(build([(timestamp, key, value, headers)]))

    assert size <= bound <= size + 21


def test_the_header_has_the_size_that_kafka_gives_it() -> None:
    assert HEADER_SIZE == 61


def test_decompressed_bytes_are_kept_with_the_batch() -> None:
    batch = only_batch(build(values(3), Codec.ZSTD))

    assert batch.payload() is batch.payload()


def test_a_batch_shows_what_it_is() -> None:
    assert repr(only_batch(FROM_A_BROKER)) == "<RecordBatch offsets 0..0, 1 records, 71 bytes>"


def test_records_need_not_be_in_order_of_time() -> None:
    rows = [(NOW_MS, None, b"a", ()), (0, None, b"b", ()), (2**62, None, b"c", ())]

    assert as_rows(only_batch(build(rows)).records()) == rows


def test_header_keys_that_are_no_utf8_are_read_as_java_reads_them() -> None:
    headers = b"\x02" + b"\x04\xff\xfe" + b"\x02x"

    assert only_batch(forge(raw_record(headers=headers))).records()[0].headers == (("\ufffd\ufffd", b"x"),)


def test_a_record_of_a_megabyte_is_one_record() -> None:
    value = b"x" * 1_000_000

    batch = only_batch(build([(NOW_MS, b"k", value)]))

    assert batch.records()[0].value == value


def test_a_builder_takes_no_records_after_it_built() -> None:
    builder = RecordBatchBuilder()
    builder.append(1, None, None)
    builder.build()

    with pytest.raises(RuntimeError, match="built"):
        builder.append(2, None, None)


def test_a_builder_asked_again_returns_what_it_built() -> None:
    """Sealing may be interrupted after the bytes were made and before they were stored."""
    builder = RecordBatchBuilder(Codec.GZIP)
    builder.append(1, None, b"v" * 100)
    assert builder.build() is builder.build()


def test_consumer_records_have_each_its_own_timestamp() -> None:
    times = [0, 0, 7, 7, 0, 2**62, 7]

    found = only_batch(build([(time, None, b"v", ()) for time in times])).consumer_records(TopicPartition("t", 0))

    assert [record.timestamp for record in found] == times


def test_a_record_has_the_hash_of_its_tuple() -> None:
    builder = RecordBatchBuilder()
    builder.append(1, b"key", b"value")
    (record,) = next(read_batches(builder.build())).records()
    assert hash(record) == hash(tuple(record))
