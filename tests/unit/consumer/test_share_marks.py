"""Marks of offsets, as runs, against a plain mapping of offsets to marks; and how acknowledgements are written as runs."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from levada.consumer.share.acknowledging import LONG_RUN, ack_batches
from levada.consumer.share.offset_marks import Mark, OffsetMarks, Run, runs_of

MARKS = st.sampled_from([Mark.UNDECIDED, Mark.ACCEPT, Mark.GAP, None])
CHANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), MARKS), max_size=12)


@given(CHANGES, st.integers(0, 40), st.integers(0, 20))
def test_runs_say_what_a_mapping_would(changes: list[tuple[int, int, Mark | None]], first: int, length: int) -> None:
    marks, mapping = OffsetMarks(), dict[int, Mark]()
    for begin, more, mark in changes:
        marks.put(begin, begin + more, mark)
        for offset in range(begin, begin + more + 1):
            if mark is None:
                mapping.pop(offset, None)
            else:
                mapping[offset] = mark
    assert {offset: run.mark for run in marks.runs() for offset in run.offsets} == mapping
    assert bool(marks) == bool(mapping)
    assert [marks.at(offset) for offset in range(50)] == [mapping.get(offset) for offset in range(50)]
    last = first + length
    wanted = {offset: mark for offset, mark in mapping.items() if first <= offset <= last}
    assert {offset: run.mark for run in marks.runs(first, last) for offset in run.offsets} == wanted
    decided = frozenset({Mark.ACCEPT, Mark.GAP})
    assert marks.covers(first, last, decided) == all(mapping.get(offset) in decided for offset in range(first, last + 1))


@given(CHANGES)
def test_runs_that_touch_with_the_same_mark_are_one(changes: list[tuple[int, int, Mark | None]]) -> None:
    marks = OffsetMarks()
    for begin, more, mark in changes:
        marks.put(begin, begin + more, mark)
    runs = list(marks.runs())
    assert all(before.last + 1 < after.first or before.mark is not after.mark for before, after in itertools.pairwise(runs))


def test_offsets_become_runs() -> None:
    assert runs_of([3, 4, 5, 9, 11, 12], Mark.ACCEPT) == [Run(3, 5, Mark.ACCEPT), Run(9, 9, Mark.ACCEPT), Run(11, 12, Mark.ACCEPT)]
    assert runs_of([], Mark.ACCEPT) == []


TYPES = st.sampled_from([Mark.GAP, Mark.ACCEPT, Mark.RELEASE, Mark.REJECT])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, LONG_RUN + 5), TYPES), max_size=12))
def test_acknowledgements_say_of_each_offset_what_became_of_it(parts: list[tuple[int, int, Mark]]) -> None:
    """A broker reads one type for all offsets of a batch, or one for each."""
    wanted, runs, at = dict[int, int](), list[Run](), 0
    for gap, length, mark in parts:
        at += gap
        runs.append(Run(at, at + length - 1, mark))
        wanted.update(dict.fromkeys(range(at, at + length), int(mark)))
        at += length
    batches = ack_batches(reversed(runs))
    found: dict[int, int] = {}
    for first, last, types in batches:
        assert len(types) in (1, last - first + 1)
        assert not found or first > max(found), "batches are in order and do not overlap"
        found.update(zip(range(first, last + 1), types * (last - first + 1) if len(types) == 1 else types, strict=True))
    assert found == wanted


def test_a_whole_batch_is_one_type() -> None:
    assert [batch.types for batch in ack_batches([Run(0, 99_999, Mark.ACCEPT)])] == [[1]]
    assert [batch.types for batch in ack_batches([Run(0, 1, Mark.ACCEPT), Run(2, 3, Mark.ACCEPT)])] == [[1]]
    assert [batch.types for batch in ack_batches([Run(0, 1, Mark.ACCEPT), Run(2, 2, Mark.REJECT)])] == [[1, 1, 3]]
