"""Chunks into records and columns: what is handed out, what is a gap, what nobody can read, and what is left for a later call."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from consumer_kit import batch, emptied
from levada.consumer.fetch.decode import RecordConverter
from levada.consumer.share.acquired import Acquired, Batches, Chunk
from levada.consumer.share.decoding import ColumnSteps, RecordSteps, Step
from levada.errors import CorruptRecordError, RecordDeserializationError
from levada.record.compression import Codec
from levada.types import TopicPartition

TP = TopicPartition("t", 0)
MOST = 1 << 20


def chunk(data: bytes, *acquired: tuple[int, int, int]) -> Chunk:
    return Chunk(TP, UUID(int=7), 1, Batches(data, check_crcs=True), tuple(Acquired(*part) for part in acquired), 1_000)


def steps(deserializer: Any = None, on_error: Any = None) -> RecordSteps:
    def converter(passed: Any) -> RecordConverter:
        def noted(given: Any, error: RecordDeserializationError) -> Any:
            if on_error == "skip":
                passed(error.record)
                return None
            raise error

        return RecordConverter(value_deserializer=deserializer, on_error=noted)

    return RecordSteps(converter, MOST)


def runs(found: Any) -> list[tuple[int, int]]:
    return [(run.first, run.last) for run in found]


def decided(step: Step) -> list[tuple[int, int, str]]:
    return sorted((run.first, run.last, run.mark.name) for run in step.decided)


def test_only_what_was_acquired_is_handed_out_with_its_count() -> None:
    data = batch(0, [b"0", b"1", b"2", b"3", b"4", b"5"]) + batch(6, [b"6", b"7"])
    records, (step,) = steps().take([chunk(data, (1, 2, 1), (5, 6, 3))], 100)
    assert [(record.offset, record.value, record.delivery_count) for record in records] == [
        (1, b"1", 1),
        (2, b"2", 1),
        (5, b"5", 3),
        (6, b"6", 3),
    ]
    assert (runs(step.given), decided(step), step.rest) == ([(1, 2), (5, 5), (6, 6)], [], None)


def test_markers_compacted_records_and_missing_batches_are_gaps() -> None:
    compacted = batch(4, [b"4", b"5"], last_offset=7)
    data = batch(0, [b"0"]) + batch(1, control=1) + emptied(batch(2, [b"x"])) + compacted
    records, (step,) = steps().take([chunk(data, (0, 9, 1))], 100)
    assert [record.offset for record in records] == [0, 4, 5]
    assert decided(step) == [(1, 1, "GAP"), (2, 2, "GAP"), (3, 3, "GAP"), (6, 7, "GAP"), (8, 9, "GAP")]
    assert step.rest is None


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_what_a_call_does_not_take_is_left_for_the_next(limit: int) -> None:
    data = batch(0, [b"0", b"1", b"2"]) + batch(3, [b"3", b"4"], last_offset=5)
    left: Chunk | None = chunk(data, (0, 5, 2))
    seen, gaps = list[int](), list[tuple[int, int, str]]()
    while left is not None:
        records, (step,) = steps().take([left], limit)
        assert len(records) <= limit
        seen += [record.offset for record in records]
        gaps += decided(step)
        left = step.rest
    assert (seen, gaps) == ([0, 1, 2, 3, 4], [(5, 5, "GAP")])


def test_a_record_that_does_not_deserialize_goes_out_after_those_before_it() -> None:
    data = batch(0, [b"0", b"x", b"2"])
    records, (step,) = steps(int).take([chunk(data, (0, 2, 1))], 100)
    assert ([record.value for record in records], step.error) == ([0], None)
    assert step.rest is not None
    records, (step,) = steps(int).take([step.rest], 100)
    assert (records, runs(step.doubtful)) == ([], [(1, 1)])
    assert isinstance(step.error, RecordDeserializationError)
    assert step.rest is not None
    records, (step,) = steps(int).take([step.rest], 100)
    assert ([record.value for record in records], step.rest) == ([2], None)


def test_a_record_that_is_passed_over_is_rejected() -> None:
    records, (step,) = steps(int, "skip").take([chunk(batch(0, [b"0", b"x", b"2"]), (0, 2, 1))], 100)
    assert [record.value for record in records] == [0, 2]
    assert decided(step) == [(1, 1, "REJECT")]


def damaged(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def test_a_damaged_batch_is_rejected_as_a_whole() -> None:
    data = batch(0, [b"0"]) + damaged(batch(1, [b"1", b"2"])) + batch(3, [b"3"])
    records, (step,) = steps().take([chunk(data, (0, 3, 1))], 100)
    assert ([record.offset for record in records], step.error) == ([0], None)
    assert step.rest is not None
    records, (step,) = steps().take([step.rest], 100)
    assert isinstance(step.error, CorruptRecordError)
    assert "t-0 at offset 1: " in str(step.error)
    assert (decided(step), records) == ([(1, 2, "REJECT")], [])
    assert step.rest is not None
    records, _ = steps().take([step.rest], 100)
    assert [record.offset for record in records] == [3]


def test_a_batch_that_cannot_be_unpacked_here_is_released() -> None:
    data = batch(0, [b"x" * 1000] * 3, codec=Codec.GZIP)
    steps_of_little = RecordSteps(lambda passed: RecordConverter(), 100)
    records, (step,) = steps_of_little.take([chunk(data, (0, 2, 1))], 100)
    assert (records, decided(step)) == ([], [(0, 2, "RELEASE")])
    assert "t-0 at offset 0: " in str(step.error)
    assert "another member may be able to read them" in str(step.error)


def test_data_that_is_no_batch_does_not_turn_into_gaps() -> None:
    data = batch(0, [b"0"]) + b"\x00" * 16 + b"\x09" * 60
    _, (step,) = steps().take([chunk(data, (0, 0, 1), (5, 9, 1))], 100)
    assert step.rest is not None
    _, (step,) = steps().take([step.rest], 100)
    assert isinstance(step.error, CorruptRecordError)
    assert decided(step) == [(5, 9, "REJECT")]


def columns(data: bytes, acquired: tuple[tuple[int, int, int], ...], limit: int | None = None, **kind: Any) -> tuple[Any, Step]:
    columnar = pytest.importorskip("levada.record.columnar")
    text = kind.pop("text", ())
    sink = columnar.AcquiredColumns(("offset", "value", "delivery_count"), MOST, text=text, null_bad_text=False)
    made = ColumnSteps(sink, lambda error: kind.get("passes_over", False))
    (step,) = made.take([chunk(data, *acquired)], limit, MOST)
    found, offsets = sink.finish_with_offsets()
    made.settle(offsets)
    return found, step


def test_columns_have_what_records_would() -> None:
    data = batch(0, [b"0", b"1", b"2"]) + batch(3, control=1) + batch(4, [b"4", b"5"], last_offset=7)
    found, step = columns(data, ((1, 2, 1), (3, 7, 4)))
    assert found.to_pydict() == {"offset": [1, 2, 4, 5], "value": [b"1", b"2", b"4", b"5"], "delivery_count": [1, 1, 4, 4]}
    assert (runs(step.given), decided(step), step.rest) == ([(1, 2), (4, 5)], [(3, 3, "GAP"), (6, 7, "GAP")], None)


def test_columns_stop_at_their_limit() -> None:
    data = batch(0, [b"0", b"1", b"2"]) + batch(3, [b"3"])
    found, step = columns(data, ((0, 3, 1),), limit=2)
    assert (found["offset"].to_pylist(), runs(step.given)) == ([0, 1], [(0, 1)])
    assert step.rest is not None
    assert step.rest.acquired == (Acquired(2, 3, 1),)


def test_text_that_is_none_ends_a_batch_of_columns_or_is_rejected() -> None:
    data = batch(0, [b"a", b"\xff", b"c"])
    found, step = columns(data, ((0, 2, 1),), text=("value",))
    assert (found["value"].to_pylist(), step.error) == (["a"], None)
    assert step.rest is not None
    assert step.rest.acquired == (Acquired(1, 2, 1),)
    found, step = columns(data, ((1, 2, 1),), text=("value",))
    assert isinstance(step.error, RecordDeserializationError)
    assert (found.num_rows, runs(step.doubtful)) == (0, [(1, 1)])
    found, step = columns(data, ((0, 2, 1),), text=("value",), passes_over=True)
    assert (found["value"].to_pylist(), decided(step)) == (["a", "c"], [(1, 1, "REJECT")])
