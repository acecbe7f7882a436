"""The metrics of consumers, under the names of Java's metrics: tables as in levada.api.metric_tables."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import TYPE_CHECKING, Any

from levada.client.network.traffic import Traffic
from levada.metrics import MetricName, Reading, Section, averaged, counted, gauge, read_all, summed

if TYPE_CHECKING:
    # A producer's program need not load what consumers are made of.
    from levada.consumer.core import ConsumerCore
    from levada.consumer.counters import ReadCounters
    from levada.consumer.positions.subscription_state import PartitionState

Tags = tuple[tuple[str, str], ...]
Table = Sequence[Reading[Any]]

POLLS_GROUP = "consumer-metrics"
FETCHES_GROUP = "consumer-fetch-manager-metrics"
COORDINATOR = "consumer-coordinator-metrics"
NS = 1_000_000


def _last_poll(core: ConsumerCore, now_ms: int) -> float:
    began_ms = core.counters.polls.began_ms
    return -1 if began_ms is None else (now_ms - began_ms) // 1_000


POLL_TIMES: Table = (
    *averaged("time-between-poll", "Milliseconds from one poll() to the next", lambda core: core.counters.polls.between),
    *gauge("last-poll-seconds-ago", "Seconds since the last poll() began; -1 before the first", _last_poll),
    *gauge(
        "poll-idle-ratio-avg",
        "Part of its time that a program spent in poll(), 0 to 1",
        lambda core, now: core.counters.polls.idle.average(now),
    ),
)
"""Metrics of consumers of every kind."""

POLLS: Table = (
    *POLL_TIMES,
    *gauge("commit-sync-time-ns-total", "Nanoseconds that commit() took, in all", lambda core, _: core.counters.commit_sync.total * NS),
    *gauge("committed-time-ns-total", "Nanoseconds that committed() took, in all", lambda core, _: core.counters.committed.total * NS),
)


UNACKNOWLEDGED: Table = gauge(
    "records-unacknowledged",
    "Records that acks() or process() has read and that are not done; 0 without them. Java has no such metric",
    lambda core, _: 0 if core.commits.unacked is None else len(core.commits.unacked),
)


def commit_latency(traffic: Traffic) -> Any:
    """Return the latencies of commits."""
    return traffic.latency("OffsetCommit")


COMMITS: Table = (
    *averaged("commit-latency", "Milliseconds from an OffsetCommit request to its response", commit_latency),
    *counted("commit", "Answers to OffsetCommit requests", commit_latency),
)
"""Metrics that are read from the counters of the connections."""

ASSIGNED: Table = gauge("assigned-partitions", "Partitions that are assigned", lambda core, _: len(core.subscription))


def since(at_ms: int | None, now_ms: int) -> float:
    """Return the seconds since a time in ms; nan for None."""
    return nan if at_ms is None else (now_ms - at_ms) / 1000


def _slowest_heartbeat(core: ConsumerCore, now_ms: int) -> float:
    return core.latency("Heartbeat").maximum(now_ms)


GROUP: Table = (
    *averaged("rebalance-latency", "Milliseconds from joining to the assignment", lambda core: core.member.counters.rebalances),
    *gauge("rebalance-total", "Rebalances that ended with an assignment, in all", lambda core, _: core.member.counters.rebalances.count),
    *gauge("failed-rebalance-total", "Rebalances that ended with an error, in all", lambda core, _: core.member.counters.failed.count),
    *gauge("last-rebalance-seconds-ago", "Seconds since the last one", lambda core, now: since(core.member.counters.rebalanced_ms, now)),
    *counted("heartbeat", "Heartbeats answered", lambda core: core.latency("Heartbeat")),
    *gauge("heartbeat-response-time-max", "Milliseconds to a heartbeat's answer, at most", _slowest_heartbeat),
    *gauge("last-heartbeat-seconds-ago", "Seconds since one was answered", lambda core, now: since(core.member.counters.heard_ms, now)),
    *counted("join", "JoinGroups answered", lambda core: core.latency("JoinGroup")),
    *averaged("join-time", "Milliseconds to such an answer, which waits for all members", lambda core: core.latency("JoinGroup")),
    *counted("sync", "SyncGroups answered", lambda core: core.latency("SyncGroup")),
    *averaged("sync-time", "Milliseconds to such an answer, which waits for the leader", lambda core: core.latency("SyncGroup")),
)
"""Metrics of consumers with a group.id."""


def _lags(core: ConsumerCore) -> list[int]:
    return [lag for state in core.subscription if (lag := core.lag(state.tp)) is not None]


def _leads(core: ConsumerCore) -> list[int]:
    return [lead for state in core.subscription if (lead := core.lead(state.tp)) is not None]


def _records_per_request(counters: ReadCounters, now_ms: int) -> float:
    requests = counters.fetched.frequency(now_ms)
    return counters.records.rate(now_ms) / requests if requests else nan


TOPIC: Table = (
    *averaged("fetch-size", "Bytes of records in an answer", lambda counters: counters.fetched),
    *summed("bytes-consumed", "Bytes of records fetched", lambda counters: counters.fetched),
    *summed("records-consumed", "Records handed out", lambda counters: counters.records),
    *gauge("records-per-request-avg", "Records handed out per answer to a fetch", _records_per_request),
)
"""Metrics of all topics together, and of each assigned topic; of a topic, only responses that have records of it count."""

FETCH: Table = (
    *counted("fetch", "Answers to fetches", lambda core: core.counters.fetched),
    *averaged("fetch-throttle-time", "Milliseconds a broker throttled a fetch", lambda core: core.counters.throttle_time),
    *gauge("records-lag-max", "The largest records-lag of all partitions", lambda core, _: max(_lags(core), default=nan)),
    *gauge("records-lead-min", "The smallest records-lead of all partitions", lambda core, _: min(_leads(core), default=nan)),
)


def _lag(at: tuple[ConsumerCore, PartitionState], _: int) -> float:
    lag = at[0].lag(at[1].tp)
    return nan if lag is None else lag


def _lead(at: tuple[ConsumerCore, PartitionState], _: int) -> float:
    lead = at[0].lead(at[1].tp)
    return nan if lead is None else lead


def _replica(at: tuple[ConsumerCore, PartitionState], _: int) -> float:
    replica = at[1].preferred_replica
    return -1 if replica is None else replica


PARTITION: Table = (
    *gauge("records-lag", "Offsets from the position to the end known from the last fetch", _lag),
    *gauge("records-lead", "Offsets from the start of the log to the position", _lead),
    *gauge("preferred-read-replica", "The node that is read from instead of the leader; -1 for the leader", _replica),
)


def of_consumer(core: ConsumerCore, traffic: Traffic, now_ms: int, tags: Tags) -> dict[MetricName, float]:
    """Return all metrics of a consumer. traffic: counts the requests of the client. tags: those of every metric."""
    values = read_all(POLLS, core, now_ms, POLLS_GROUP, tags)
    values |= read_all(UNACKNOWLEDGED, core, now_ms, POLLS_GROUP, tags)
    values |= read_all(FETCH, core, now_ms, FETCHES_GROUP, tags)
    values |= read_all(TOPIC, core.counters, now_ms, FETCHES_GROUP, tags)
    for topic, counters in core.counters.topics.items():
        values |= read_all(TOPIC, counters, now_ms, FETCHES_GROUP, (*tags, ("topic", topic)))
    values |= read_all(COMMITS, traffic, now_ms, COORDINATOR, tags)
    values |= read_all(ASSIGNED, core, now_ms, COORDINATOR, tags)
    if core.member is not None:
        values |= read_all(GROUP, core, now_ms, COORDINATOR, tags)
    for state in core.subscription:
        of_partition = (*tags, ("topic", state.tp.topic), ("partition", str(state.tp.partition)))
        values |= read_all(PARTITION, (core, state), now_ms, FETCHES_GROUP, of_partition)
    return values


PAGE: Sequence[Section] = (
    Section((POLLS_GROUP,), "client-id", (*POLLS, *UNACKNOWLEDGED)),
    Section((COORDINATOR,), "client-id", (*COMMITS, *ASSIGNED)),
    Section((COORDINATOR,), "client-id", GROUP, f"{COORDINATOR}, with a group.id"),
    Section((FETCHES_GROUP,), "client-id; and once more of each topic that is assigned, with client-id, topic", TOPIC),
    Section((FETCHES_GROUP,), "client-id, topic, partition", PARTITION),
)
"""The tables for docs/METRICS.md, beside FETCH."""
