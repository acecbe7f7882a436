"""Every metric that metrics() returns, by group, and how it is read: docs/METRICS.md is made from these tables.

`python -m levada.face.measured > docs/METRICS.md` writes that page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import nan
from typing import TYPE_CHECKING, Any

from levada.client.engine import Engine
from levada.client.host import Host
from levada.client.setup.states import ConnectionState
from levada.client.traffic import NODE_READINGS
from levada.metrics import MetricName, Metrics, Reading, averaged, counted, gauge, read_all, summed
from levada.types import UNKNOWN_OFFSET

if TYPE_CHECKING:
    # A producer's program need not load what consumers are made of.
    from levada.consumer.core import ConsumerCore
    from levada.consumer.subscription_state import PartitionState
    from levada.producer.core import ProducerCore

Tags = tuple[tuple[str, str], ...]
Table = Sequence[Reading[Any]]

FETCHES = "consumer-fetch-manager-metrics"
PREFIXES = {"producer": "producer", "consumer": "consumer", "admin": "admin-client", "client": "client"}
"""How the groups of each kind of client begin."""


def _metadata_age(engine: Engine, now_ms: int) -> float:
    age_ms = engine.metadata.age_ms(now_ms)
    return nan if age_ms is None else age_ms / 1000


def _ready(engine: Engine, now_ms: int) -> int:
    return sum(connection.state is ConnectionState.READY for connection in engine.network.states)


CLIENT: Table = (
    *gauge("connection-count", "Connections that requests can be sent over", _ready),
    *gauge("connection-creation-total", "Connections that were made", lambda engine, _: engine.network.states.made),
    *gauge("connection-close-total", "Connections that have ended", lambda engine, _: engine.network.states.ended),
    *gauge("requests-in-flight", "Requests without an answer yet", lambda engine, _: engine.network.in_flight.total),
    *gauge("metadata-age", "Seconds since all metadata was refreshed", _metadata_age),
)

NODE: Table = NODE_READINGS
WHOLE: Table = tuple(row for row in NODE if "latency" not in row.name)

COMPRESSION = "A batch's size over that of its records uncompressed, on average"

PRODUCER: Table = (
    *summed("record-send", "Records sent, again if need be", lambda core: core.counters.whole.records),
    *gauge("records-per-request-avg", "Records in a request", lambda core, now_ms: core.counters.records_per_request.average(now_ms)),
    *averaged("batch-size", "Bytes of a record batch as it is sent", lambda core: core.counters.whole.bytes),
    *gauge("compression-rate-avg", COMPRESSION, lambda core, now_ms: core.counters.whole.compression.average(now_ms)),
    *averaged("record-queue-time", "Milliseconds a batch waited until it was sent first", lambda core: core.counters.queue_time),
    *summed("record-retry", "Records that were to be sent again", lambda core: core.counters.whole.retries),
    *summed("record-error", "Records that failed", lambda core: core.counters.whole.errors),
    *counted("batch-split", "Batches too large for the broker, sent in parts", lambda core: core.counters.splits),
    *averaged("produce-throttle-time", "Milliseconds a broker throttled a request", lambda core: core.counters.throttle_time),
    *gauge("buffer-total-bytes", "buffer.memory", lambda core, _: core.pool.total),
    *gauge("buffer-available-bytes", "Free bytes of it; below 0 while failed records hold more", lambda core, _: core.pool.available),
    *gauge("waiting-threads", "Calls of send() that wait for buffer.memory", lambda core, _: core.pool.queued),
    *gauge("bufferpool-wait-time-ns-total", "Nanoseconds that send() waited for it", lambda core, _: core.counters.waits_ns.total),
    *counted("buffer-exhausted", "Waits for it that were without effect", lambda core: core.counters.exhausted),
)

TOPIC: Table = (
    *summed("record-send", "Records sent, again if need be", lambda topic: topic.records),
    *summed("byte", "Bytes of record batches sent", lambda topic: topic.bytes),
    *gauge("compression-rate", COMPRESSION, lambda topic, now_ms: topic.compression.average(now_ms)),
    *summed("record-retry", "Records that were to be sent again", lambda topic: topic.retries),
    *summed("record-error", "Records that failed", lambda topic: topic.errors),
)


def _lags(core: ConsumerCore) -> list[int]:
    return [lag for state in core.subscription if (lag := core.lag(state.tp)) is not None]


FETCH: Table = (
    *counted("fetch", "Answers to fetches", lambda core: core.counters.fetched),
    *averaged("fetch-size", "Bytes of records in an answer", lambda core: core.counters.fetched),
    *summed("bytes-consumed", "Bytes of records fetched", lambda core: core.counters.fetched),
    *summed("records-consumed", "Records handed out", lambda core: core.counters.records),
    *averaged("fetch-throttle-time", "Milliseconds a broker throttled a fetch", lambda core: core.counters.throttle_time),
    *gauge("records-lag-max", "The largest records-lag of all partitions", lambda core, _: max(_lags(core), default=nan)),
)


def _lag(at: tuple[ConsumerCore, PartitionState], _: int) -> float:
    lag = at[0].lag(at[1].tp)
    return nan if lag is None else lag


def _lead(at: tuple[ConsumerCore, PartitionState], _: int) -> float:
    state = at[1]
    return state.position - state.log_start_offset if state.has_position and state.log_start_offset != UNKNOWN_OFFSET else nan


PARTITION: Table = (
    *gauge("records-lag", "Offsets from the position to the end known from the last fetch", _lag),
    *gauge("records-lead", "Offsets from the start of the log to the position", _lead),
)

LATENCIES = {"producer": ("producer-metrics", "request-latency", "Produce"), "consumer": (FETCHES, "fetch-latency", "Fetch")}
"""What is measured of one API only: its group, its name, the API."""


def measured(engine: Engine, host: Host, kind: str, core: ProducerCore | ConsumerCore | None = None) -> Metrics:
    """Read everything that a client of a kind has counted. core: of a producer or a consumer. Raises as check_usable()."""
    host.check_usable()
    with host.undisturbed(), host.lock:
        return Metrics(_read(engine, host.now_ms(), kind, core))


def _read(engine: Engine, now_ms: int, kind: str, core: ProducerCore | ConsumerCore | None) -> dict[MetricName, float]:
    group, tags = PREFIXES[kind], (("client-id", engine.network.client_id),)
    traffic = engine.network.in_flight.traffic
    values = read_all(CLIENT, engine, now_ms, f"{group}-metrics", tags)
    values |= read_all(WHOLE, traffic.whole, now_ms, f"{group}-metrics", tags)
    for node_id, node in list(traffic.nodes.items()):
        values |= read_all(NODE, node, now_ms, f"{group}-node-metrics", (*tags, ("node-id", f"node-{node_id}")))
    if kind in PARTS:
        values |= PARTS[kind](core, now_ms, tags)
        values |= read_all(latency(kind), traffic, now_ms, LATENCIES[kind][0], tags)
    return values


def latency(kind: str) -> Table:
    """Return the table of the latency of a kind's own API."""
    _, name, api = LATENCIES[kind]
    return averaged(name, f"Milliseconds from a {api} request to its response", lambda traffic: traffic.latency(api))


