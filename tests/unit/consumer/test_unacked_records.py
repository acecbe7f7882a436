"""Records that are acknowledged one by one: their lanes, delays, and what may be committed, beside a model that looks at every record."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from levada.consumer.acks.record import AckRecord
from levada.consumer.acks.states import TRANSITIONS, RecordEvent, RecordState
from levada.consumer.acks.unacked import UnackedRecords, WorkLimit
from levada.consumer.positions.subscription_state import Generations, PartitionState
from levada.errors import IllegalStateError
from levada.types import ConsumerRecord, TopicPartition

PARTITIONS = 3


def state(partition: int = 0) -> PartitionState:
    return PartitionState(TopicPartition("t", partition), 0, Generations())


def record(offset: int, key: bytes | None = None, partition: int = 0) -> Any:
    return ConsumerRecord("t", partition, offset, 0, 0, key, b"v", (), 0)


def unacked(lanes: int | None = None, ordering: str = "key", may_reject: bool = True, limit: WorkLimit | None = None) -> UnackedRecords:
    return UnackedRecords(max_at_work=lanes, ordering=ordering, may_reject=may_reject, limit=limit, wake=lambda: None)


def offsets(records: list[AckRecord[Any, Any]]) -> list[int]:
    return [one.offset for one in records]


def oldest(records: UnackedRecords, of: PartitionState) -> int | None:
    found = records.oldest(of)
    return None if found is None else found.offset


def test_records_of_a_key_are_handed_out_one_after_the_other() -> None:
    records, of = unacked(), state()
    records.add(of, [record(0, b"a"), record(1, b"b"), record(2, b"a"), record(3), record(4)])
    first = records.take(10, 0)
    assert offsets(first) == [0, 1, 3, 4], "without a key there is no order to keep"
    first[0].ack()
    records.settle(0)
    assert offsets(records.take(10, 0)) == [2]


def test_a_commit_passes_no_record_that_is_not_done() -> None:
    records, of = unacked(), state()
    records.add(of, [record(offset) for offset in (3, 5, 9)])
    taken = records.take(3, 0)
    assert oldest(records, of) == 3
    taken[1].ack()
    records.settle(0)
    assert oldest(records, of) == 3
    taken[0].ack()
    records.settle(0)
    assert oldest(records, of) == 9, "offsets have gaps"
    taken[2].ack()
    records.settle(0)
    assert oldest(records, of) is None


def test_a_delay_holds_up_its_key_only() -> None:
    records, of = unacked(), state()
    records.add(of, [record(0, b"a"), record(1, b"a"), record(2, b"b")])
    slow, other = records.take(10, 0)
    slow.nack(delay=5)
    other.ack()
    records.settle(1_000)
    assert records.take(10, 0) == []
    assert records.due_ms == 6_000
    records.add(of, [record(3, b"b")])
    assert offsets(records.take(10, 0)) == [3]
    records.settle(6_000)
    (again,) = records.take(10, 0)
    assert (again.offset, again.attempt) == (0, 2)


def test_only_the_first_word_about_a_record_counts() -> None:
    records, of = unacked(), state()
    records.add(of, [record(0)])
    (first,) = records.take(1, 0)
    first.nack()
    first.ack()
    records.settle(0)
    assert oldest(records, of) == 0
    (second,) = records.take(1, 0)
    first.ack()
    records.settle(0)
    assert oldest(records, of) == 0, "that was about the first attempt"
    second.ack()
    second.nack()
    records.settle(0)
    assert len(records) == 0


def test_what_is_given_up_is_not_moved_by_a_late_word() -> None:
    records, of = unacked(lanes=1), state()
    records.add(of, [record(0), record(1)])
    (late,) = records.take(5, 0)
    assert records.give_up(of.tp) == 1
    assert late.is_given_up
    again = state()
    records.add(again, [record(0)])
    late.ack()
    records.settle(0)
    assert oldest(records, again) == 0
    assert oldest(records, of) is None
    assert offsets(records.take(5, 0)) == [0], "its lane is free"


def test_a_position_that_went_back_gives_up_what_was_before() -> None:
    records, of = unacked(), state()
    records.add(of, [record(7), record(8)])
    before = records.take(5, 0)
    records.add(of, [record(8), record(9)])
    assert all(one.is_given_up for one in before)
    assert offsets(records.take(5, 0)) == [8, 9]
    assert oldest(records, of) == 8


def test_another_assignment_gives_up_what_was_before() -> None:
    records, of, again = unacked(), state(), state()
    records.add(of, [record(7)])
    (before,) = records.take(5, 0)
    records.add(again, [record(20)])
    assert before.is_given_up
    assert (oldest(records, of), oldest(records, again)) == (None, 20)


def test_rejected_records_are_done_when_they_are_written() -> None:
    records, of = unacked(lanes=1), state()
    records.add(of, [record(0, b"a"), record(1, b"a")])
    (bad,) = records.take(1, 0)
    bad.reject("bad")
    records.settle(0)
    (entry,) = records.take_rejected()
    assert records.take_rejected() == []
    assert records.take(1, 0) == []
    assert oldest(records, of) == 0
    records.tell(entry, RecordEvent.UNWRITTEN, ValueError("no"))
    records.settle(0)
    assert isinstance(records.take_failure(), ValueError)
    (again,) = records.take(1, 0)
    assert (again.offset, again.attempt) == (0, 2)
    again.reject("bad")
    records.settle(0)
    records.tell(records.take_rejected()[0], RecordEvent.WRITTEN)
    records.settle(0)
    assert offsets(records.take(1, 0)) == [1]


def test_nothing_is_rejected_without_a_topic_for_it() -> None:
    records = unacked(may_reject=False)
    records.add(state(), [record(0)])
    (one,) = records.take(1, 0)
    with pytest.raises(IllegalStateError, match="dead_letter="):
        one.reject("bad")


def test_a_record_that_fails_is_told_once_and_handed_out_again() -> None:
    records = unacked()
    records.add(state(), [record(0), record(1)])
    first, second = records.take(2, 0)
    first.fail(ValueError("one"))
    second.fail(ValueError("two"))
    records.settle(0)
    assert str(records.take_failure()) == "one"
    assert records.take_failure() is None
    assert sorted(offsets(records.take(2, 0))) == [0, 1]


@pytest.mark.parametrize(
    ("delay", "error"),
    [(wrong, ValueError) for wrong in (-1, float("nan"), float("inf"), 1e300, 1e308, 10**400)] + [("5", TypeError), (None, TypeError)],
)
def test_a_delay_is_a_time_to_come(delay: Any, error: type[Exception]) -> None:
    records = unacked()
    records.add(state(), [record(0)])
    with pytest.raises(error, match=re.escape(f"delay is a number of seconds, 0 or more; got {delay!r}")):
        records.take(1, 0)[0].nack(delay)


def test_partitions_take_turns() -> None:
    records = unacked(lanes=1)
    for partition in range(PARTITIONS):
        records.add(state(partition), [record(offset, partition=partition) for offset in range(2)])
    seen = []
    while taken := records.take(5, 0):
        seen.append(taken[0].partition)
        taken[0].ack()
        records.settle(0)
    assert seen == [0, 1, 2, 0, 1, 2]


def test_the_one_who_polls_is_woken_only_while_it_waits() -> None:
    woken = []
    records = UnackedRecords(max_at_work=None, ordering="none", may_reject=False, limit=None, wake=lambda: woken.append(1))
    records.add(state(), [record(0), record(1)])
    first, second = records.take(2, 0)
    first.ack()
    assert not woken
    records.is_waited_for = True
    second.ack()
    assert woken


TEN_MS = WorkLimit(10, lambda given, attempt: ValueError(f"offset {given.offset}, attempt {attempt}"))


def test_a_record_that_the_program_has_for_too_long_fails() -> None:
    records, of = unacked(limit=TEN_MS), state()
    records.add(of, [record(0), record(1)])
    (first,), (second,) = records.take(1, 0), records.take(1, 4)
    assert (records.due_ms, records.has_overdue) == (10, False)
    records.settle(9)
    assert records.take_failure() is None
    records.settle(10)
    assert str(records.take_failure()) == "offset 0, attempt 1"
    assert (records.due_ms, records.has_overdue, records.at_work) == (14, True, 1)
    first.ack()
    second.ack()
    records.settle(20)
    assert oldest(records, of) == 0, "the late word of an attempt that has failed has no effect"
    assert records.take_failure() is None
    (again,) = records.take(5, 20)
    assert (again.offset, again.attempt, records.due_ms) == (0, 2, 30)


def test_only_the_time_that_the_program_has_a_record_counts() -> None:
    records, of = unacked(limit=TEN_MS), state()
    records.add(of, [record(offset) for offset in range(5)])
    delayed, rejected, done, back, lost = records.take(5, 0)
    delayed.nack(100)
    rejected.reject()
    done.ack()
    records.put_back([back])
    records.settle(9)
    assert records.due_ms == 10
    records.give_up(of.tp)
    records.settle(50)
    assert (records.take_failure(), records.has_overdue, lost.is_given_up) == (None, False, True)
    assert records.due_ms == 100_009, "the delay alone"


def test_the_table_has_a_way_out_of_every_state_but_the_last_ones() -> None:
    last = {RecordState.DONE, RecordState.GIVEN_UP}
    assert {before for before, events in TRANSITIONS.items() if not events} == last
    for before, events in TRANSITIONS.items():
        assert before in last or events[RecordEvent.LOSE] is RecordState.GIVEN_UP


class Seen:
    """What the model knows of one record."""

    def __init__(self, given: Any, lane: Any) -> None:
        self.record = given
        self.lane = lane
        self.out: AckRecord[Any, Any] | None = None
        self.done = False
        self.due_ms = 0
        self.attempts = 0


class Beside(RuleBasedStateMachine):
    """UnackedRecords beside a list of all records, looked through whole each time."""

    @initialize(lanes=st.one_of(st.none(), st.integers(1, 4)), ordering=st.sampled_from(["key", "partition", "none"]))
    def begin(self, lanes: int | None, ordering: str) -> None:
        self.lanes, self.ordering = lanes, ordering
        self.real = unacked(lanes, ordering)
        self.states = [state(partition) for partition in range(PARTITIONS)]
        self.next = [0] * PARTITIONS
        self.all: list[Seen] = []
        self.late: list[AckRecord[Any, Any]] = []
        self.now_ms = 0

    def lane(self, given: Any) -> Any:
        if self.ordering == "none" or (self.ordering == "key" and given.key is None):
            return None
        return (given.partition, given.key if self.ordering == "key" else "")

    @rule(
        partition=st.integers(0, PARTITIONS - 1),
        keys=st.lists(st.sampled_from([None, b"a", b"b"]), min_size=1, max_size=5),
        gap=st.integers(0, 2),
    )
    def add(self, partition: int, keys: list[bytes | None], gap: int) -> None:
        made = []
        for key in keys:
            made.append(record(self.next[partition] + gap, key, partition))
            self.next[partition] += gap + 1
        self.real.add(self.states[partition], made)
        self.all += [Seen(one, self.lane(one)) for one in made]

    def may_go(self, seen: Seen) -> bool:
        if seen.done or seen.out is not None or seen.due_ms > self.now_ms:
            return False
        before = self.all[: self.all.index(seen)]
        return seen.lane is None or all(other.done or other.lane != seen.lane for other in before)

    @rule(limit=st.integers(1, 6))
    def take(self, limit: int) -> None:
        self.real.settle(self.now_ms)
        free = limit if self.lanes is None else min(limit, self.lanes - sum(seen.out is not None for seen in self.all))
        may = [seen for seen in self.all if self.may_go(seen)]
        taken = self.real.take(limit, 0)
        assert len(taken) == min(max(free, 0), len(may)), "as many as there are"
        for one in taken:
            (seen,) = (seen for seen in may if seen.record == one)
            seen.out = one
            assert one.attempt == seen.attempts + 1
        lanes = [seen.lane for seen in self.all if seen.out is not None and seen.lane is not None]
        assert len(lanes) == len(set(lanes)), "one of a lane at a time"

    def out(self) -> list[Seen]:
        return [seen for seen in self.all if seen.out is not None]

    @precondition(lambda self: self.out())
    @rule(which=st.randoms(use_true_random=False), what=st.sampled_from(["ack", "nack", "put back", "fail"]), delay=st.integers(0, 3))
    def say(self, which: Any, what: str, delay: int) -> None:
        seen = which.choice(self.out())
        assert seen.out is not None
        self.late.append(seen.out)
        if what == "ack":
            seen.out.ack()
            seen.done = True
        elif what == "nack":
            seen.out.nack(delay)
            seen.due_ms = self.now_ms + delay * 1000
            seen.attempts += 1
        elif what == "fail":
            seen.out.fail(ValueError())
            seen.attempts += 1
        else:
            self.real.put_back([seen.out])
        seen.out = None
        self.real.settle(self.now_ms)
        self.real.take_failure()

    @precondition(lambda self: self.late)
    @rule(which=st.randoms(use_true_random=False))
    def say_it_late(self, which: Any) -> None:
        which.choice(self.late).ack()

    @rule(ms=st.integers(1, 2_500))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def lose(self, partition: int) -> None:
        had = sum(seen.out is not None and seen.record.partition == partition for seen in self.all)
        assert self.real.give_up(TopicPartition("t", partition)) == had
        self.late += [seen.out for seen in self.all if seen.out is not None and seen.record.partition == partition]
        self.all = [seen for seen in self.all if seen.record.partition != partition]
        self.states[partition] = state(partition)

    @invariant()
    def commits_stop_before_the_first_that_is_not_done(self) -> None:
        if not hasattr(self, "real"):
            return
        self.real.settle(self.now_ms)
        for partition, of in enumerate(self.states):
            left = [seen.record.offset for seen in self.all if seen.record.partition == partition and not seen.done]
            assert oldest(self.real, of) == (left[0] if left else None)
        assert self.real.at_work == len(self.out())
        assert len(self.real) == sum(not seen.done for seen in self.all)


Beside.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestBesideAModel = Beside.TestCase
