"""Calls for a few records as columns get slices of what was decoded once; to the caller it is as if each had decoded its own."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from consumer_kit import Bench, batch, run_flow
from levada.consumer.fetch.fetch_collector import AHEAD_ROWS
from levada.errors import CorruptRecordError, RecordDeserializationError
from levada.record.batch import RecordBatch
from levada.record.columnar import ColumnDecoder
from levada.record.compression import Codec
from levada.types import IsolationLevel, TopicPartition
from settings_kit import read_options

TP = TopicPartition("orders", 0)
LARGE = 1 << 30
ABORT = 0


class Reader:
    """Reads a bench's partitions in parts, with one decoder, as a consumer does."""

    def __init__(self, bench: Bench, columns: tuple[str, ...] = ("partition", "offset"), text: tuple[str, ...] = ()) -> None:
        self.bench = bench
        self.sink = ColumnDecoder(columns, notes_offsets=True, text=text)

    def part(self, limit: int, max_bytes: int = LARGE) -> Any:
        """The next Arrow batch, None without records."""
        self.sink.discard()
        collector = self.bench.collector
        found = collector.take_ahead(self.sink, limit, max_bytes)
        if found is None:
            collector.begin()
            found = run_flow(collector.collect_part(self.sink, limit, max_bytes))
        return found

    def offsets(self, limit: int) -> list[int]:
        found = self.part(limit)
        return [] if found is None else found["offset"].to_pylist()


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The base offsets of the batches that were decoded, each time."""
    made: list[int] = []
    make = RecordBatch.walker

    def walker(batch: RecordBatch, *limits: int) -> object:
        made.append(batch.base_offset)
        return make(batch, *limits)

    monkeypatch.setattr(RecordBatch, "walker", walker)
    return made


def filled(*data: bytes, **settings: Any) -> Bench:
    bench = Bench(**settings)
    bench.assign(0)
    for piece in data:
        bench.fetched(piece)
    return bench


def test_parts_share_the_memory_of_columns_that_were_decoded_once(walked: list[int]) -> None:
    large = Random(1).randbytes(100_000)
    bench = filled(batch(0, [large, *[b"v"] * 9], codec=Codec.GZIP) + batch(10, [large, b"v"], codec=Codec.GZIP))
    reader = Reader(bench)
    parts = [reader.part(5) for _ in range(3)]
    assert [part["offset"].to_pylist() for part in parts] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]
    assert len({part["offset"].buffers()[1].address for part in parts}) == 1
    assert walked == [0, 10]
    assert reader.part(5) is None


def test_the_position_follows_the_parts() -> None:
    bench = filled(
        batch(0, [b""] * 3, last_offset=9, epoch=1) + batch(10, control=1, producer=(1, 1), epoch=2) + batch(15, [b""] * 2, epoch=3)
    )
    reader, seen = Reader(bench), []
    for limit in (2, 1, 1, 1):
        offsets = reader.offsets(limit)
        state = bench.subscription.state(TP)
        seen.append((offsets, state.position, state.leader_epoch))
    # Behind a batch it is the batch's own end, with its epoch: one that is older than the offset would look like a truncation (KIP-320).
    assert seen == [([0, 1], 2, 1), ([2], 10, 1), ([15], 16, 3), ([16], 17, 3)]
    assert not bench.subscription.state(TP).buffered


def test_a_part_ends_with_what_was_decoded_and_begins_with_small_entries() -> None:
    bench = Bench()
    bench.assign(0, 0, 0)
    for partition, count in enumerate((1, 1, 7)):
        bench.fetched(batch(0, [b""] * count), partition=partition)
    bench.fetched(batch(7, [b""] * 4), partition=2)
    reader = Reader(bench)
    found = [list(zip(*reader.part(4).to_pydict().values(), strict=True)) for _ in range(4)]
    assert found == [
        [(0, 0), (1, 0), (2, 0), (2, 1)],
        [(2, 2), (2, 3), (2, 4), (2, 5)],
        [(2, 6)],
        [(2, 7), (2, 8), (2, 9), (2, 10)],
    ]


def test_an_entry_is_decoded_only_so_far_ahead() -> None:
    rows = AHEAD_ROWS + 10
    bench = filled(batch(0, [b""] * rows))
    reader = Reader(bench)
    first = reader.part(1)
    assert first["offset"].buffers()[1].parent.size < 2 * 8 * AHEAD_ROWS + 64
    assert reader.offsets(AHEAD_ROWS) == list(range(1, AHEAD_ROWS))
    assert reader.offsets(AHEAD_ROWS) == list(range(AHEAD_ROWS, rows))


def test_what_was_decoded_is_dropped_when_the_position_is_moved_by_force() -> None:
    bench = filled(batch(0, [b""] * 6))
    reader = Reader(bench)
    assert reader.offsets(2) == [0, 1]
    bench.subscription.seek(TP, 4)
    bench.buffer.drop_stale()
    assert reader.offsets(2) == []
    bench.fetched(batch(0, [b""] * 6))
    assert reader.offsets(9) == [4, 5]


def test_F8_a_paused_partition_keeps_what_is_left() -> None:
    bench = Bench()
    bench.assign(0, 0)
    bench.fetched(batch(0, [b""] * 4), partition=0)
    bench.fetched(batch(0, [b""] * 2), partition=1)
    reader = Reader(bench)
    assert reader.offsets(1) == [0]
    bench.subscription.pause([TP])
    assert reader.part(1).to_pydict() == {"partition": [1], "offset": [0]}
    bench.subscription.resume([TP], 0)
    assert reader.offsets(9) == [1, 2, 3, 1]
    assert (bench.position(0), bench.position(1)) == (4, 2)


def test_other_columns_are_decoded_anew() -> None:
    bench = filled(batch(0, [b"a", b"b", b"c"]))
    offsets, values = Reader(bench), Reader(bench, ("value",))
    assert offsets.offsets(1) == [0]
    assert values.part(1).to_pydict() == {"value": [b"b"]}
    assert bench.position() == 2
    assert bench.offsets() == [2]


def test_a_call_that_was_lost_is_taken_back() -> None:
    bench = filled(batch(0, [b""] * 6))
    reader = Reader(bench)
    assert reader.offsets(2) == [0, 1]
    assert reader.offsets(2) == [2, 3]
    bench.collector.take_back(bench.collector.calls)
    assert bench.position() == 2
    bench.fetched(batch(0, [b""] * 6))
    assert reader.offsets(9) == [2, 3, 4, 5]


def test_while_rows_are_left_nobody_waits_for_a_broker() -> None:
    bench = filled(batch(0, [b""] * 6))
    reader = Reader(bench)
    assert reader.offsets(4) == [0, 1, 2, 3]
    part = bench.collector.take_ahead(reader.sink, 4, LARGE, now_ms=90_000)
    assert part["offset"].to_pylist() == [4, 5]
    # A silent broker is told by how long ago it was heard: not while its data lay here.
    assert bench.subscription.state(TP).heard_ms == 90_000


def test_a_fault_comes_once_the_rows_before_it_are_out() -> None:
    damaged = bytearray(batch(4, [b"v"] * 2))
    damaged[-1] ^= 1
    bench = filled(batch(0, [b""] * 4) + bytes(damaged))
    reader = Reader(bench)
    assert [reader.offsets(3) for _ in range(2)] == [[0, 1, 2], [3]]
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match="at offset 4"):
            reader.part(3)
    assert bench.position() == 4


def test_text_that_is_not_utf8_stays_next_in_line() -> None:
    bench = filled(batch(0, [b"a", b"b", b"\xff", b"c"]))
    reader = Reader(bench, ("value",), text=("value",))
    assert [reader.part(1).to_pydict()["value"] for _ in range(2)] == [["a"], ["b"]]
    with pytest.raises(RecordDeserializationError):
        reader.part(1)
    assert bench.position() == 2


def test_F25_what_was_aborted_is_not_among_the_parts() -> None:
    data = batch(0, [b""] * 2, producer=(7, 0)) + batch(2, [b""] * 2) + batch(4, producer=(7, 0), control=ABORT) + batch(5, [b""] * 2)
    bench = Bench(options=read_options(isolation_level=IsolationLevel.READ_COMMITTED))
    bench.assign(0)
    bench.fetched(data, aborted=((7, 0),))
    reader = Reader(bench)
    found = [(reader.offsets(1), bench.position()) for _ in range(4)]
    assert found == [([2], 3), ([3], 4), ([5], 6), ([6], 7)]


def test_data_that_is_copied_while_memory_is_short_is_read_on() -> None:
    bench = filled(batch(0, [b"x" * 500] * 4) + batch(4, [b"x" * 500] * 4))
    reader = Reader(bench)
    bench.buffer.limit_bytes = 1
    found = [reader.offsets(1)[0] for _ in range(8)]
    assert found == list(range(8))
    assert bench.buffer.size_bytes == 0


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_calls_reads_every_record_once(seed: int) -> None:
    random = Random(seed)
    bench = Bench()
    bench.assign(0, 0)
    for partition in range(2):
        for piece in range(3):
            codec = random.choice([Codec.NONE, Codec.ZSTD])
            first, second = batch(piece * 30, [b"v"] * 20, codec=codec), batch(piece * 30 + 20, [b"v"] * 7, last_offset=piece * 30 + 29)
            bench.fetched(first + second, partition=partition)
    expected = [[30 * piece + offset for piece in range(3) for offset in range(27)]] * 2
    readers = [Reader(bench), Reader(bench, ("value", "partition", "offset"))]
    found: list[list[int]] = [[], []]
    while any(len(offsets) < 81 for offsets in found):
        what, limit = random.random(), random.choice([1, 3, 10, 40])
        if what < 0.1:
            tp = TopicPartition("orders", random.randrange(2))
            (bench.subscription.resume([tp], 0) if bench.subscription.state(tp).paused else bench.subscription.pause([tp]))
            continue
        if what < 0.3:
            rows = [(record.partition, record.offset) for record in bench.records(limit)]
        else:
            part = random.choice(readers).part(limit, random.choice([LARGE, LARGE, 1]))
            rows = [] if part is None else list(zip(part["partition"].to_pylist(), part["offset"].to_pylist(), strict=True))
        assert len(rows) <= limit
        for partition, offset in rows:
            found[partition].append(offset)
        for partition, offsets in enumerate(found):
            following = [offset for offset in expected[partition] if offset >= bench.position(partition)]
            assert offsets + following == expected[partition]
    assert found == expected
