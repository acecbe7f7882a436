"""Assignment, positions and pauses (behaviour 17.1)."""

from __future__ import annotations

import pytest

from levada.consumer.positions.subscription_state import STATUSES, PartitionStatus, SubscriptionState
from levada.errors import IllegalStateError
from levada.types import ConsumerRecord, OffsetSpec, TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))


def assigned(*partitions: TopicPartition) -> SubscriptionState:
    subscription = SubscriptionState()
    subscription.assign(partitions, 0)
    return subscription


def test_O2_partitions_that_stay_keep_their_positions() -> None:
    subscription = assigned(A, B)
    subscription.seek(A, 5)
    subscription.assign([A, C], 0)
    assert subscription.assignment == {A, C}
    assert subscription.state(A).position == 5
    assert subscription.state(C).status is PartitionStatus.INITIALIZING


def test_O3_a_partition_without_a_position_is_not_fetched() -> None:
    state = assigned(A).state(A)
    assert (state.status, state.has_position, state.wants_data) == (PartitionStatus.INITIALIZING, False, False)
    state.await_reset(OffsetSpec.LATEST)
    assert (state.status, state.has_position, state.wants_data) == (PartitionStatus.AWAIT_RESET, False, False)
    state.move_to(7)
    assert (state.status, state.has_position, state.wants_data) == (PartitionStatus.FETCHING, True, True)


def test_O4_pausing_survives_a_seek_but_not_leaving() -> None:
    subscription = assigned(A, B)
    subscription.seek_to([], OffsetSpec.EARLIEST)
    subscription.pause([A])
    subscription.seek(A, 3)
    assert subscription.paused == {A}
    assert not subscription.state(A).wants_data
    subscription.assign([B], 0)
    subscription.assign([A, B], 0)
    assert subscription.paused == frozenset()


@pytest.mark.parametrize("call", ["seek", "seek_to", "pause", "resume"])
def test_what_is_not_assigned_is_refused_by_name(call: str) -> None:
    subscription = assigned(A)
    calls = {
        "seek": lambda: subscription.seek(B, 1),
        "seek_to": lambda: subscription.seek_to([B], OffsetSpec.LATEST),
        "pause": lambda: subscription.pause([B]),
        "resume": lambda: subscription.resume([B], 0),
    }
    with pytest.raises(IllegalStateError, match="t-1 is not assigned"):
        calls[call]()


def test_O5_a_negative_offset_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot seek t-0 to -1"):
        assigned(A).seek(A, -1)


def test_O5_seek_to_the_ends_of_all_partitions() -> None:
    subscription = assigned(A, B)
    subscription.seek_to([], OffsetSpec.EARLIEST)
    assert [state.reset_to for state in subscription] == [OffsetSpec.EARLIEST] * 2


@pytest.mark.parametrize("wrong", [("", 0), ("t", -1), (5, 0), ("t", "0")])
def test_names_that_cannot_be_are_refused(wrong: tuple[object, object]) -> None:
    with pytest.raises(ValueError, match=r"topic|partitions"):
        assigned(wrong)  # type: ignore[arg-type]


def test_TR57_progress_of_an_older_generation_does_not_count() -> None:
    subscription = assigned(A)
    subscription.seek(A, 5)
    state = subscription.state(A)
    old = state.generation
    subscription.seek(A, 100)
    state.advance(old, 6, 1)
    assert state.position == 100
    state.advance(state.generation, 101, 1)
    assert state.position == 101


def test_a_bounded_partition_is_finished_at_its_end() -> None:
    subscription = SubscriptionState()
    subscription.assign_ranges({A: (2, 4), B: (3, 3)}, 0)
    state = subscription.state(A)
    assert (state.finished, state.wants_data, subscription.state(B).finished) == (False, True, True)
    state.fetch_offset = 4
    assert not state.wants_data
    state.advance(state.generation, 4, 0)
    assert state.finished


def test_records_taken_back_are_next_again_unless_the_caller_moved_on() -> None:
    subscription = assigned(A, B)
    for tp in (A, B):
        subscription.seek(tp, 10)
    newest = subscription.generations.newest
    subscription.seek(B, 99)
    records = [ConsumerRecord("t", number, offset, 0, 0, None, None, ()) for number in (0, 1) for offset in (7, 8)]
    subscription.rewind(records, newest)
    assert (subscription.state(A).position, subscription.state(B).position) == (7, 99)


def test_a_partition_that_is_assigned_again_is_another_one() -> None:
    subscription = assigned(A)
    subscription.seek(A, 10)
    fetched_for, newest = subscription.state(A).generation, subscription.generations.newest
    subscription.assign([], 0)
    subscription.assign([A], 0)
    subscription.seek(A, 20)
    subscription.rewind([ConsumerRecord("t", 0, 7, 0, 0, None, None, ())], newest)
    subscription.state(A).advance(fetched_for, 11, 0)
    assert subscription.state(A).position == 20


def test_every_status_has_its_facts() -> None:
    assert set(STATUSES) == set(PartitionStatus)
    assert set().union(*(facts.leads_to for facts in STATUSES.values())) == set(PartitionStatus)
    assert all(facts.has_position for facts in STATUSES.values() if facts.is_fetched)
