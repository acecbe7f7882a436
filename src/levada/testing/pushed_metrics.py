"""Decodes the metrics that clients have pushed to an EmbeddedKafka (KIP-714)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self
from uuid import UUID

from levada.broker.cluster.telemetry import Pushed
from levada.protocol.otlp import Payload, Point, Temporality, decode


@dataclass(frozen=True, slots=True)
class PushedMetrics:
    """One push. codec: "none", "zstd", ... terminating: whether it is the client's last push. payload: the points and their time."""

    client_id: str | None
    client_instance_id: UUID
    terminating: bool
    codec: str
    payload: Payload

    @classmethod
    def of(cls, pushed: Pushed) -> Self:
        """Decode a push that the broker has accepted. Raises ProtocolError if it is not OTLP, which the broker does not check."""
        payload = decode(pushed.metrics)
        return cls(pushed.client_id, pushed.client_instance_id, pushed.terminating, pushed.codec.name.lower(), payload)

    @property
    def is_delta(self) -> bool:
        """Whether its totals count from the previous push."""
        return self.payload.temporality is Temporality.DELTA

    @property
    def names(self) -> set[str]:
        """The names of its metrics."""
        return {point.name for point in self.payload.points}

    def point(self, name: str, **attributes: str) -> Point:
        """Return the point with this name and exactly these attributes, such as topic="orders". Raises KeyError."""
        wanted = tuple(sorted(attributes.items()))
        for point in self.payload.points:
            if point.name == name and tuple(sorted(point.attributes)) == wanted:
                return point
        raise KeyError(f"{name} {dict(wanted)} is not among the {len(self.payload.points)} points that were pushed")

    def value(self, name: str, **attributes: str) -> float:
        """Return the value of point()."""
        return self.point(name, **attributes).value
