"""Batches that are not a user's, and attributes that change how records are read, as Java (kafka-clients 3.9.2) writes them."""

from __future__ import annotations

import struct

import pytest

from levada.record.batch import RecordBatch
from levada.record.columnar import ColumnDecoder
from levada.record.memory_records import read_batches
from levada.types import TopicPartition
from record_kit import forge, only_batch, raw_record

# Each at offset 40, leader epoch 9; those of a transaction of producer 7, epoch 3.
CONTROL = {
    (
        0,
        "ABORT",
    ): "0000000000000028000000420000000902c6e8b2df0030000000000000018bcfe568000000018bcfe5680000000000000000070003ffffffff00000001200000"
    "0008000000000c00000000000b00",
    (
        1,
        "COMMIT",
    ): "000000000000002800000042000000090232d664970030000000000000018bcfe568000000018bcfe5680000000000000000070003ffffffff0000000120000"
    "00008000000010c00000000000b00",
    (
        2,
        "LEADER_CHANGE",
    ): "000000000000002800000045000000090213d27a030020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff0000000"
    "12600000008000000021200000000000101010000",
    (
        3,
        "SNAPSHOT_HEADER",
    ): "000000000000002800000047000000090252c24e040020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff00000"
    "0012a000000080000000316000000000000000000050000",
    (
        4,
        "SNAPSHOT_FOOTER",
    ): "00000000000000280000003f00000009028f6608e60020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff00000"
    "0011a00000008000000040600000000",
    (
        5,
        "KRAFT_VERSION",
    ): "0000000000000028000000410000000902a89c55860020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff0000000"
    "11e00000008000000050a000000010000",
    (
        6,
        "KRAFT_VOTERS",
    ): "0000000000000028000000400000000902bf9146190020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff00000001"
    "1c0000000800000006080000010000",
}
# Offsets 40 and 42 of 40 to 49: (k, null) of 1700000000005, (l, b) of 1700000600003; the horizon is 1700000500000.
WITH_A_HORIZON = (
    "00000000000000280000004600000009028031e40e0050000000090000018bcfed09200000018bcfee8fc30000000000000007000300000005000000021200b5843d0002"
    "6b01001400c69a0c04026c026200"
)


def assert_shows_nothing(batch: RecordBatch) -> None:
    decoder = ColumnDecoder()
    assert batch.records() == []
    assert batch.consumer_records(TopicPartition("t", 0)) == []
    assert decoder.add(batch, "t", 0) == (0, batch.next_offset)
    assert decoder.finish().num_rows == 0


@pytest.mark.parametrize(("kind", "data"), CONTROL.items(), ids=[name for _, name in CONTROL])
def test_M19_control_batches_of_java_are_stepped_over_by_type(kind: tuple[int, str], data: str) -> None:
    batch = only_batch(bytes.fromhex(data))

    batch.verify_crc()
    assert (batch.control_type(), batch.last_offset, batch.next_offset, batch.partition_leader_epoch) == (kind[0], 40, 41, 9)
    assert batch.is_transactional == (kind[1] in ("ABORT", "COMMIT"))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == ((7, 3, -1) if batch.is_transactional else (-1, -1, -1))
    assert_shows_nothing(batch)


@pytest.mark.parametrize(("version", "control_type"), [(0, 7), (0, 32767), (1, 0), (32767, 1), (9, 99)])
def test_M19_unknown_types_and_higher_versions_are_no_error(version: int, control_type: int) -> None:
    key = b"\x10" + struct.pack(">hhi", version, control_type, 5)
    batch = only_batch(forge(raw_record(key=key, value=b"\x04??"), attributes=0x30, producer_id=7, producer_epoch=3))

    assert batch.control_type() == control_type
    assert_shows_nothing(batch)


@pytest.mark.parametrize("attributes", [0x20, 0x30])
def test_M20_a_control_batch_that_compaction_emptied_still_takes_its_offset(attributes: int) -> None:
    batch = only_batch(forge(b"", attributes=attributes, records_count=0, base_offset=40))

    assert (batch.control_type(), batch.is_empty, batch.next_offset) == (None, True, 41)
    assert_shows_nothing(batch)


def test_a_delete_horizon_stands_where_the_base_timestamp_stood_and_deltas_count_from_it() -> None:
    batch = only_batch(bytes.fromhex(WITH_A_HORIZON))

    batch.verify_crc()
    assert batch.delete_horizon_ms == 1700000500000
    assert batch.records() == [(40, 1700000000005, b"k", None, ()), (42, 1700000600003, b"l", b"b", ())]
    assert (batch.last_offset, batch.next_offset, batch.records_count) == (49, 50, 2)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (7, 3, 5, 14)
    assert batch.is_transactional
    assert not batch.is_control


def test_M2_the_magic_says_how_to_read_on_whatever_came_before() -> None:
    data = b"".join(bytes.fromhex(each) for each in CONTROL.values()) + bytes.fromhex(WITH_A_HORIZON)

    assert [batch.control_type() for batch in read_batches(data + data[:60])] == [0, 1, 2, 3, 4, 5, 6, None]
