"""Sequences, marks and the contiguous prefix, without anybody who waits."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

import levada as lv
from levada import aio
from levada.errors import ClosedError, IllegalStateError, NotAcknowledgedError, Persisted, RecordTooLargeError
from odd_error import OddError

FAULT = RuntimeError("refused")
NOW_S = 100.0
FULL = -1


def put(buffer: lv.AckBuffer, *ids: Any) -> list[int]:
    return [buffer._offer(id, NOW_S) for id in ids]


def test_Q3_put_counts_up_and_finds_no_slot_in_a_full_buffer() -> None:
    buffer = lv.AckBuffer(3)

    assert put(buffer, 10, 20, 30) == [0, 1, 2]
    assert put(buffer, 40) == [FULL]
    assert len(buffer) == 3

    buffer.mark(0)
    assert put(buffer, 40) == [FULL]
    assert buffer.drain() == 10
    assert put(buffer, 40) == [3]


def test_Q3_without_retain_a_slot_is_free_as_soon_as_its_id_is_safe() -> None:
    buffer = lv.AckBuffer(3, retain=False)
    put(buffer, 10, 20, 30)

    buffer.mark(1)
    assert put(buffer, 40) == [FULL]

    buffer.mark(0)
    assert put(buffer, 40, 50, 60) == [3, 4, FULL]
    assert buffer.safe == 20
    assert buffer.drain() == 20


def test_Q1_Q2_marks_in_any_order_become_the_order_of_put() -> None:
    buffer = lv.AckBuffer(8)
    put(buffer, *"abcde")

    seen = []
    for sequence in (3, 1, 0, 4, 2):
        assert buffer.mark(sequence)
        seen.append(buffer.safe)

    assert seen == [None, None, "b", "b", "e"]


def test_Q4_mark_is_true_once_and_false_outside_of_the_window() -> None:
    buffer = lv.AckBuffer(4)
    put(buffer, 1, 2, 3)

    assert [buffer.mark(sequence) for sequence in (-1, 3, 1000, 1, 1, 0, 0)] == [False, False, False, True, False, True, False]
    assert buffer.safe == 2
    assert buffer.in_flight == 1


def test_Q4_mark_many_says_how_many_were_new() -> None:
    buffer = lv.AckBuffer(10)
    put(buffer, *range(10))

    assert buffer.mark_many(range(4)) == 4
    assert buffer.mark_many([3, 4, 4, 99, -1, 9]) == 2
    assert buffer.safe == 4


def test_Q4_what_was_marked_before_a_bad_sequence_stays_marked() -> None:
    buffer = lv.AckBuffer(10)
    put(buffer, *range(10))

    bad: Any = [0, 1, "2"]
    with pytest.raises(TypeError):
        buffer.mark_many(bad)

    assert buffer.safe == 1


@pytest.mark.parametrize("sequence", [0.0, 0.5, True, "0", None])
def test_Q4_a_sequence_is_a_whole_number(sequence: Any) -> None:
    buffer = lv.AckBuffer(4)
    put(buffer, 1, 2)

    calls: list[Callable[[], object]] = [
        lambda: buffer.mark(sequence),
        lambda: buffer.fail(sequence, FAULT),
        lambda: buffer.mark_many([sequence]),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=re.escape(f"a sequence is the number that put() returned, got {sequence!r}")):
            call()
    assert buffer.in_flight == 2


def test_Q4_numbers_of_numpy_are_sequences_and_those_that_no_id_can_have_are_outside() -> None:
    class Number:
        def __index__(self) -> int:
            return 0

    buffer = lv.AckBuffer(4)
    put(buffer, 1)
    same: Any = Number()

    assert [buffer.mark(sequence) for sequence in (2**63, -(2**63) - 1, 2**200, same, same)] == [False, False, False, True, False]
    assert buffer.mark_many([2**63, 2**64]) == 0


def test_Q5_Q7_take_gives_every_id_once_in_order_and_only_when_it_is_safe() -> None:
    buffer = lv.AckBuffer(4)
    put(buffer, "a", "b", "c")

    buffer.mark(1)
    assert buffer._take() is None

    buffer.mark(0)
    assert [buffer._take(), buffer._take(), buffer._take()] == ["a", "b", None]
    assert put(buffer, "d", "e", "f") == [3, 4, 5]


def test_Q8_a_late_mark_of_an_old_round_does_not_acknowledge_a_new_id() -> None:
    buffer = lv.AckBuffer(2, retain=False)
    put(buffer, 1, 2)
    buffer.mark_many([0, 1])
    put(buffer, 3, 4)

    assert not buffer.mark(0)
    assert not buffer.fail(1, RuntimeError("late"))
    assert buffer.safe == 2
    assert buffer.failure is None


@pytest.mark.parametrize("id", [5, 4, -1, float("nan")])
def test_Q8_ids_must_rise_strictly(id: Any) -> None:
    buffer = lv.AckBuffer(4)
    put(buffer, 5)

    with pytest.raises(ValueError, match=f"{id} does not come after 5"):
        put(buffer, id)

    assert put(buffer, 6) == [1]


class Partial:
    """Is larger than everything."""

    def __gt__(self, other: object) -> bool:
        return True


@pytest.mark.parametrize("id", [float("nan"), Partial()])
def test_Q8_nothing_would_come_after_the_first_id(id: Any) -> None:
    buffer = lv.AckBuffer(4)
    with pytest.raises(ValueError, match="nothing would come after"):
        put(buffer, id)
    with pytest.raises(ValueError, match="nothing would come after"):
        lv.AckBuffer(4, after=id)

    assert put(buffer, 6) == [0]


class Unshown(int):
    """An id whose repr() raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_Q9_an_id_that_cannot_be_shown_is_named_by_its_type() -> None:
    shown = re.escape("<Unshown whose repr() raises RuntimeError>")
    buffer = lv.AckBuffer(4)
    put(buffer, Unshown(1), Unshown(2))
    with pytest.raises(ValueError, match=f"ids must rise: {shown} does not come after {shown}"):
        put(buffer, Unshown(2))
    buffer.mark(0)
    buffer.fail(1, FAULT)
    assert repr(buffer) == "<AckBuffer: 2 of 4 slots used, 1 ids not safe, safe: <Unshown whose repr() raises RuntimeError>>"
    assert f"id {Unshown.__name__}" not in str(buffer.failure)
    with pytest.raises(
        NotAcknowledgedError, match=f"id {shown} .sequence 1. was not acknowledged: refused; everything up to {shown} is safe"
    ):
        buffer.wait_empty(timeout=0)
    buffer.close()
    with pytest.raises(ClosedError, match=f"everything up to {shown} is safe"):
        put(buffer, 3)


