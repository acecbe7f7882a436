"""Makes the payload of PushTelemetry from metrics(): which metrics, under which names, and the deltas of totals. Pure."""

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
"""The name by which a broker subscribes to all metrics."""
UNCOMPRESSED = 0


class Subscription(NamedTuple):
    """The metrics to which a broker subscribes. metrics: prefixes of their names. codecs: the codecs that it accepts, the best first."""

    id: int
    metrics: tuple[str, ...]
    interval_ms: int
    max_bytes: int
    codecs: tuple[int, ...]
    temporality: Temporality

    @classmethod
    def of(cls, reply: GetTelemetrySubscriptionsResponse) -> Subscription:
        """Read a GetTelemetrySubscriptions response."""
        return cls(
            reply.subscription_id,
            tuple(reply.requested_metrics),
            reply.push_interval_ms if reply.push_interval_ms > 0 else DEFAULT_INTERVAL_MS,
            reply.telemetry_max_bytes,
            tuple(reply.accepted_compression_types),
            Temporality.DELTA if reply.delta_temporality else Temporality.CUMULATIVE,
        )

    def codec(self, known: Iterable[int]) -> int:
        """Return the first codec of the subscription that this client supports. known: the codecs that it supports."""
        return next((codec for codec in self.codecs if codec in known), UNCOMPRESSED)

    def wants(self, name: str) -> bool:
        """Whether the broker subscribes to the metric with this name."""
        return any(beginning in EVERYTHING or name.startswith(beginning) for beginning in self.metrics)


class Counted(NamedTuple):
    """Totals of metrics, and their time in ms since the epoch. The next deltas are differences to them."""

    totals: Mapping[MetricName, float]
    at_ms: int


def points(values: Mapping[MetricName, float], subscription: Subscription, since: Counted) -> list[Point]:
    """Return the data points to push. An average or maximum without values is left out.

    since: the totals from which the pushed totals count. With delta temporality they are those of the last push, otherwise those at the
    client's start.
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
    """Return the points that do not belong to a single node, topic or partition."""
    return [point for point in found if not point.attributes]


def totals(values: Mapping[MetricName, float]) -> Mapping[MetricName, float]:
    """Return the metrics whose values only grow."""
    return {metric: value for metric, value in values.items() if metric.is_total}


ZERO_ID = UUID(int=0)
"""The id in the request of a client that has none yet."""
