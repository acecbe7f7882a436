from __future__ import annotations

from levada.api.consumer.iterations import Iteration
from levada.types import AnyRecord, ConsumerRecord

RECORDS: list[AnyRecord] = [ConsumerRecord("t", 0, offset, 0, 0, None, b"", (), 0) for offset in range(5)]


def test_a_loop_that_is_left_leaves_what_it_was_not_given() -> None:
    iteration = Iteration(RECORDS, generation=1)
    for record in iteration.coming:
        if record.offset == 2:
            break

    assert iteration.given == 3
    assert iteration.left == RECORDS[3:]
    assert not iteration.is_over


def test_a_loop_is_given_nothing_after_the_end() -> None:
    iteration = Iteration(RECORDS, generation=1)
    seen = []
    for record in iteration.coming:
        seen.append(record)
        if record.offset == 1:
            iteration.end()

    assert seen == RECORDS[:2]
    assert iteration.is_over
    assert (iteration.given, iteration.left) == (2, RECORDS[2:])


def test_a_loop_that_was_given_everything_leaves_nothing() -> None:
    iteration = Iteration(RECORDS, generation=1)
    assert list(iteration.coming) == RECORDS
    assert (iteration.given, iteration.left) == (5, [])

    iteration.end()
    assert (iteration.given, iteration.left) == (5, [])


def test_of_no_records_none_are_given() -> None:
    iteration = Iteration([], generation=1)
    iteration.end()

    assert (iteration.given, iteration.left) == (0, [])