def _of_producer(core: ProducerCore, now_ms: int, tags: Tags) -> dict[MetricName, float]:
    values = read_all(PRODUCER, core, now_ms, "producer-metrics", tags)
    for name, topic in core.counters.topics.items():
        values |= read_all(TOPIC, topic, now_ms, "producer-topic-metrics", (*tags, ("topic", name)))
    return values


def _of_consumer(core: ConsumerCore, now_ms: int, tags: Tags) -> dict[MetricName, float]:
    values = read_all(FETCH, core, now_ms, FETCHES, tags)
    for state in core.subscription:
        of_partition = (*tags, ("topic", state.tp.topic), ("partition", str(state.tp.partition)))
        values |= read_all(PARTITION, (core, state), now_ms, FETCHES, of_partition)
    return values


PARTS: Mapping[str, Callable[[Any, int, Tags], dict[MetricName, float]]] = {"producer": _of_producer, "consumer": _of_consumer}


PAGE: Sequence[tuple[str, str, Table]] = (
    ("producer-metrics", "client-id", (*PRODUCER, *latency("producer"))),
    ("producer-topic-metrics", "client-id, topic", TOPIC),
    (FETCHES, "client-id", (*FETCH, *latency("consumer"))),
    (FETCHES, "client-id, topic, partition", PARTITION),
    ("producer-, consumer-, admin-client- or client-metrics", "client-id", (*CLIENT, *WHOLE)),
    ("producer-, consumer-, admin-client- or client-node-metrics", "client-id, node-id", NODE),
)

HEAD = """\
# Metrics

What `metrics()` of every client returns, blocking and asyncio: a snapshot, computed when asked for. Names, groups and tags are Java's.
Rates, averages and maxima are about the last 30 to 60 seconds, as with Java's defaults; totals are about the client's life. An average of
nothing is nan. Written by `make docs` from `levada.face.measured`; do not edit.

`metrics.value("record-send-rate")` reads one value, `metrics.value("record-send-rate", topic="orders")` one with tags; the whole is a
mapping of `MetricName(name, group, tags)` to a number.
"""


def page() -> str:
    """Return docs/METRICS.md."""
    parts = [HEAD]
    for group, tags, table in PAGE:
        rows = "\n".join(f"| `{row.name}` | {row.meaning} |" for row in table)
        parts.append(f"## {group}\n\nTags: {tags}.\n\n| metric | meaning |\n|---|---|\n{rows}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
