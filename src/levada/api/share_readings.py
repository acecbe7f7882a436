"""The metrics of share consumers, under the names of Java's metrics: tables as in levada.api.metric_tables."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import TYPE_CHECKING

from levada.api.consumer_readings import POLL_TIMES, Table, Tags, since
from levada.client.network.traffic import Traffic
from levada.metrics import MetricName, Section, averaged, counted, gauge, read_all, summed

if TYPE_CHECKING:
    # A producer's program need not load what consumers are made of.
    from levada.consumer.share.core import ShareConsumerCore

POLLS_GROUP = "consumer-share-metrics"
FETCHES_GROUP = "consumer-share-fetch-manager-metrics"
COORDINATOR = "consumer-share-coordinator-metrics"
HEARTBEAT = "ShareGroupHeartbeat"


def _records_per_answer(core: ShareConsumerCore, now_ms: int) -> float:
    answers = core.counters.fetched.frequency(now_ms)
    return core.counters.records.rate(now_ms) / answers if answers else nan


FETCH: Table = (
    *counted("fetch", "Answers to share fetches", lambda core: core.counters.fetched),
    *averaged("fetch-size", "Bytes of records in an answer", lambda core: core.counters.fetched),
    *summed("bytes-consumed", "Bytes of records fetched", lambda core: core.counters.fetched),
    *summed("records-consumed", "Records handed out", lambda core: core.counters.records),
    *gauge("records-per-request-avg", "Records handed out per answer to a fetch", _records_per_answer),
    *summed("acknowledgements-send", "Offsets for which an acknowledgement was sent", lambda core: core.counters.sent),
    *summed("acknowledgements-error", "Records whose acknowledgement was not taken", lambda core: core.counters.refused),
    *averaged("fetch-throttle-time", "Milliseconds a broker throttled a fetch", lambda core: core.counters.throttle_time),
)

GROUP: Table = (
    *gauge("rebalance-total", "Assignments that were taken", lambda core, _: core.member.counters.rebalances.count),
    *counted("heartbeat", "Heartbeats answered", lambda core: core.latency(HEARTBEAT)),
    *gauge(
        "heartbeat-response-time-max",
        "Milliseconds to a heartbeat's answer, at most",
        lambda core, now: core.latency(HEARTBEAT).maximum(now),
    ),
    *gauge("last-heartbeat-seconds-ago", "Seconds since one was answered", lambda core, now: since(core.member.counters.heard_ms, now)),
)


UNACKNOWLEDGED: Table = gauge(
    "records-unacknowledged",
    "Records that were handed out and whose acknowledgement was not sent. Java has no such metric",
    lambda core, _: len(core.in_hand),
)


def of_share_consumer(core: ShareConsumerCore, traffic: Traffic, now_ms: int, tags: Tags) -> dict[MetricName, float]:
    """Return the metrics that only share consumers have. traffic: not used; all functions in metric_tables.PARTS get it. tags: those of
    every metric.
    """
    values = read_all(POLL_TIMES, core, now_ms, POLLS_GROUP, tags)
    values |= read_all(UNACKNOWLEDGED, core, now_ms, POLLS_GROUP, tags)
    values |= read_all(FETCH, core, now_ms, FETCHES_GROUP, tags)
    values |= read_all(GROUP, core, now_ms, COORDINATOR, tags)
    return values


PAGE: Sequence[Section] = (
    Section((POLLS_GROUP,), "client-id", (*POLL_TIMES, *UNACKNOWLEDGED)),
    Section((COORDINATOR,), "client-id", GROUP),
)
"""The tables for docs/METRICS.md, beside FETCH."""
