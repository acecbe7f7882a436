"""How the work of a query is divided among tasks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.spark.source.planning import Span, Splitting, TaskSpans, cut, plan
from levada.types import TopicPartition

T0, T1, T2, T3 = (TopicPartition("t", number) for number in range(4))


def sizes(ends: dict[TopicPartition, int], **splitting: Any) -> list[list[int]]:
    tasks = plan(dict.fromkeys(ends, 0), ends, Splitting(**splitting))
    return [[span.size for span in task.spans] for task in tasks]


def test_small_partitions_share_a_task_in_order() -> None:
    tasks = plan({T0: 0, T1: 5, T2: 0, T3: 0}, {T0: 40, T1: 45, T2: 30, T3: 20}, Splitting(records_per_task=100))
    assert tasks == [TaskSpans((Span(T0, 0, 40), Span(T1, 5, 45))), TaskSpans((Span(T2, 0, 30), Span(T3, 0, 20)))]


def test_a_large_partition_has_a_task_of_its_own() -> None:
    assert sizes({T0: 500, T1: 10, T2: 10}, records_per_task=100) == [[500], [10, 10]]


def test_partitions_without_news_have_none() -> None:
    assert plan({T0: 5, T1: 9}, {T0: 5, T1: 3}, Splitting()) == []


def test_a_maximum_cuts_partitions_and_is_not_passed_by_sharing() -> None:
    assert sizes({T0: 25, T1: 4}, max_records=10) == [[8], [8], [9], [4]]
    assert sizes({T0: 4, T1: 4, T2: 4}, max_records=10) == [[4, 4], [4]]


@pytest.mark.parametrize(
    ("ends", "wanted", "expected"),
    [
        ({T0: 100, T1: 100}, 4, [[50], [50], [50], [50]]),
        ({T0: 100, T1: 1}, 4, [[33], [33], [34], [1]]),
        ({T0: 100, T1: 100, T2: 100}, 2, [[100], [100], [100]]),
        ({T0: 2}, 5, [[1], [1]]),
    ],
)
def test_a_minimum_of_tasks_cuts_the_largest_and_lets_nothing_share(ends: Any, wanted: int, expected: Any) -> None:
    assert sizes(ends, min_partitions=wanted) == expected


def test_pieces_of_one_partition_that_meet_in_a_task_are_one_span() -> None:
    (task,) = plan({T0: 0}, {T0: 10}, Splitting(max_records=10))
    assert task.spans == (Span(T0, 0, 10),)


@given(st.integers(0, 10**12), st.integers(1, 10**12), st.integers(1, 50))
def test_pieces_follow_one_another_and_are_nearly_equal(start: int, size: int, parts: int) -> None:
    pieces = list(cut(Span(T0, start, start + size), parts))
    assert [pieces[0].start, pieces[-1].end] == [start, start + size]
    assert all(first.end == second.start for first, second in pairwise(pieces))
    assert max(piece.size for piece in pieces) - min(piece.size for piece in pieces) <= 1


@given(
    st.dictionaries(st.sampled_from([T0, T1, T2, T3]), st.tuples(st.integers(0, 100), st.integers(0, 500))),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 200),
    st.integers(1, 400),
)
def test_every_offset_is_read_once_and_in_order(ranges: Any, least: Any, most: Any, per_task: int) -> None:
    start = {tp: begin for tp, (begin, _) in ranges.items()}
    end = {tp: begin + size for tp, (begin, size) in ranges.items()}
    tasks = plan(start, end, Splitting(least, most, per_task))
    read = [(span.tp, offset) for task in tasks for span in task.spans for offset in range(span.start, span.end)]
    assert read == [(tp, offset) for tp in sorted(start) for offset in range(start[tp], end[tp])]
    assert all(len({span.tp for span in task.spans}) == len(task.spans) for task in tasks), "one span of each partition in a task"
    if most is not None:
        assert all(span.size <= most for task in tasks for span in task.spans)
