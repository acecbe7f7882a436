from __future__ import annotations

import random

import pytest

from broker_kit import START_MS, make_batch
from levada.broker.log import log as log_module
from levada.broker.log.log import PartitionLog
from levada.record.batch import RecordBatch
from levada.record.memory_records import read_batches


def fill(log: PartitionLog, *batches: bytes) -> None:
    for batch in batches:
        log.append(RecordBatch(memoryview(batch)), leader_epoch=3)


def values(data: memoryview) -> list[bytes | None]:
    return [record.value for batch in read_batches(data) for record in batch.records()]


def test_TR71_a_batch_keeps_its_bytes_but_base_offset_and_leader_epoch() -> None:
    log, batch = PartitionLog(), make_batch(b"a", b"b")
    fill(log, batch, batch)

    first, second = log.batches()
    assert (first.base_offset, second.base_offset, log.end_offset) == (0, 2, 4)
    assert (first.partition_leader_epoch, second.partition_leader_epoch) == (3, 3)
    assert bytes(second.data[16:]) == batch[16:]
    second.verify_crc()


def test_log_append_time_changes_the_timestamps_and_the_checksum() -> None:
    log = PartitionLog()
    log.append(RecordBatch(memoryview(make_batch(b"a", b"b", timestamp=[5, 6]))), leader_epoch=0, log_append_time_ms=77)

    (batch,) = log.batches()
    batch.verify_crc()
    assert [record.timestamp for record in batch.records()] == [77, 77]


def test_E9_an_offset_inside_a_batch_returns_the_whole_batch() -> None:
    log = PartitionLog()
    fill(log, make_batch(b"a", b"b", b"c"), make_batch(b"d"))
    assert values(log.read(1, 10_000)) == [b"a", b"b", b"c", b"d"]
    assert values(log.read(3, 10_000)) == [b"d"]
    assert len(log.read(4, 10_000)) == 0


def test_E9_a_read_returns_whole_batches_and_the_first_one_even_if_it_is_too_large() -> None:
    log = PartitionLog()
    batch = make_batch(b"x" * 100)
    fill(log, batch, batch, batch)
    assert len(log.read(0, 2 * len(batch) + 5)) == 2 * len(batch)
    assert len(log.read(0, 5)) == len(batch)
    assert len(log.read(0, 5, at_least_one=False)) == 0


@pytest.mark.parametrize("batches", range(1, 8))
def test_E9_a_read_goes_on_behind_the_end_of_a_segment_as_far_as_it_may(batches: int) -> None:
    log, batch = PartitionLog(segment_bytes=300), make_batch(b"x" * 100)
    fill(log, *[make_batch(b"%d" % n * 100) for n in range(9)])
    wanted = [b"%d" % n * 100 for n in range(9)]
    assert values(log.read(2, batches * len(batch) + 5)) == wanted[2 : 2 + batches]
    assert values(log.read(2, 10_000)) == wanted[2:]
    assert values(log.read(8, 10_000)) == wanted[8:]
    assert values(log.read(2, 5)) == wanted[2:3]


def test_E9_a_batch_that_does_not_fit_ends_a_read_though_one_behind_it_would() -> None:
    small, large = make_batch(b"a"), make_batch(b"large" * 80)
    log = PartitionLog(segment_bytes=len(small) + len(large))
    fill(log, small, large, small, large)
    assert values(log.read(0, 3 * len(small))) == [b"a"]
    assert values(log.read(0, 2 * len(large))) == [b"a", b"large" * 80, b"a"]


def test_a_slice_that_was_read_does_not_change_when_the_log_grows_or_is_trimmed() -> None:
    log, batch = PartitionLog(segment_bytes=300), make_batch(b"x" * 100)
    fill(log, batch)
    held = log.read(0, 10_000)
    before = bytes(held)
    fill(log, *[batch] * 50)
    log.advance_start(40)
    assert bytes(held) == before


@pytest.mark.parametrize("seed", range(5))
def test_every_offset_is_found_whatever_the_segments(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "CHUNK_BYTES", 700)
    rng = random.Random(seed)
    log, expected = PartitionLog(segment_bytes=700), []
    for _ in range(60):
        batch = [b"%d" % rng.randrange(10**9) for _ in range(rng.randrange(1, 30))]
        fill(log, make_batch(*batch))
        expected += batch
    for offset in range(log.end_offset):
        first = next(read_batches(log.read(offset, 1)))
        assert first.base_offset <= offset <= first.last_offset
        assert first.records()[offset - first.base_offset].value == expected[offset]
    assert log.bytes_between(0, log.end_offset) == log.size_bytes
    assert log.bytes_between(log.end_offset, log.end_offset) == 0
    assert [record.value for batch in log.batches() for record in batch.records()] == expected


def test_retention_bytes_drops_whole_segments_from_the_front_and_keeps_the_newest() -> None:
    batch = make_batch(b"x" * 100)
    log = PartitionLog(segment_bytes=2 * len(batch))
    fill(log, *[batch] * 7)

    log.retain(retention_bytes=3 * len(batch), oldest_timestamp_ms=-1)
    assert (log.start_offset, log.end_offset) == (4, 7)
    log.retain(retention_bytes=0, oldest_timestamp_ms=-1)
    assert (log.start_offset, log.size_bytes) == (6, len(batch))
    log.retain(retention_bytes=-1, oldest_timestamp_ms=-1)
    assert log.start_offset == 6


def test_retention_ms_drops_old_segments_and_the_newest_one_too() -> None:
    batch = make_batch(b"x", timestamp=START_MS)
    log = PartitionLog(segment_bytes=2 * len(batch))
    fill(log, *[batch] * 3, make_batch(b"y", timestamp=START_MS + 10))

    log.retain(retention_bytes=-1, oldest_timestamp_ms=START_MS + 1)
    assert (log.start_offset, log.end_offset) == (2, 4)
    log.retain(retention_bytes=-1, oldest_timestamp_ms=START_MS + 11)
    assert (log.start_offset, log.end_offset, log.size_bytes) == (4, 4, 0)

    fill(log, make_batch(b"z", timestamp=START_MS + 20))
    assert values(log.read(4, 1000)) == [b"z"]


def test_batches_reaching_a_time_are_found_although_timestamps_go_back() -> None:
    log = PartitionLog(segment_bytes=200)
    for stamp in (10, 50, 20, 60, 30):
        fill(log, make_batch(b"%d" % stamp, timestamp=stamp))
    assert [batch.base_offset for batch in log.batches_reaching(45)] == [1, 3]
    assert [batch.base_offset for batch in log.batches_reaching(60)] == [3]
    assert list(log.batches_reaching(61)) == []
    log.advance_start(2)
    assert [batch.base_offset for batch in log.batches_reaching(45)] == [3]
