"""N5, N6, N13: requests on their way."""

from __future__ import annotations

import pytest

from levada.base.clock import NEVER_MS
from levada.base.promise import Promise
from levada.client.network.in_flight import InFlightRequest, InFlightRequests
from levada.errors import ProtocolError
from levada.protocol.messages.metadata import MetadataRequest


def request(correlation_id: int, *, now_ms: int = 0, timeout_ms: int = 1000, expect_response: bool = True) -> InFlightRequest:
    promise: Promise[object] = Promise()
    return InFlightRequest(
        MetadataRequest, 9, correlation_id, promise, now_ms=now_ms, timeout_ms=timeout_ms, size=100, expect_response=expect_response
    )


def test_N5_answers_belong_to_requests_in_the_order_sent() -> None:
    requests = InFlightRequests(5)
    first, second = request(7), request(8)
    requests.add(1, first)
    requests.add(1, second)
    assert requests.answered(1, 7, 50, 0) is first
    assert requests.answered(1, 8, 50, 0) is second
    assert requests.count(1) == 0


@pytest.mark.parametrize("correlation_id", [8, 9])
def test_M_B12_a_wrong_correlation_id_breaks_the_protocol(correlation_id: int) -> None:
    requests = InFlightRequests(5)
    requests.add(1, request(7))
    requests.add(1, request(8))
    with pytest.raises(ProtocolError, match="Metadata v9 with 7 was next"):
        requests.answered(1, correlation_id, 50, 0)


def test_M_B12_an_answer_to_nothing_breaks_the_protocol() -> None:
    with pytest.raises(ProtocolError, match="nothing was asked"):
        InFlightRequests(5).answered(1, 1, 50, 0)


def test_TR17_a_request_without_answer_is_over_when_written_and_is_the_newest() -> None:
    requests = InFlightRequests(5)
    waits, done = request(1), request(2, expect_response=False)
    requests.add(1, waits)
    assert requests.written(1) is None
    requests.add(1, done)
    assert requests.written(1) is done
    assert requests.answered(1, 1, 50, 0) is waits


def test_N2_a_half_written_request_or_a_full_queue_holds_back() -> None:
    requests = InFlightRequests(2)
    assert requests.can_send_more(1)
    requests.add(1, request(1))
    assert not requests.can_send_more(1)
    requests.written(1)
    assert requests.can_send_more(1)
    requests.add(1, request(2))
    requests.written(1)
    assert not requests.can_send_more(1)
    assert requests.can_send_more(2)


def test_N13_the_oldest_request_condemns_its_connection_when_it_is_late() -> None:
    requests = InFlightRequests(5)
    late = request(1, timeout_ms=1000)
    requests.add(1, late)
    requests.add(1, request(2, timeout_ms=1000))
    requests.add(2, request(3, timeout_ms=2000))
    assert requests.next_deadline_ms == 1000
    assert requests.timed_out(999) == {}
    assert requests.timed_out(1000) == {1: late}
    assert [gone.correlation_id for gone in requests.clear(1)] == [1, 2]


def test_N13_what_stands_behind_a_long_poll_is_not_late_before_it() -> None:
    requests = InFlightRequests(5)
    fetch = request(1, timeout_ms=7500)
    requests.add(1, fetch)
    requests.add(1, request(2, now_ms=100, timeout_ms=1500))
    assert requests.next_deadline_ms == 7500
    assert requests.timed_out(7499) == {}
    assert requests.timed_out(7500) == {1: fetch}


@pytest.mark.parametrize(
    ("answered_ms", "deadline_ms"),
    [
        pytest.param(100, 1600, id="at once: as if it had been alone"),
        pytest.param(1000, 2500, id="early: its own timeout from then on"),
        pytest.param(7000, 7500, id="late: no longer than the long poll had"),
    ],
)
def test_N13_behind_a_long_poll_time_counts_from_its_answer(answered_ms: int, deadline_ms: int) -> None:
    requests = InFlightRequests(5)
    requests.add(1, request(1, timeout_ms=7500))
    behind = request(2, now_ms=100, timeout_ms=1500)
    requests.add(1, behind)
    requests.answered(1, 1, 50, answered_ms)
    assert requests.next_deadline_ms <= deadline_ms
    assert requests.timed_out(deadline_ms - 1) == {}
    assert requests.timed_out(deadline_ms) == {1: behind}


def test_N13_requests_of_one_timeout_are_late_when_it_is_over_however_late_those_before_them_were() -> None:
    requests = InFlightRequests(5)
    for number in range(5):
        requests.add(1, request(number, now_ms=number))
    for number in range(4):
        requests.answered(1, number, 50, 990 + number)
    assert requests.timed_out(1003) == {}
    assert list(requests.timed_out(1004)) == [1]


def test_TR19_throttled_time_is_not_request_time() -> None:
    requests = InFlightRequests(5)
    requests.add(1, request(1))
    requests.throttled(1, 5000)
    assert requests.timed_out(5999) == {}
    assert requests.next_deadline_ms == 6000
    requests.clear(1)
    assert requests.timed_out(6000) == {}
    assert requests.next_deadline_ms == NEVER_MS


def test_an_answered_request_costs_at_most_one_idle_step() -> None:
    requests = InFlightRequests(5)
    requests.add(1, request(1, now_ms=0))
    requests.add(1, request(2, now_ms=500))
    requests.answered(1, 1, 50, 0)
    assert requests.next_deadline_ms <= 1500
    assert requests.timed_out(1000) == {}
    assert requests.next_deadline_ms == 1500
