"""From metrics() to what is pushed: which of them, under which names, and what of a total is new. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import NamedTuple
from uuid import UUID

from levada.client.telemetry.states import DEFAULT_INTERVAL_MS
from levada.metrics import CLIENT_ID, MetricName
from levada.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from levada.protocol.otlp import Point, Temporality

EVERYTHING = ("", "*")
"""What a broker names that wants all metrics."""
UNCOMPRESSED = 0


class Subscription(NamedTuple):
    """What a broker wants. metrics: beginnings of names. codecs: that it accepts, the best first."""

    id: int
    metrics: tuple[str, ...]
    interval_ms: int
    max_bytes: int
    codecs: tuple[int, ...]
    temporality: Temporality

    @classmethod
    def of(cls, reply: GetTelemetrySubscriptionsResponse) -> Subscription:
        """Read it from a broker's answer."""
        return cls(
            reply.subscription_id,
            tuple(reply.requested_metrics),
            reply.push_interval_ms if reply.push_interval_ms > 0 else DEFAULT_INTERVAL_MS,
            reply.telemetry_max_bytes,
            tuple(reply.accepted_compression_types),
            Temporality.DELTA if reply.delta_temporality else Temporality.CUMULATIVE,
        )

    def codec(self, known: Iterable[int]) -> int:
        """Return the first codec that this client knows too."""
        return next((codec for codec in self.codecs if codec in known), UNCOMPRESSED)

    def wants(self, name: str) -> bool:
        """Whether a metric of this name is asked for."""
        return any(beginning in EVERYTHING or name.startswith(beginning) for beginning in self.metrics)


class Counted(NamedTuple):
    """What the totals were at a time, in milliseconds since the epoch: from there on the next deltas count."""

    totals: Mapping[MetricName, float]
    at_ms: int


def points(values: Mapping[MetricName, float], subscription: Subscription, since: Counted) -> list[Point]:
    """Return what is pushed. since: the beginning of the client, or of the time since the last push, as the temporality wants it.

    An average or a maximum of nothing is left out: it has no value.
    """
    found = []
    for metric, value in values.items():
        name = metric.telemetry_name
        if not isfinite(value) or not subscription.wants(name):
            continue
        attributes = tuple((tag.replace("-", "_"), text) for tag, text in metric.tags if tag != CLIENT_ID)
        if metric.is_total:
            told = since.totals.get(metric, 0.0)
            # A topic or node that was forgotten meanwhile is counted from 0 again.
            found.append(Point(name, value - told if value >= told else value, True, since.at_ms, attributes))
        else:
            found.append(Point(name, value, attributes=attributes))
    return found


def of_the_client_as_a_whole(found: Sequence[Point]) -> list[Point]:
    """Return the points without those of single nodes, topics and partitions."""
    return [point for point in found if not point.attributes]


def totals(values: Mapping[MetricName, float]) -> Mapping[MetricName, float]:
    """Return the metrics that only grow."""
    return {metric: value for metric, value in values.items() if metric.is_total}


ZERO_ID = UUID(int=0)
"""What a client without an id says."""
