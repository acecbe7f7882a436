"""The states of a transactional producer: what may follow what, and what can never be."""

from __future__ import annotations

import pytest

from levada.producer.transactions.states import ADVICE, TRANSITIONS, Event, State, after

S, E = State, Event
CALLS = (E.INITIALIZE, E.FORGET, E.BEGIN, E.PREPARE, E.COMMIT, E.ABORT, E.HAND_OVER)
# Written down here a second time on purpose: which states a call is allowed in.
ALLOWED = {
    E.INITIALIZE: {S.UNINITIALIZED, S.OUTCOME_UNKNOWN, S.MUST_INITIALIZE_AGAIN},
    E.FORGET: {S.UNINITIALIZED, S.READY, S.MUST_INITIALIZE_AGAIN},
    E.BEGIN: {S.READY},
    E.PREPARE: {S.IN_TRANSACTION},
    E.COMMIT: {S.PREPARING, S.OUTCOME_UNKNOWN},
    E.ABORT: {S.IN_TRANSACTION, S.ABORTABLE_ERROR, S.OUTCOME_UNKNOWN},
    E.HAND_OVER: {S.PREPARING},
}


def reachable(begin: State, without: frozenset[State] = frozenset()) -> set[State]:
    """Every state that can follow, without passing through some."""
    found, waiting = set(), [begin]
    while waiting:
        for event in Event:
            state = after(waiting[0], event)
            if state is not None and state not in found and state not in without:
                found.add(state)
                waiting.append(state)
        del waiting[0]
    return found


def test_T1_every_state_has_a_row_and_advice() -> None:
    assert set(TRANSITIONS) == set(ADVICE) == set(State)
    assert reachable(S.UNINITIALIZED) == set(State), "no state is there for nothing"


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("state", State)
def test_T1_a_call_fits_these_states_and_no_others(state: State, call: Event) -> None:
    assert (after(state, call) is not None) == (state in ALLOWED[call])


@pytest.mark.parametrize("state", State)
def test_T1_a_fatal_error_leads_from_everywhere_to_where_nothing_leaves(state: State) -> None:
    assert after(state, E.FAILED_FOR_EVER) is S.FATAL_ERROR
    assert reachable(S.FATAL_ERROR) == {S.FATAL_ERROR}


def test_T9_a_transaction_that_lost_a_record_is_aborted_before_another_one_or_a_commit() -> None:
    assert reachable(S.ABORTABLE_ERROR, without=frozenset({S.ABORTING})) == {S.ABORTABLE_ERROR, S.FATAL_ERROR}


def test_T1_an_error_of_a_transaction_that_is_being_aborted_changes_nothing() -> None:
    assert after(S.ABORTING, E.FAILED) is S.ABORTING


def test_no_transaction_begins_while_the_one_before_may_be_open() -> None:
    """From an unknown outcome the way to the next transaction leads through the same end, or a new epoch."""
    ways = frozenset({S.COMMITTING, S.ABORTING, S.INITIALIZING})
    assert S.IN_TRANSACTION not in reachable(S.OUTCOME_UNKNOWN, without=ways)
    assert S.IN_TRANSACTION not in reachable(S.MUST_INITIALIZE_AGAIN, without=frozenset({S.INITIALIZING}))


def test_a_transaction_that_was_handed_over_is_neither_ended_nor_fenced_by_its_producer() -> None:
    assert reachable(S.HANDED_OVER) == {S.FATAL_ERROR}
