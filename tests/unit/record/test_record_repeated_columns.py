"""Columns that are the same for many rows, and how much room a decoder takes for what comes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from levada.record.columnar import ColumnDecoder
from levada.record.columnar.buffers import runs_array
from record_kit import NOW_MS, build, only_batch

VALUE = b"v" * 10_000
LARGE = [(NOW_MS, None, VALUE, ())] * 50
SMALL = [(NOW_MS, None, b"v", ())]


@given(runs=st.lists(st.tuples(st.sampled_from(["a", "zwölf", "b" * 249]), st.integers(1, 3000)), min_size=1, max_size=5))
def test_texts_are_written_out_run_by_run(runs: list[tuple[str, int]]) -> None:
    assert written_out(runs).to_pylist() == [value for value, rows in runs for _ in range(rows)]


@given(runs=st.lists(st.tuples(st.integers(-1, 2**31 - 1), st.integers(1, 50)), min_size=1, max_size=5))
def test_numbers_are_written_out_run_by_run(runs: list[tuple[int, int]]) -> None:
    found = written_out(runs)

    found.validate(full=True)
    assert found.type == pa.int32()
    assert found.to_pylist() == [value for value, rows in runs for _ in range(rows)]


def written_out(runs: list[tuple[Any, int]]) -> pa.Array:
    ends = [sum(rows for _, rows in runs[: place + 1]) for place in range(len(runs))]
    return runs_array(ends, [value for value, _ in runs])


def test_batches_of_one_topic_share_its_column() -> None:
    decoder = ColumnDecoder(("topic",))

    first, second = (decoded(decoder, LARGE[:rows]) for rows in (40, 50))

    assert second["topic"].buffers()[2].address == first["topic"].buffers()[2].address
    assert first["topic"].to_pylist() == ["t"] * 40


def test_a_text_that_takes_much_memory_is_not_kept() -> None:
    first, second = (runs_array([100_000], ["t" * 200]) for _ in range(2))

    assert second.buffers()[2].address != first.buffers()[2].address


def test_room_is_taken_for_as_much_as_the_largest_of_the_last_four_batches_had() -> None:
    decoder = ColumnDecoder(("value",))
    for rows in (LARGE * 4, SMALL, SMALL, SMALL):
        decoded(decoder, rows)

    assert room_for(decoder, LARGE) >= 4 * len(LARGE) * len(VALUE)
    decoder.discard()
    decoded(decoder, SMALL)
    assert room_for(decoder, LARGE) < 2 * len(LARGE) * len(VALUE)


def room_for(decoder: ColumnDecoder, rows: list[tuple[Any, ...]]) -> int:
    before = pa.total_allocated_bytes()
    decoder.add(only_batch(build(rows)), "t", 0)
    return int(pa.total_allocated_bytes() - before)


def decoded(decoder: ColumnDecoder, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    decoder.add(only_batch(build(rows)), "t", 0)
    return decoder.finish()
