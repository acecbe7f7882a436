"""Where a decoder stops by itself, and that other threads run while it works."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from array import array
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrow_memory import at_most
from levada.record.batch import RecordBatch, assign_offsets
from levada.record.builder import BinaryColumn, HeaderColumn, RowWriter, group_rows
from levada.record.columnar import COLUMNS, ColumnDecoder, decoder
from levada.record.compression import Codec
from levada.record.reader import COMPILED, BinarySink, RecordSink, RecordWalker
from levada.wire.murmur2 import partitions_for_keys
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


def test_a_decoder_without_records_makes_its_empty_batch_once() -> None:
    rows = only_batch(build([(NOW_MS, None, b"v")]))
    sink = ColumnDecoder()
    empty = sink.finish()
    assert (empty.num_rows, empty.schema) == (0, sink.schema)
    sink.add(rows, "t", 0)
    assert sink.finish()["value"].to_pylist() == [b"v"]
    assert sink.finish() is empty
    # Where records were looked at, and none was wanted, it begins anew as well.
    sink.add(rows, "t", 0, limit=0)
    assert sink.finish().equals(empty)
    sink.add(rows, "t", 0)
    assert sink.finish().num_rows == 1


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
def test_the_size_reported_is_about_that_of_the_arrow_batch(column: str) -> None:
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


ROWS = 500_000


def ticks_meanwhile(work: Callable[[], object]) -> int:
    """How often another thread got the interpreter while `work` ran; it does only where that is given up, not by the clock."""
    ticks = 0
    running, over = threading.Event(), threading.Event()

    def tick() -> None:
        nonlocal ticks
        running.set()
        while not over.is_set():
            ticks += 1
            time.sleep(0)

    usual = sys.getswitchinterval()
    thread = threading.Thread(target=tick)
    thread.start()
    running.wait()
    sys.setswitchinterval(60)
    try:
        before = ticks
        work()
        return ticks - before
    finally:
        sys.setswitchinterval(usual)
        over.set()
        thread.join()


def lets_others_run(work: Callable[[], object]) -> bool:
    # On a busy machine the other thread may be too late, now and then.
    return any(ticks_meanwhile(work) for _ in range(50))


def numbers(kind: str, number: int, count: int) -> memoryview:
    return memoryview(array(kind, [number]) * count)


only_compiled = pytest.mark.skipif(not COMPILED, reason="interpreted code cannot give up the interpreter")


def export_buffer(sink: BinarySink) -> None:
    sink.attach(memoryview(bytearray(10 * ROWS)), numbers("i", 0, ROWS + 1), numbers("B", 0xFF, ROWS))


@only_compiled
def test_other_threads_run_while_columns_are_decoded() -> None:
    batch = only_batch(build([(NOW_MS, None, b"0123456789", (("h", b"x"),))] * ROWS))
    batch.payload(batch.size_bytes)

    def fill() -> tuple[RecordSink, RecordWalker]:
        sink, walker = RecordSink(("value", "offset", "headers"), 2**31 - 1), batch.walker()
        export_buffer(sink.value)
        sink.attach(numbers("q", 0, ROWS), None)
        sink.headers.attach(numbers("i", 0, ROWS + 1), numbers("q", 0, ROWS))
        sink.fill(walker, 0, ROWS, ROWS)
        assert sink.rows == ROWS
        return sink, walker

    def copy() -> None:
        for sink in (headers.keys, headers.values):
            export_buffer(sink)
        headers.copy(walker)
        assert headers.values.rows == ROWS
        for sink in (headers.keys, headers.values):
            sink.rewind(0)

    assert lets_others_run(fill)
    filled, walker = fill()
    headers = filled.headers
    assert lets_others_run(copy)


@only_compiled
def test_other_threads_run_while_columns_are_measured_and_sorted() -> None:
    fields = BinaryColumn(bytes(10 * ROWS), memoryview(array("q", range(0, 10 * ROWS + 1, 10))))
    nothing = BinaryColumn()
    writer = RowWriter(fields, fields, HeaderColumn(nothing, nothing, nothing), numbers("q", NOW_MS, ROWS), 0)
    keys = bytes(10 * ROWS), memoryview(array("q", range(0, 10 * ROWS + 1, 10))), None, 0
    sizes = numbers("q", 0, ROWS)

    assert lets_others_run(lambda: writer.measure(sizes))
    assert lets_others_run(lambda: partitions_for_keys(*keys, 1, numbers("i", -1, ROWS)))
    assert lets_others_run(lambda: group_rows(numbers("i", 0, ROWS), 0, numbers("q", 0, 2), numbers("q", 0, ROWS)))
