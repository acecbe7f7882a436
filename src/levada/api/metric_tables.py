"""Every metric that metrics() returns, by group, and how it is read: docs/METRICS.md is made from these tables.

`python -m levada.api.metric_tables > docs/METRICS.md` writes that page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import nan
from typing import TYPE_CHECKING, Any

from levada.api import consumer_readings, share_readings
from levada.client.driver_interface import LOOP_READINGS
from levada.client.engine import Engine
from levada.client.network.traffic import NODE_READINGS, Traffic
from levada.client.setup.states import ESTABLISHED
from levada.metrics import CLIENT_ID, MetricName, Reading, Section, averaged, counted, gauge, read_all, summed
from levada.producer.counters import TIMED

if TYPE_CHECKING:
    # A producer's program need not load what consumers are made of.
    from levada.consumer.core import ConsumerCore
    from levada.consumer.share.core import ShareConsumerCore
    from levada.producer.core import ProducerCore

Tags = tuple[tuple[str, str], ...]
Table = Sequence[Reading[Any]]

_NS_PER_MS = 1_000_000

PREFIXES = {"producer": "producer", "consumer": "consumer", "share-consumer": "consumer", "admin": "admin-client", "client": "client"}
"""The prefixes of the groups, by kind of client."""


def _metadata_age(engine: Engine, now_ms: int) -> float:
    age_ms = engine.metadata.age_ms(now_ms)
    return nan if age_ms is None else age_ms / 1000


def _ready(engine: Engine, now_ms: int) -> int:
    return sum(connection.state in ESTABLISHED for connection in engine.network.states)


CLIENT: Table = (
    *gauge("connection-count", "Connections that requests can be sent over", _ready),
    *counted("connection-creation", "Connections that were made", lambda engine: engine.network.states.made),
    *counted("connection-close", "Connections that have ended", lambda engine: engine.network.states.ended),
    *gauge("requests-in-flight", "Requests without an answer yet", lambda engine, _: engine.network.in_flight.total),
    *gauge("metadata-age", "Seconds since all metadata was refreshed", _metadata_age),
)

NODE: Table = NODE_READINGS
LOOP: Table = LOOP_READINGS
WHOLE: Table = tuple(row for row in NODE if "latency" not in row.name)

COMPRESSION = "A batch's size over that of its records uncompressed, on average"


def _time_taken(name: str, meaning: str) -> Table:
    text = f"Nanoseconds that the program {meaning}, counted in whole milliseconds"
    return gauge(f"{name}-time-ns-total", text, lambda core, _: core.counters.calls.took_ms[name] * _NS_PER_MS)


def _share_of_waits(core: ProducerCore, now_ms: int) -> float:
    return core.counters.waits_ns.rate(now_ms) / (1_000 * _NS_PER_MS)


PRODUCER: Table = (
    *summed("record-send", "Records sent, again if need be", lambda core: core.counters.whole.records),
    *gauge("records-per-request-avg", "Records in a request", lambda core, now_ms: core.counters.records_per_request.average(now_ms)),
    *averaged("batch-size", "Bytes of a record batch as it is sent", lambda core: core.counters.whole.bytes),
    *gauge("compression-rate-avg", COMPRESSION, lambda core, now_ms: core.counters.whole.compression.average(now_ms)),
    *gauge("record-size-avg", "Bytes of a record before compression, on average", lambda core, now_ms: core.counters.record_size(now_ms)),
    *gauge("record-size-max", "Bytes of a record, at most", lambda core, now_ms: core.counters.largest_record.maximum(now_ms)),
    *averaged("record-queue-time", "Milliseconds a batch waited until it was sent first", lambda core: core.counters.queue_time),
    *summed("record-retry", "Records that were to be sent again", lambda core: core.counters.whole.retries),
    *summed("record-error", "Records that failed", lambda core: core.counters.whole.errors),
    *counted("batch-split", "Batches too large for the broker, sent in parts", lambda core: core.counters.splits),
    *averaged("produce-throttle-time", "Milliseconds a broker throttled a request", lambda core: core.counters.throttle_time),
    *gauge("buffer-total-bytes", "buffer.memory", lambda core, _: core.pool.total),
    *gauge("buffer-available-bytes", "Free bytes of it; below 0 while failed records hold more", lambda core, _: core.pool.available),
    *gauge("waiting-threads", "Calls of send() that wait for buffer.memory", lambda core, _: core.pool.queued),
    *gauge("bufferpool-wait-time-ns-total", "Nanoseconds that send() waited for it", lambda core, _: core.counters.waits_ns.total),
    *gauge("bufferpool-wait-ratio", "Share of the time that send() waited for it", _share_of_waits),
    *counted("buffer-exhausted", "Waits for it that were without effect", lambda core: core.counters.exhausted),
    *(row for name, meaning in TIMED.items() for row in _time_taken(name, meaning)),
)

TOPIC: Table = (
    *summed("record-send", "Records sent, again if need be", lambda topic: topic.records),
    *summed("byte", "Bytes of record batches sent", lambda topic: topic.bytes),
    *gauge("compression-rate", COMPRESSION, lambda topic, now_ms: topic.compression.average(now_ms)),
    *summed("record-retry", "Records that were to be sent again", lambda topic: topic.retries),
    *summed("record-error", "Records that failed", lambda topic: topic.errors),
)


LATENCIES = {
    "producer": ("producer-metrics", "request-latency", "Produce"),
    "consumer": (consumer_readings.FETCHES_GROUP, "fetch-latency", "Fetch"),
    "share-consumer": (share_readings.FETCHES_GROUP, "fetch-latency", "ShareFetch"),
}
"""APIs whose latency is a metric of its own: the group, the metric's name, the API."""