def test_Q8_ids_are_whatever_compares() -> None:
    buffer = lv.AckBuffer(4, after=("binlog.000007", 900))
    with pytest.raises(ValueError, match="must rise"):
        put(buffer, ("binlog.000007", 900))

    assert put(buffer, ("binlog.000007", 901), ("binlog.000008", 4)) == [0, 1]
    incomparable: Any = 5
    with pytest.raises(TypeError):
        put(buffer, incomparable)
    with pytest.raises(TypeError, match="not None"):
        put(buffer, None)


def test_Q1_a_buffer_begins_after_what_the_last_run_stored() -> None:
    buffer = lv.AckBuffer(4, after=70)

    assert buffer.safe == buffer.drain() == 70
    with pytest.raises(ValueError, match="does not come after 70"):
        put(buffer, 70)


def test_Q9_a_failed_id_holds_back_all_behind_it_until_it_is_put_again() -> None:
    buffer = lv.AckBuffer(4)
    put(buffer, 10, 20, 30)
    buffer.mark(0)

    assert buffer.fail(1, RuntimeError("no such topic"))
    assert not buffer.fail(1, RuntimeError("once only"))
    assert not buffer.mark(1), "it has to be put again first"
    assert buffer.mark(2), "those behind it are marked as ever"
    assert buffer.safe == 10

    assert put(buffer, 20) == [1], "the same sequence"
    assert buffer.failure is None
    assert buffer.safe == 10
    assert buffer.mark(1)
    assert buffer.safe == 30


def test_Q9_a_failure_whose_text_cannot_be_made_is_one_as_well() -> None:
    buffer = lv.AckBuffer(4)
    put(buffer, 10)
    buffer.fail(0, OddError("x"))
    assert "was not acknowledged: OddError('x'); everything" in str(buffer.failure)


