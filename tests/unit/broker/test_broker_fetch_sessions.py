"""Fetch sessions (KIP-227): what is asked for and told once, and who gets a session."""

from __future__ import annotations

from typing import Any

import pytest

from broker_kit import Bench, Client, make_batch
from levada.broker.node.fetch_sessions import EVICTION_MS, MAX_EPOCH
from levada.error_codes import ErrorCode
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

T = "t"


def request(
    session: tuple[int, int], offsets: dict[int, int] | None = None, *, forget: tuple[int, ...] = (), max_wait_ms: int = 0
) -> FetchRequest:
    """session: id and epoch. offsets: by partition."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=100) for index, offset in (offsets or {}).items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1000,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=T, partitions=partitions)] if partitions else [],
        forgotten_topics_data=[ForgottenTopic(topic=T, partitions=list(forget))] if forget else [],
    )


def told(answer: Any) -> list[int]:
    """The partitions in an answer, in order."""
    assert answer.error_code == 0
    return [data.partition_index for topic in answer.responses for data in topic.partitions]


@pytest.fixture
def bench() -> Bench:
    bench = Bench(max_incremental_fetch_session_cache_slots=2)
    bench.node.create_topic(T, 4)
    return bench


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.client()


def opened(client: Client, *partitions: int) -> int:
    answer = client.ask(request((0, 0), dict.fromkeys(partitions, 0)), 12)
    assert told(answer) == list(partitions)
    session_id: int = answer.session_id
    return session_id


def test_E10_a_session_is_told_only_what_is_new(client: Client) -> None:
    session = opened(client, 0, 1, 2)
    assert session > 0
    nothing = client.ask(request((session, 1)), 12)
    assert (nothing.session_id, told(nothing)) == (session, [])
    client.produce(T, make_batch(b"a"), partition=1)
    assert told(client.ask(request((session, 2)), 12)) == [1]
    assert told(client.ask(request((session, 3)), 12)) == [1], "the session is still at the old offset"
    assert told(client.ask(request((session, 4), {1: 1}), 12)) == []


def test_E10_partitions_are_added_changed_and_forgotten(client: Client) -> None:
    session = opened(client, 0, 1)
    for index in range(4):
        client.produce(T, make_batch(b"a"), partition=index)
    assert told(client.ask(request((session, 1), {0: 1, 3: 0}, forget=(1,)), 12)) == [0, 3]


def test_E10_a_partition_with_records_goes_behind_the_others(client: Client) -> None:
    session = opened(client, 0, 1, 2)
    for index in range(3):
        client.produce(T, make_batch(b"a" * 60), partition=index)
    ask = request((session, 1))
    ask.max_bytes = 10
    assert [data.partition_index for data in client.ask(ask, 12).responses[0].partitions if data.records] == [0]
    ask.session_epoch = 2
    assert [data.partition_index for data in client.ask(ask, 12).responses[0].partitions if data.records] == [1]


def test_E10_an_error_is_told_each_time_and_its_end_too(client: Client) -> None:
    session = opened(client, 0, 9)
    assert told(client.ask(request((session, 1)), 12)) == [9]
    assert told(client.ask(request((session, 2), {0: 5}), 12)) == [0, 9]
    assert told(client.ask(request((session, 3), {0: 0}), 12)) == [0, 9]
    assert told(client.ask(request((session, 4)), 12)) == [9]


def test_E10_a_log_start_that_moved_is_told(bench: Bench, client: Client) -> None:
    client.produce(T, make_batch(b"a"), partition=0)
    answer = client.ask(request((0, 0), {0: 1}), 12)
    bench.node.log(T, 0).advance_start(1)
    assert told(client.ask(request((answer.session_id, 1)), 12)) == [0]
    assert told(client.ask(request((answer.session_id, 2)), 12)) == []


def test_E10_a_waiting_request_is_answered_with_what_came(client: Client, bench: Bench) -> None:
    session = opened(client, 0, 1)
    client.send(request((session, 1), max_wait_ms=10_000), 12)
    assert client.answers() == []
    bench.client().produce(T, make_batch(b"a"), partition=1)
    (answer,) = client.answers()
    assert (told(answer), answer.session_id) == ([1], session)


@pytest.mark.parametrize(
    ("epoch", "by_id", "code"),
    [
        (2, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (1, True, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
        (2, True, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ],
)
def test_E10_a_request_that_does_not_fit_its_session_is_refused(client: Client, epoch: int, by_id: bool, code: ErrorCode) -> None:
    session = opened(client, 0)
    answer = client.ask(request((session, epoch)), 13 if by_id else 12)
    assert (answer.error_code, answer.session_id, answer.responses) == (code, 0, [])


def test_E10_a_session_that_nobody_opened_or_that_was_evicted_is_not_found(bench: Bench, client: Client) -> None:
    assert client.ask(request((5, 1)), 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    session = opened(client, 0)
    bench.node.forget_fetch_sessions()
    assert client.ask(request((session, 1)), 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_E10_a_session_ends_with_its_last_partition_or_when_the_client_closes_it(client: Client) -> None:
    session = opened(client, 0)
    assert client.ask(request((session, 1), forget=(0,)), 12).session_id == 0
    assert client.ask(request((session, 2)), 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    session = opened(client, 0)
    assert client.ask(request((session, -1), {0: 0}), 12).session_id == 0
    assert client.ask(request((session, 1)), 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_E10_a_full_request_opens_a_session_in_place_of_the_one_it_names(client: Client) -> None:
    first = opened(client, 0)
    second = client.ask(request((first, 0), {1: 0}), 12).session_id
    assert second not in (0, first)
    assert client.ask(request((first, 1)), 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_E10_a_session_that_went_on_meanwhile_is_refused_when_a_waiting_request_is_answered(bench: Bench, client: Client) -> None:
    session = opened(client, 0)
    client.send(request((session, 1), max_wait_ms=1000), 12)
    other = bench.client()
    assert told(other.ask(request((session, 2)), 12)) == []
    bench.advance(1000)
    (answer,) = client.answers()
    assert answer.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_E10_the_epoch_after_the_largest_is_1(bench: Bench, client: Client) -> None:
    session = opened(client, 0)
    bench.node._state.fetch_sessions._sessions[session].epoch = MAX_EPOCH
    assert client.ask(request((session, MAX_EPOCH)), 12).error_code == 0
    assert client.ask(request((session, 1)), 12).error_code == 0


def test_E10_without_room_there_is_no_session_until_another_is_stale(bench: Bench, client: Client) -> None:
    first, second = opened(client, 0), opened(client, 0)
    assert opened(client, 0) == 0
    bench.now_ms = EVICTION_MS
    client.ask(request((second, 1)), 12)
    assert opened(client, 0) == 0
    bench.now_ms += 1
    third = opened(client, 0)
    assert third > 0
    assert client.ask(request((first, 1)), 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.ask(request((second, 2)), 12).error_code == 0


def test_E10_a_larger_session_takes_the_place_of_an_old_smaller_one(bench: Bench, client: Client) -> None:
    small, large = opened(client, 0), opened(client, 0, 1, 2)
    bench.now_ms = EVICTION_MS + 1
    for session in (small, large):
        client.ask(request((session, 1)), 12)
    assert opened(client, 1) == 0, "not larger"
    assert opened(client, 1, 2) > 0
    assert client.ask(request((small, 2)), 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.ask(request((large, 2)), 12).error_code == 0


def test_E10_an_idle_consumer_of_many_partitions_gets_small_answers() -> None:
    bench = Bench()
    bench.node.create_topic(T, 1000)
    client = bench.client()
    answer = client.ask(request((0, 0), dict.fromkeys(range(1000), 0)), 12)
    client.send(request((answer.session_id, 1)), 12)
    (frame,) = bench.sent[client.id]
    assert frame is not None
    assert len(frame) < 30
