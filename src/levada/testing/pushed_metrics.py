"""Decodes the metrics that clients have pushed to an EmbeddedKafka (KIP-714)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self
from uuid import UUID

from levada.broker.cluster.telemetry import Pushed
from levada.protocol.otlp import Payload, Point, Temporality, decode


@dataclass(frozen=True, slots=True)
class PushedMetrics:
    """One push of metrics by a client.

    terminating: whether it is the client's last push. codec: the name of the compression codec, such as "none" or "zstd". payload: the
    metrics and their time.
    """

    client_id: str | None
    client_instance_id: UUID
    terminating: bool
    codec: str
    payload: Payload

    @classmethod
    def of(cls, pushed: Pushed) -> Self:
        """Decode a push that the broker has accepted. Raises ProtocolError if it is not in OTLP; the broker does not check this."""
        payload = decode(pushed.metrics)
        return cls(pushed.client_id, pushed.client_instance_id, pushed.terminating, pushed.codec.name.lower(), payload)

    @property
    def is_delta(self) -> bool:
        """Whether totals in the push count from the previous push."""
        return self.payload.temporality is Temporality.DELTA

    @property
    def names(self) -> set[str]:
        """The names of the metrics in the push."""
        return {point.name for point in self.payload.points}

    def point(self, name: str, **attributes: str) -> Point:
        """Return the metric with this name and exactly these attributes, such as topic="orders". Raises KeyError if there is none."""
        wanted = tuple(sorted(attributes.items()))
        for point in self.payload.points:
            if point.name == name and tuple(sorted(point.attributes)) == wanted:
                return point
        raise KeyError(f"{name} {dict(wanted)} is not among the {len(self.payload.points)} points that were pushed")

    def value(self, name: str, **attributes: str) -> float:
        """Return the value of the metric that point() returns."""
        return self.point(name, **attributes).value