def test_Q9_the_failure_says_what_failed_why_and_what_to_do() -> None:
    buffer = lv.AckBuffer(4)
    put(buffer, 10, 20, 30)
    buffer.mark(0)
    cause = RecordTooLargeError("too large")
    cause.persisted = Persisted.NO
    buffer.fail(2, RuntimeError("later"))
    buffer.fail(1, cause)

    failure = buffer.failure
    assert isinstance(failure, NotAcknowledgedError)
    assert (failure.id, failure.sequence, failure.safe) == (20, 1, 10)
    assert failure.__cause__ is cause
    assert failure.persisted is Persisted.NO
    assert "id 20 (sequence 1) was not acknowledged: too large" in str(failure)
    assert "; everything up to 10 is safe; put the same id again" in str(failure)


def test_Q9_a_full_buffer_in_which_an_id_has_failed_raises_instead_of_waiting() -> None:
    buffer = lv.AckBuffer(2)
    put(buffer, 1, 2)
    buffer.fail(1, RuntimeError("refused"))

    with pytest.raises(NotAcknowledgedError, match="id 2"):
        put(buffer, 3)
    assert put(buffer, 2) == [1], "a failed id needs no free slot"
    assert put(buffer, 3) == [FULL]


def test_Q9_take_raises_the_failure_in_its_turn() -> None:
    buffer = lv.AckBuffer(4)
    put(buffer, 1, 2, 3)
    buffer.fail(1, RuntimeError("refused"))
    assert buffer._take() is None

    buffer.mark(0)
    assert buffer._take() == 1
    with pytest.raises(NotAcknowledgedError, match="id 2"):
        buffer._take()
    with pytest.raises(NotAcknowledgedError, match="id 2"):
        buffer._is_empty()


def test_Q9_an_id_that_did_not_fail_is_not_put_again() -> None:
    buffer = lv.AckBuffer(4)
    put(buffer, 1, 2, 3)
    buffer.fail(1, RuntimeError("refused"))

    for id in (1, 3):
        with pytest.raises(ValueError, match="only an id that has failed"):
            put(buffer, id)


def test_Q9_what_an_id_fails_with_is_an_exception() -> None:
    buffer = lv.AckBuffer(4)
    put(buffer, 1)
    text: Any = "refused"

    with pytest.raises(TypeError, match="got 'refused'"):
        buffer.fail(0, text)


def test_Q6_close_ends_everything_but_what_is_safe() -> None:
    buffer = lv.AckBuffer(4)
    put(buffer, 1, 2)
    buffer.mark(0)
    buffer.close()
    buffer.close()

    assert buffer.closed
    assert not buffer.mark(1)
    assert not buffer.fail(1, RuntimeError("late"))
    assert buffer.safe == buffer.drain() == 1
    for call in (lambda: put(buffer, 3), lambda: put(buffer, 2), buffer._take, buffer._is_empty):
        with pytest.raises(ClosedError, match="everything up to 1 is safe") as closed:
            call()
        assert closed.value.persisted is Persisted.NO


def test_get_is_for_a_buffer_that_retains() -> None:
    buffer = lv.AckBuffer(4, retain=False)
    with pytest.raises(IllegalStateError, match="retain=False") as misused:
        buffer._take()
    assert misused.value.persisted is Persisted.NO


@pytest.mark.parametrize("kind", [lv.AckBuffer, aio.AckBuffer])
def test_Q6_help_knows_the_arguments_and_nothing_internal(kind: Any) -> None:
    assert list(inspect.signature(kind).parameters) == ["size", "after", "retain"]
    told = {name for name in dir(kind(1)) if not name.startswith("_")}
    state = {"safe", "failure", "in_flight", "oldest_age", "blocked_time", "size", "retain", "closed"}
    assert told == {"put", "get", "wait_empty", "mark", "mark_many", "fail", "drain", "close"} | state


def test_Q6_wrong_arguments_are_named() -> None:
    wrong: Any = "5"
    with pytest.raises(TypeError, match="size must be a whole number, got '5'"):
        lv.AckBuffer(wrong)
    with pytest.raises(TypeError, match="retain is True or False, got '5'"):
        lv.AckBuffer(5, retain=wrong)


@pytest.mark.parametrize("size", [0, -5, 1 << 70])
def test_Q6_the_size_is_given_at_construction_and_at_least_one(size: int) -> None:
    with pytest.raises(ValueError, match=f"size={size}"):
        lv.AckBuffer(size)


