"""Where a decoder stops by itself, and that other threads run while it works."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrow_memory import at_most
from penstock.record.batch import RecordBatch, assign_offsets
from penstock.record.columnar import COLUMNS, ColumnDecoder, decoder, encode_columns
from penstock.record.compression import Codec
from penstock.record.reader import COMPILED
from record_kit import CODECS, NOW_MS, build, forge, only_batch, raw_record, records


def read_split(batch: RecordBatch, **options: Any) -> list[pa.RecordBatch]:
    """Read a batch as poll_arrow() does: a new Arrow batch whenever one is full."""
    sink = ColumnDecoder(**options)
    parts, at = [], 0
    while at < batch.next_offset:
        _, following = sink.add(batch, "t", 0, start_offset=at)
        if following == at:
            assert sink.rows, "an empty decoder takes at least one record"
            parts.append(sink.finish())
        at = following
    return [*parts, sink.finish()]


@given(rows=records, codec=st.sampled_from(CODECS), room=st.integers(200, 400))
def test_what_does_not_fit_one_arrow_batch_is_split_over_several(rows: list[tuple[Any, ...]], codec: Codec, room: int) -> None:
    batch = build(rows, codec)
    assign_offsets(batch, base_offset=0, leader_epoch=0)

    parts = read_split(only_batch(batch), max_column_bytes=room)

    (whole,) = read_split(only_batch(batch))
    assert pa.Table.from_batches(parts).combine_chunks().equals(pa.Table.from_batches([whole]))
    for part, name in itertools.product(parts, ("key", "value")):
        part.validate(full=True)
        assert sum(len(data or b"") for data in part[name].to_pylist()) <= room
    for part, name in itertools.product(parts, ("key", "value")):
        fields = [header[name] for row in part["headers"].to_pylist() for header in row]
        assert sum(len(field.encode() if isinstance(field, str) else field or b"") for field in fields) <= room


def test_records_that_take_no_bytes_fill_a_decoder_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "_MOST_ROWS", 100)
    payload = b"".join(raw_record(offset=row) for row in range(250))
    batch = only_batch(forge(payload, records_count=250, last_offset_delta=249))
    sink = ColumnDecoder()

    assert sink.add(batch, "topic", 0) == (100, 100)
    assert sink.nbytes >= sum(column.nbytes for column in _columns(batch, 100)) * 0.95
    assert sink.add(batch, "topic", 0, start_offset=100, limit=1000) == (100, 200)
    assert sink.add(batch, "topic", 0, start_offset=200) == (50, 250)
    assert sink.finish()["offset"].to_pylist() == list(range(250))


def _columns(batch: RecordBatch, rows: int) -> list[pa.Array]:
    sink = ColumnDecoder()
    sink.add(batch, "topic", 0, limit=rows)
    return list(sink.finish().columns)


@pytest.mark.parametrize("column", COLUMNS)
def test_the_size_told_is_about_that_of_the_arrow_batch(column: str) -> None:
    rows = [(NOW_MS, b"k" * 9, b"v" * 30, (("h", b"x"), ("i", None)))] * 1000
    sink = ColumnDecoder((column,))
    sink.add(only_batch(build(rows)), "some-topic", 0)

    assert sink.nbytes == pytest.approx(sink.finish().nbytes, rel=0.06, abs=0)


def test_unwanted_columns_take_no_memory() -> None:
    batch = only_batch(build([(NOW_MS, b"k" * 100, b"v" * 1000, (("h", b"x" * 100),))] * 1000))

    with at_most(20_000):
        sink = ColumnDecoder(("offset", "partition"))
        sink.add(batch, "t", 0)
        assert sink.finish().num_rows == 1000


ROWS = 1_500_000 if COMPILED else 20_000


def longest_pause(work: Callable[[], object]) -> float:
    """How long another thread stood still while `work` ran, as a part of its time."""
    ticks: list[float] = []
    running = threading.Event()
    over = threading.Event()

    def tick() -> None:
        while not over.is_set():
            ticks.append(time.perf_counter())
            if len(ticks) == 1:
                running.set()
            time.sleep(0)

    thread = threading.Thread(target=tick)
    thread.start()
    running.wait()
    begun = time.perf_counter()
    work()
    ended = time.perf_counter()
    over.set()
    thread.join()
    within = [begun, *(at for at in ticks if begun < at < ended), ended]
    return max(later - earlier for earlier, later in itertools.pairwise(within)) / (ended - begun)


def test_other_threads_run_while_columns_are_decoded() -> None:
    table = pa.table({"value": pa.array([b"0123456789"] * ROWS)})
    batches, _ = encode_columns(table, **_everything_to_one_partition(batch_size=ROWS * 40))
    (only,) = batches
    batch = only_batch(only.data)

    def decode() -> None:
        sink = ColumnDecoder(("value", "offset", "timestamp"), max_decompressed=len(only.data))
        at = 0
        while at < batch.next_offset:
            _, at = sink.add(batch, "t", 0, start_offset=at)

    assert min(longest_pause(decode) for _ in range(5)) < 0.5


def test_other_threads_run_while_columns_are_encoded() -> None:
    table = pa.table({"value": pa.array([b"0123456789"] * ROWS)})

    def encode() -> None:
        batches, _ = encode_columns(table, **_everything_to_one_partition(batch_size=ROWS * 40))
        assert sum(batch.record_count for batch in batches) == ROWS

    assert min(longest_pause(encode) for _ in range(5)) < 0.5


def _everything_to_one_partition(batch_size: int) -> dict[str, Any]:
    columns = {"key": None, "value": "value", "headers": None, "timestamp": None, "partition": None}
    options = {"partition_count": 1, "next_sticky_partition": lambda: 0, "codec": Codec.NONE, "level": None}
    return {**columns, **options, "batch_size": batch_size, "max_record_size": 10**6, "now_ms": NOW_MS}
