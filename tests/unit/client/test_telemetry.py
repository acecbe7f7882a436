"""What of telemetry is pure: the table of states, the table of errors, and what is made of metrics (KIP-714)."""

from __future__ import annotations

from math import inf, nan

import pytest

from levada.base.clock import NEVER_MS
from levada.client.telemetry.payload import Counted, Subscription, of_the_client_as_a_whole, points, totals
from levada.client.telemetry.states import PAUSES, TRANSITIONS, Event, State, pause_ms
from levada.error_codes import ErrorCode
from levada.metrics import MetricName
from levada.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from levada.protocol.otlp import Point, Temporality

ID = ("client-id", "c")
SENT = MetricName("record-send-total", "producer-metrics", (ID,))
SENT_TO = MetricName("record-send-total", "producer-topic-metrics", (ID, ("topic", "orders")))
LATENCY = MetricName("request-latency-avg", "producer-node-metrics", (ID, ("node-id", "node-1")))
START = Counted({}, 1_000)


def subscription(*metrics: str, delta: bool = True, codecs: tuple[int, ...] = (4, 3)) -> Subscription:
    reply = GetTelemetrySubscriptionsResponse(
        subscription_id=7,
        requested_metrics=list(metrics),
        delta_temporality=delta,
        accepted_compression_types=list(codecs),
        telemetry_max_bytes=1000,
    )
    return Subscription.of(reply)


def test_every_state_can_be_left_for_the_end_and_the_end_cannot_be_left() -> None:
    assert set(TRANSITIONS) == set(State)
    assert all(events[Event.ENDED] is State.TERMINATED for events in TRANSITIONS.values())
    assert set(TRANSITIONS[State.TERMINATED].values()) == {State.TERMINATED}


def test_only_a_subscription_leads_to_a_push() -> None:
    assert [state for state, events in TRANSITIONS.items() if State.PUSH_NEEDED in events.values()] == [
        State.SUBSCRIPTION_IN_PROGRESS,
        State.PUSH_IN_PROGRESS,
    ]
    pushing = [state for state, events in TRANSITIONS.items() if Event.PUSHING in events]
    assert pushing == [State.PUSH_NEEDED, State.TERMINATING_PUSH_NEEDED]


def test_the_terminating_push_is_the_last_request() -> None:
    assert set(TRANSITIONS[State.TERMINATING_PUSH_IN_PROGRESS].values()) == {State.TERMINATED}


@pytest.mark.parametrize("code", [code for code in ErrorCode if code])
def test_every_error_has_a_pause(code: ErrorCode) -> None:
    assert pause_ms(code, 60_000) in (0, 60_000, NEVER_MS)


def test_errors_that_repeat_themselves_switch_telemetry_off() -> None:
    off = {code for code in PAUSES if pause_ms(code, 1) == NEVER_MS}
    assert off == {ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_VERSION}
    at_once = {code for code in PAUSES if pause_ms(code, 1) == 0}
    assert at_once == {ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE}


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (SENT, "org.apache.kafka.producer.record.send.total"),
        (SENT_TO, "org.apache.kafka.producer.topic.record.send.total"),
        (LATENCY, "org.apache.kafka.producer.node.request.latency.avg"),
        (MetricName("fetch-latency-avg", "consumer-fetch-manager-metrics"), "org.apache.kafka.consumer.fetch.manager.fetch.latency.avg"),
        (MetricName("connection-creation-total", "admin-client-metrics"), "org.apache.kafka.admin.client.connection.creation.total"),
    ],
)
def test_names_are_those_of_the_kip(metric: MetricName, name: str) -> None:
    assert metric.telemetry_name == name


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ([""], {"total", "topic", "latency"}),
        (["*"], {"total", "topic", "latency"}),
        (["org.apache.kafka.producer.record."], {"total"}),
        (["org.apache.kafka.producer.node.", "org.apache.kafka.producer.topic.record.send.total"], {"latency", "topic"}),
        (["org.apache.kafka.consumer."], set()),
        ([], set()),
    ],
)
def test_only_what_begins_as_asked_for_is_pushed(wanted: list[str], names: set[str]) -> None:
    short = {SENT.telemetry_name: "total", SENT_TO.telemetry_name: "topic", LATENCY.telemetry_name: "latency"}
    found = points({SENT: 3.0, SENT_TO: 2.0, LATENCY: 1.5}, subscription(*wanted), START)
    assert {short[point.name] for point in found} == names


def test_totals_are_sums_since_a_time_and_the_rest_are_gauges() -> None:
    values = {SENT: 10.0, SENT_TO: 4.0, LATENCY: 1.5}
    found = points(values, subscription(""), Counted(totals({SENT: 7.0, LATENCY: 9.0}), 2_000))
    assert found == [
        Point("org.apache.kafka.producer.record.send.total", 3.0, True, 2_000),
        Point("org.apache.kafka.producer.topic.record.send.total", 4.0, True, 2_000, (("topic", "orders"),)),
        Point("org.apache.kafka.producer.node.request.latency.avg", 1.5, attributes=(("node_id", "node-1"),)),
    ]
    assert [point.attributes for point in of_the_client_as_a_whole(found)] == [()]


def test_a_topic_that_was_forgotten_and_is_used_again_is_counted_anew() -> None:
    (point,) = points({SENT_TO: 2.0}, subscription(""), Counted({SENT_TO: 9.0}, 2_000))
    assert (point.value, point.is_sum) == (2.0, True)


def test_an_average_of_nothing_is_left_out() -> None:
    assert points({LATENCY: nan, SENT: inf}, subscription(""), START) == []


def test_the_first_codec_that_both_know_is_taken() -> None:
    assert subscription(codecs=(4, 3)).codec({1, 3}) == 3
    assert subscription(codecs=(9,)).codec({1, 3}) == 0
    assert subscription(codecs=()).codec({1, 3}) == 0


def test_a_subscription_without_an_interval_has_kafkas_default() -> None:
    assert subscription().interval_ms == 300_000
    assert subscription(delta=False).temporality is Temporality.CUMULATIVE
