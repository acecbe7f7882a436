"""Compaction: what stays, what goes, and when, in the broker's clock."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from broker_kit import START_MS, Bench, make_batch
from levada.broker.log.log import PartitionLog
from levada.record.batch import RecordBatch, seal
from levada.record.compression import Codec
from levada.record.memory_records import read_batches
from levada.types import TimestampType
from replica_kit import Trio
from transaction_kit import TransactionalProducer, read, values

BACKOFF_MS = 15_000
COMPACTED: dict[str, str | None] = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0"}


class Log:
    """Topic "t" of a compacting broker, and a client of it."""

    def __init__(self, **config: str | None) -> None:
        self.bench = Bench()
        self.bench.node.create_topic("t", 1, {**COMPACTED, **{name.replace("_", "."): value for name, value in config.items()}})
        self.client = self.bench.client()

    def write(self, key: bytes, *values: bytes | None, **kind: Any) -> None:
        """Append a batch of records with one key, at the present time."""
        batch = make_batch(*values, key=key, timestamp=START_MS + self.bench.now_ms, **kind)
        assert self.client.produce("t", batch).error_code == 0

    def roll(self) -> None:
        """Begin a new segment, with a record that is no part of the test."""
        self.bench.advance(1001)
        self.write(b"rolled", b"")

    def clean(self, after_ms: int = BACKOFF_MS) -> None:
        self.bench.advance(after_ms)

    @property
    def log(self) -> PartitionLog:
        return self.bench.node.log("t")

    def batches(self) -> list[RecordBatch]:
        return list(self.log.batches())

    def records(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """What a reader sees from the beginning."""
        found = [record for batch in read_batches(self.client.fetch("t").records or b"") for record in batch.records()]
        return [(record.offset, record.key, record.value) for record in found if record.key != b"rolled"]


def test_the_newest_record_of_each_key_stays_at_its_offset() -> None:
    log = Log()
    for key, value in ((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"b", b"2")):
        log.write(key, value)
    log.roll()
    log.clean()
    assert log.records() == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2")]
    assert (log.log.start_offset, log.log.end_offset) == (0, 6)
    log.write(b"a", b"3")
    assert log.log.end_offset == 7


def test_the_active_segment_is_not_compacted() -> None:
    log = Log()
    log.write(b"a", b"1")
    log.write(b"a", b"2")
    log.clean()
    assert [value for *_, value in log.records()] == [b"1", b"2"]


@pytest.mark.parametrize("codec", list(Codec))
def test_M11_a_batch_keeps_its_ends_its_codec_and_a_right_checksum(codec: Codec) -> None:
    log = Log()
    log.write(b"a", b"1", b"2", b"3" * 100, codec=codec, producer=(7, 0, 40))
    log.write(b"a", b"4", codec=codec, producer=(7, 0, 43))
    log.write(b"b", b"5", b"6", codec=codec)
    log.roll()
    log.clean()
    kept, rest = log.batches()[:2]
    for batch in (kept, rest):
        batch.verify_crc()
        assert batch.codec is codec
    assert (kept.base_offset, kept.last_offset, kept.base_sequence) == (3, 3, 43)
    assert (rest.base_offset, rest.last_offset, rest.records_count) == (4, 5, 1)
    assert log.records() == [(3, b"a", b"4"), (5, b"b", b"6")]


def test_F26_a_reader_goes_on_behind_what_is_gone() -> None:
    log = Log()
    log.write(b"a", b"1")
    log.write(b"a", b"2")
    log.roll()
    log.clean()
    (first, *_) = read_batches(log.client.fetch("t", 0).records or b"")
    assert first.base_offset == 1
    assert log.client.offset_of("t", -2)[1] == 0


def test_a_tombstone_stays_for_delete_retention_after_it_was_first_cleaned() -> None:
    log = Log(**{"delete.retention.ms": "60000"})
    log.write(b"a", b"1")
    log.write(b"a", None)
    log.roll()
    log.clean()
    assert log.records() == [(1, b"a", None)]
    (noted,) = (batch for batch in log.batches() if batch.delete_horizon_ms is not None)
    assert noted.delete_horizon_ms == START_MS + log.bench.now_ms + 60_000
    noted.verify_crc()
    log.roll()
    log.clean(50_000)
    assert log.records() == [(1, b"a", None)]
    log.roll()
    log.clean()
    assert log.records() == []


def test_a_key_that_comes_back_removes_its_tombstone_at_once() -> None:
    log = Log()
    log.write(b"a", None)
    log.roll()
    log.clean()
    log.write(b"a", b"2")
    log.roll()
    log.clean()
    assert [value for *_, value in log.records()] == [b"2"]


def test_records_younger_than_the_lag_stay_with_all_behind_them() -> None:
    log = Log(**{"min.compaction.lag.ms": "100000"})
    log.write(b"a", b"1")
    log.write(b"a", b"2")
    log.roll()
    log.clean(90_000)
    assert len(log.records()) == 2
    log.clean(20_000)
    assert len(log.records()) == 1


def test_a_small_dirty_part_waits_unless_it_is_old() -> None:
    log = Log(**{"min.cleanable.dirty.ratio": "0.9", "max.compaction.lag.ms": "600000"})
    for value in (b"1" * 1000, b"2" * 1000):
        log.write(b"a", value)
        log.roll()
    log.clean()
    assert len(log.records()) == 1
    log.write(b"a", b"3")
    log.roll()
    log.clean()
    assert len(log.records()) == 2, "the clean part is more than a tenth"
    log.clean(600_000)
    assert len(log.records()) == 1


def test_I18_the_last_batch_of_a_producer_stays_without_records() -> None:
    log = Log()
    log.write(b"a", b"1", producer=(7, 3, 0))
    log.write(b"a", b"2", producer=(7, 3, 1))
    log.write(b"a", b"3")
    log.roll()
    log.clean()
    (empty, *_) = log.batches()
    assert (empty.records_count, empty.producer_id, empty.producer_epoch, empty.base_sequence, empty.base_offset) == (0, 7, 3, 1, 1)
    empty.verify_crc()
    assert log.records() == [(2, b"a", b"3")]


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_goes_after_the_records_of_its_transaction_and_a_horizon(commit: bool) -> None:
    log = Log(**{"delete.retention.ms": "60000"})
    log.write(b"k", b"before")
    producer = TransactionalProducer(log.client)
    producer.init()
    producer.add()
    producer.write(b"in it")
    producer.end(commit=commit)
    log.write(b"k", b"after")
    log.roll()
    log.clean()
    assert values(read(log.client).records) == [b"after", b""]
    markers = [batch for batch in log.batches() if batch.is_control]
    assert [batch.control_type() for batch in markers] == [int(commit)]
    producer.init()  # So that the marker is not the last batch of its producer's epoch.
    producer.add()
    producer.write(b"next")
    producer.commit()
    for _ in range(3):
        log.roll()
        log.clean(70_000)
    assert values(read(log.client).records)[0] == b"next"
    assert not read(log.client).aborted_transactions
    left = [batch.producer_epoch for batch in log.batches() if batch.is_control and batch.records_count]
    assert left == [markers[0].producer_epoch + 2]


def test_aborted_records_never_replace_committed_ones() -> None:
    log = Log()
    log.write(b"k", b"stays")
    producer = TransactionalProducer(log.client)
    producer.init()
    producer.add()
    producer.write(b"aborted")
    producer.abort()
    log.roll()
    log.clean()
    assert values(read(log.client).records)[0] == b"stays"
    assert b"aborted" not in values(read(log.client, committed=False).records)


def test_what_is_not_stable_is_not_compacted() -> None:
    log = Log()
    producer = TransactionalProducer(log.client)
    producer.init()
    log.write(b"k", b"1")
    producer.add()
    producer.write(b"open")
    log.write(b"k", b"2")
    log.roll()
    log.clean()
    assert [value for *_, value in log.records()] == [b"1", b"open", b"2"]
    producer.commit()
    log.clean()
    assert [value for *_, value in log.records()] == [b"2"]


def test_log_append_time_stays() -> None:
    log = Log(**{"message.timestamp.type": "LogAppendTime"})
    log.write(b"a", b"1")
    log.write(b"a", b"2")
    log.write(b"b", b"3", b"4")
    log.roll()
    stamps = {batch.max_timestamp for batch in log.batches()}
    log.clean()
    assert {batch.timestamp_type for batch in log.batches()} == {TimestampType.LOG_APPEND_TIME}
    assert {record.timestamp for batch in log.batches() for record in batch.records()} == stamps


def test_retention_leaves_a_compacted_topic_alone_unless_it_deletes_too() -> None:
    for policy, start in (("compact", 0), ("compact,delete", 2)):
        bench = Bench(log_retention_check_interval_ms=1000)
        bench.node.create_topic("t", 1, {"cleanup.policy": policy, "retention.ms": "1000"})
        bench.client().produce("t", make_batch(b"1", b"2"))
        bench.advance(5000)
        assert bench.node.log("t").start_offset == start


def test_each_node_compacts_its_replica_and_a_follower_goes_on_from_there() -> None:
    trio = Trio({**COMPACTED, "segment.bytes": "150"})
    for value in (b"1" * 50, b"2" * 50, b"3" * 50):
        trio.produce(value)
    trio.advance(BACKOFF_MS)
    assert [trio.values(node) for node in (1, 2, 3)] == [[b"2" * 50, b"3" * 50]] * 3
    trio.elect(2)
    trio.produce(b"4" * 50)
    trio.advance(BACKOFF_MS)
    assert [trio.values(node) for node in (1, 2, 3)] == [[b"3" * 50, b"4" * 50]] * 3


def test_a_log_that_cannot_be_read_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.node.create_topic("t", 1, {"segment.bytes": "100"})
    client = bench.client()
    broken = bytearray(make_batch(b"a" * 20))
    broken[61:65] = b"\xff\xff\xff\xff"
    seal(broken)
    for batch in (bytes(broken), make_batch(b"b" * 20)):
        assert client.produce("t", batch).error_code == 0
    topic = bench.node.cluster.topics["t"]
    bench.node.cluster.configure(topic, topic.config.with_overrides({**topic.config.overrides, "cleanup.policy": "compact"}))
    bench.advance(BACKOFF_MS)
    assert "t-0 cannot be compacted, and stays as it is" in caplog.text
    assert bench.node.log("t").end_offset == 2


def fully_compacted(records: list[tuple[bytes, bytes | None]]) -> dict[bytes, bytes]:
    state: dict[bytes, bytes] = {}
    for key, value in records:
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
    return state


@pytest.mark.parametrize("seed", range(10))
def test_whoever_reads_from_the_beginning_ends_with_the_same_values(seed: int) -> None:
    random = Random(seed)
    log = Log(**{"delete.retention.ms": "30000"})
    written: list[tuple[bytes, bytes | None]] = []
    for number in range(200):
        key = b"%d" % random.randrange(20)
        value = None if random.random() < 0.2 else b"%d" % number
        log.write(key, value, codec=random.choice(list(Codec)))
        written.append((key, value))
        if random.random() < 0.1:
            log.roll()
            log.clean(random.choice((BACKOFF_MS, 40_000)))
        if number % 50 == 0:
            seen = [(key, value) for _, key, value in log.records() if key is not None]
            assert fully_compacted(seen) == fully_compacted(written)
    log.roll()
    log.clean()
    seen = [(key, value) for _, key, value in log.records() if key is not None]
    assert fully_compacted(seen) == fully_compacted(written)
    assert len({key for key, _ in seen}) == len(seen)
