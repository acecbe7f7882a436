"""A log, batch by batch: what is read in each, what is told of damage, and what coordinators and markers say."""

from __future__ import annotations

from levada.broker.log.end_transaction_marker import EndTransactionMarker
from levada.cli.log_dump import Dumped, Torn, dump
from levada.protocol.prefixed import encode_prefixed
from levada.protocol.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from levada.record.compression import Codec
from record_kit import NOW_MS, build


def batches(data: bytes, **options: object) -> list[Dumped]:
    found = list(dump(data, **options))  # type: ignore[arg-type]
    assert all(isinstance(one, Dumped) for one in found)
    return [one for one in found if isinstance(one, Dumped)]


def test_M1_each_batch_is_told_with_its_position() -> None:
    first, second = bytes(build([(NOW_MS, b"k", b"v")])), bytes(build([(NOW_MS, None, b"w"), (NOW_MS + 1, None, b"x")], Codec.ZSTD))
    one, other = (found.batch for found in batches(first + second))
    assert (one.position, one.size, one.records, one.codec, one.fault) == (0, len(first), 1, "none", "")
    assert (other.position, other.size, other.records, other.codec, other.max_timestamp) == (len(first), len(second), 2, "zstd", NOW_MS + 1)


def test_records_are_told_where_they_are_asked_for() -> None:
    data = bytes(build([(NOW_MS, b"k", None, [("h", b"1")])]))
    assert batches(data)[0].records == ()
    (record,) = batches(data, with_records=True)[0].records
    assert record == (0, 0, NOW_MS, -1, b"k", None, (("h", b"1"),))


def test_M13_a_batch_whose_checksum_does_not_fit_is_told_and_the_next_one_is_read() -> None:
    damaged = build([(NOW_MS, b"k", b"v")])
    damaged[-1] ^= 1
    one, other = batches(bytes(damaged) + bytes(build([(NOW_MS, b"k", b"v")])), with_records=True)
    assert "checksum" in one.batch.fault
    assert one.records == ()
    assert other.batch.fault == ""


def test_M2_what_a_crash_tore_off_is_told_with_its_position() -> None:
    whole = bytes(build([(NOW_MS, b"k", b"v")]))
    _, torn = dump(whole + whole[:-3], position=100)
    assert torn == Torn(100 + len(whole), len(whole) - 3, "not a whole batch", True)


def test_a_size_that_cannot_be_ends_the_dump() -> None:
    whole = bytes(build([(NOW_MS, b"k", b"v")]))
    _, torn = dump(whole + bytes(100))
    assert isinstance(torn, Torn)
    assert "length of 0 bytes" in torn.fault


def test_M19_a_marker_says_how_the_transaction_ended() -> None:
    data = bytes(EndTransactionMarker(7, 3, committed=False, coordinator_epoch=5).encode(NOW_MS).data)
    (found,) = batches(data, with_records=True)
    assert (found.batch.control, found.batch.producer_id, found.batch.producer_epoch, found.batch.transactional) == ("abort", 7, 3, True)
    assert found.records[0].key == "abort"
    assert found.records[0].value == {"coordinator_epoch": 5}


def test_records_of_coordinators_are_taken_apart() -> None:
    key = encode_prefixed(OffsetCommitKey(group="g", topic="t", partition=2), 0)
    value = encode_prefixed(OffsetCommitValue(offset=42, metadata="", commit_timestamp=NOW_MS), 3)
    unknown = b"\x7f\xffrest"
    data = bytes(build([(NOW_MS, key, value), (NOW_MS, key, None), (NOW_MS, unknown, b"v")]))
    (found,) = batches(data, topic="__consumer_offsets", with_records=True)
    written, tombstone, newer = found.records
    assert written.key == {"type": "OffsetCommitKey", "group": "g", "topic": "t", "partition": 2}
    assert written.value["offset"] == 42
    assert tombstone.value is None
    assert (newer.key, newer.value) == (unknown, b"v")
