"""Makes the payload of PushTelemetry from the client's metrics: selects and names them, and computes the deltas of totals. Pure."""

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
"""The prefixes by which a broker subscribes to all metrics."""
UNCOMPRESSED = 0


class Subscription(NamedTuple):
    """The subscription of a broker, from GetTelemetrySubscriptions.

    metrics: prefixes of metric names; () for no metrics. interval_ms: between two pushes. max_bytes: of one payload. codecs: the numbers of
    the codecs that the broker accepts, the preferred one first.
    """

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
        """Return the first codec of the subscription that the client supports; UNCOMPRESSED if there is none. known: its codec numbers."""
        return next((codec for codec in self.codecs if codec in known), UNCOMPRESSED)

    def wants(self, name: str) -> bool:
        """Whether the broker subscribes to the metric with this name."""
        return any(beginning in EVERYTHING or name.startswith(beginning) for beginning in self.metrics)


class Counted(NamedTuple):
    """Totals of metrics, and when they were read, in ms since the epoch. The next deltas are differences to these totals."""

    totals: Mapping[MetricName, float]
    at_ms: int


def points(values: Mapping[MetricName, float], subscription: Subscription, since: Counted) -> list[Point]:
    """Return the data points of the metrics to which the broker subscribes. An average or maximum without values is left out.

    values: the current metrics. since: the totals to subtract. With delta temporality they are the totals of the last push, otherwise the
    totals at the client's start, which are 0.
    """
    found = []
    for metric, value in values.items():
        name = metric.telemetry_name
        if not isfinite(value) or not subscription.wants(name):
            continue
        attributes = tuple((tag.replace("-", "_"), text) for tag, text in metric.tags if tag != CLIENT_ID)
        if metric.is_total:
            told = since.totals.get(metric, 0.0)
            # The total of a topic or node that the client has forgotten since the last push begins at 0 again.
            found.append(Point(name, value - told if value >= told else value, True, since.at_ms, attributes))
        else:
            found.append(Point(name, value, attributes=attributes))
    return found


def of_the_client_as_a_whole(found: Sequence[Point]) -> list[Point]:
    """Return the points that do not belong to a single node, topic or partition."""
    return [point for point in found if not point.attributes]


def totals(values: Mapping[MetricName, float]) -> Mapping[MetricName, float]:
    """Return the metrics that are totals: their values only grow."""
    return {metric: value for metric, value in values.items() if metric.is_total}


ZERO_ID = UUID(int=0)
"""The client instance id in the first request of a client, which asks the broker to assign one."""
