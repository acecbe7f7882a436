"""The client's half of fetch sessions (KIP-227)."""

from __future__ import annotations

from uuid import UUID

import pytest

from levada.consumer.fetch.fetch_session import MAX_EPOCH, NO_TOPIC_ID, FetchSession, FetchTarget, SessionRequest, next_epoch
from levada.error_codes import ErrorCode
from levada.types import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def at(offset: int, topic_id: UUID = NO_TOPIC_ID) -> FetchTarget:
    return FetchTarget(topic_id, offset, 5, 1 << 20)


def opened(*, session_id: int = 7) -> FetchSession:
    session = FetchSession()
    session.begin({A: at(0), B: at(0)}, by_id=False)
    assert session.answered([A, B], session_id, was_full=True, throttled=False) == ""
    return session


def test_F17_the_first_request_names_everything_and_asks_for_a_session() -> None:
    wanted = {A: at(0), B: at(10)}
    assert FetchSession().begin(wanted, by_id=False) == SessionRequest(0, 0, wanted, (), False)


def test_F17_later_requests_name_only_what_changed() -> None:
    request = opened().begin({A: at(3), B: at(0)}, by_id=False)
    assert (request.session_id, request.epoch, request.is_full) == (7, 1, False)
    assert request.to_send == {A: at(3)}
    assert list(request.to_forget) == []


def test_F18_partitions_that_leave_are_forgotten_and_named_again_when_they_return() -> None:
    session = opened()
    request = session.begin({B: at(0)}, by_id=False)
    assert (dict(request.to_send), list(request.to_forget)) == ({}, [(A, NO_TOPIC_ID)])
    assert session.answered([], 7, was_full=False, throttled=False) == ""
    request = session.begin({A: at(0), B: at(0)}, by_id=False)
    assert (dict(request.to_send), list(request.to_forget), request.epoch) == ({A: at(0)}, [], 2)


def test_F19_a_full_answer_must_name_exactly_what_was_asked() -> None:
    session = FetchSession()
    session.begin({A: at(0), B: at(0)}, by_id=False)
    assert "does not name" in session.answered([A], 7, was_full=True, throttled=False)
    assert session.begin({A: at(0), B: at(0)}, by_id=False).epoch == 0


def test_F19_an_answer_without_a_session_means_there_is_none() -> None:
    session = opened(session_id=0)
    assert session.begin({A: at(1)}, by_id=False) == SessionRequest(0, 0, {A: at(1)}, (), False)


def test_N29_a_throttled_answer_may_be_empty() -> None:
    session = FetchSession()
    session.begin({A: at(0)}, by_id=False)
    assert session.answered([], 0, was_full=True, throttled=True) == ""
    assert session.begin({A: at(0)}, by_id=False).is_full


def test_F19_an_incremental_answer_may_leave_out_but_not_invent() -> None:
    session = opened()
    session.begin({A: at(1), B: at(0)}, by_id=False)
    assert session.answered([B], 7, was_full=False, throttled=False) == ""
    session.begin({A: at(1), B: at(0)}, by_id=False)
    assert "not in the session" in session.answered([None], 7, was_full=False, throttled=False)
    assert session.begin({A: at(1)}, by_id=False) == SessionRequest(7, 0, {A: at(1)}, (), False)


@pytest.mark.parametrize(
    ("code", "session_id"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 7), (None, 7)],
)
def test_F20_after_an_error_everything_is_named_again(code: ErrorCode | None, session_id: int) -> None:
    session = opened()
    session.begin({A: at(1), B: at(0)}, by_id=False)
    session.failed(code)
    request = session.begin({A: at(1), B: at(0)}, by_id=False)
    assert (request.session_id, request.epoch, set(request.to_send)) == (session_id, 0, {A, B})


def test_F21_a_topic_created_anew_is_replaced_in_the_session() -> None:
    old, new = UUID(int=1), UUID(int=2)
    session = FetchSession()
    session.begin({A: at(9, old)}, by_id=True)
    session.answered([A], 7, was_full=True, throttled=False)
    request = session.begin({A: at(0, new)}, by_id=True)
    assert (dict(request.to_send), list(request.to_forget)) == ({A: at(0, new)}, [(A, old)])


def test_F21_changing_between_names_and_ids_needs_a_new_session() -> None:
    assert opened().begin({A: at(0)}, by_id=True).is_full


def test_TR58_the_epoch_wraps_to_one() -> None:
    assert next_epoch(MAX_EPOCH) == 1
    assert next_epoch(0) == 1


def test_F17_changes_alone_say_what_the_whole_would() -> None:
    session, other = opened(), opened()
    changes = {A: at(3), B: None}
    assert session.go_on(changes) == other.begin({A: at(3)}, by_id=False)
    assert session.known == other.known == {A: at(3)}
    assert session.go_on({A: at(3)}).to_send == {}