def test_the_age_is_that_of_the_oldest_id_that_is_not_safe() -> None:
    buffer = lv.AckBuffer(4)
    assert buffer._oldest_put_at_s() is None

    buffer._offer(1, 10.0)
    buffer._offer(2, 20.0)
    buffer.mark(0)
    assert buffer._oldest_put_at_s() == 20.0

    buffer.fail(1, RuntimeError("refused"))
    buffer._offer(2, 30.0)
    assert buffer._oldest_put_at_s() == 30.0


def test_what_waits_for_room_and_what_waits_for_progress_are_woken_once_each() -> None:
    buffer = lv.AckBuffer(4)
    put(buffer, 1, 2, 3)
    woken: list[str] = []
    buffer._await_change(lambda: woken.append("room"), room=True)
    buffer._await_change(lambda: woken.append("progress"), room=False)

    buffer.mark(1)
    assert woken == []
    buffer.mark(0)
    assert woken == ["progress"]
    buffer.drain()
    assert woken == ["progress", "room"]
    buffer.mark(2)
    buffer.drain()
    assert woken == ["progress", "room"]


def test_settling_many_wakes_only_when_told() -> None:
    buffer = lv.AckBuffer(4)
    put(buffer, 1, 2)
    woken: list[str] = []
    buffer._await_change(lambda: woken.append("progress"), room=False)

    buffer._settle(0, None)
    buffer._settle(1, RuntimeError("refused"))
    assert (buffer.safe, woken) == (1, [])
    buffer._wake()
    assert woken == ["progress"]


@pytest.mark.parametrize("retain", [True, False])
@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_Q8_a_put_that_was_broken_off_is_undone(retain: bool, before: int) -> None:
    buffer = lv.AckBuffer(4, after=0, retain=retain)
    put(buffer, *range(1, before + 1))
    buffer.mark(0)
    taken: list[Any] = []
    buffer._offer(100, NOW_S, taken)
    woken: list[str] = []
    buffer._await_change(lambda: woken.append("room"), room=True)

    buffer._take_back(taken, KeyboardInterrupt())

    assert (buffer.in_flight, woken) == (max(before - 1, 0), ["room"])
    assert put(buffer, before + 1) == [before], "the id before it is the last one again"
    assert buffer.mark_many(range(10)) == max(before - 1, 0) + 1
    assert buffer.safe == before + 1


def test_Q8_a_second_put_that_was_broken_off_fails_its_id_again() -> None:
    buffer = lv.AckBuffer(4)
    put(buffer, 1, 2)
    buffer.fail(0, FAULT)
    interrupted = KeyboardInterrupt("now")
    taken: list[Any] = []
    buffer._offer(1, NOW_S, taken)

    buffer._take_back(taken, interrupted)

    assert buffer.failure is not None
    assert (buffer.failure.id, buffer.failure.__cause__) == (1, interrupted)
    assert put(buffer, 1) == [0]


def test_Q8_so_does_one_that_others_were_put_behind_meanwhile() -> None:
    buffer = lv.AckBuffer(4)
    taken: list[Any] = []
    buffer._offer(1, NOW_S, taken)
    put(buffer, 2)

    buffer._take_back(taken, KeyboardInterrupt())

    assert buffer.failure is not None
    assert put(buffer, 1, 3) == [0, 2]


def test_Q8_a_put_that_took_nothing_in_has_nothing_undone() -> None:
    buffer = lv.AckBuffer(1)
    taken: list[Any] = []
    put(buffer, 1)
    assert buffer._offer(2, NOW_S, taken) == FULL

    buffer._take_back(taken, KeyboardInterrupt())

    assert (buffer.in_flight, buffer.failure) == (1, None)


def test_one_that_waits_no_more_is_not_woken() -> None:
    buffer = lv.AckBuffer(4)
    put(buffer, 1)
    woken: list[str] = []
    wake = lambda: woken.append("progress")  # noqa: E731
    buffer._await_change(wake, room=False)
    buffer._forget(wake, room=False)
    buffer._forget(wake, room=False)

    buffer.mark(0)

    assert woken == []


def test_a_buffer_is_neither_pickled_nor_copied() -> None:
    for attempt in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="store its `safe`"):
            attempt(lv.AckBuffer(1))


def test_it_shows_how_it_stands() -> None:
    buffer = lv.AckBuffer(4)
    put(buffer, 1, 2, 3)
    buffer.mark(0)
    assert repr(buffer) == "<AckBuffer: 3 of 4 slots used, 2 ids not safe, safe: 1>"
    buffer.close()
    assert repr(buffer) == "<AckBuffer: closed, safe: 1>"