def read_metrics(
    engine: Engine, now_ms: int, kind: str, core: ProducerCore | ConsumerCore | ShareConsumerCore | None
) -> dict[MetricName, float]:
    """Return all metrics of a client. Called under the engine's lock. core: of a producer, a consumer or a share consumer; None for other
    clients.
    """
    group, tags = PREFIXES[kind], ((CLIENT_ID, engine.network.client_id),)
    traffic = engine.network.in_flight.traffic
    values = read_all(CLIENT, engine, now_ms, f"{group}-metrics", tags)
    values |= read_all(LOOP, engine.loop_time, now_ms, f"{group}-metrics", tags)
    values |= read_all(WHOLE, traffic.whole, now_ms, f"{group}-metrics", tags)
    for node_id, node in list(traffic.nodes.items()):
        values |= read_all(NODE, node, now_ms, f"{group}-node-metrics", (*tags, ("node-id", f"node-{node_id}")))
    if kind in PARTS:
        values |= PARTS[kind](core, traffic, now_ms, tags)
        values |= read_all(latency(kind), traffic, now_ms, LATENCIES[kind][0], tags)
    return values


def latency(kind: str) -> Table:
    """Return the table of the API latencies of one kind of client."""
    _, name, api = LATENCIES[kind]
    return averaged(name, f"Milliseconds from a {api} request to its response", lambda traffic: traffic.latency(api))


def _of_producer(core: ProducerCore, _: Traffic, now_ms: int, tags: Tags) -> dict[MetricName, float]:
    values = read_all(PRODUCER, core, now_ms, "producer-metrics", tags)
    for name, topic in core.counters.topics.items():
        values |= read_all(TOPIC, topic, now_ms, "producer-topic-metrics", (*tags, ("topic", name)))
    return values


PARTS: Mapping[str, Callable[[Any, Traffic, int, Tags], dict[MetricName, float]]] = {
    "producer": _of_producer,
    "consumer": consumer_readings.of_consumer,
    "share-consumer": share_readings.of_share_consumer,
}


def _of_every_kind(ending: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{prefix}-{ending}" for prefix in PREFIXES.values()))


_ANY = "producer-, consumer-, admin-client- or client-"

PAGE: Sequence[Section] = (
    Section(("producer-metrics",), "client-id", (*PRODUCER, *latency("producer"))),
    Section(("producer-topic-metrics",), "client-id, topic", TOPIC),
    Section((consumer_readings.FETCHES_GROUP,), "client-id", (*consumer_readings.FETCH, *latency("consumer"))),
    *consumer_readings.PAGE,
    Section((share_readings.FETCHES_GROUP,), "client-id", (*share_readings.FETCH, *latency("share-consumer"))),
    *share_readings.PAGE,
    Section(_of_every_kind("metrics"), "client-id", (*CLIENT, *LOOP, *WHOLE), f"{_ANY}metrics"),
    Section(_of_every_kind("node-metrics"), "client-id, node-id", NODE, f"{_ANY}node-metrics"),
)

MEANINGS: Mapping[tuple[str, str], str] = {
    (group, row.name): row.meaning for section in PAGE for group in section.groups for row in section.table
}
"""The description of each metric, by group and name."""

HEAD = """\
# Metrics

What `metrics()` of every client returns, blocking and asyncio: a snapshot, computed when asked for. Names, groups and tags are Java's.
Rates, averages and maxima are about the last 30 to 60 seconds, as with Java's defaults; totals are about the client's life. An average of
nothing is nan. Written by `make docs` from `levada.api.metric_tables`; do not edit.

With `enable.metrics.push=true` brokers are told those that they ask for (KIP-714). Their names are `org.apache.kafka.`, the group without
`-metrics`, and the name, with dots for dashes: `org.apache.kafka.producer.record.send.total`. Totals are sums, the others gauges; tags have
underscores for dashes.

`metrics.value("record-send-rate")` reads one value, `metrics.value("record-send-rate", topic="orders")` one with tags; the whole is a
mapping of `MetricName(name, group, tags)` to a number.

[Watching clients](howto/monitoring.md) shows how Prometheus and OpenTelemetry get them. To Prometheus `record-send-total` of
`producer-topic-metrics` is `kafka_producer_producer_topic_metrics_record_send_total`, as the JMX exporter writes it for Java's clients:
`kafka_`, what the group begins with, the group, and the name; tags are labels, with underscores. In OpenTelemetry its name is that of
KIP-714.
"""


def page() -> str:
    """Return the text of docs/METRICS.md."""
    parts = [HEAD]
    for section in PAGE:
        heading = section.heading or ", ".join(section.groups)
        rows = "\n".join(f"| `{row.name}` | {row.meaning} |" for row in section.table)
        parts.append(f"## {heading}\n\nTags: {section.tags}.\n\n| metric | meaning |\n|---|---|\n{rows}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
