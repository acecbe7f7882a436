"""Subscriptions for the metrics of clients, as settings (KIP-714): what they ask for, and how often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from levada.broker.cluster.telemetry import DEFAULT_INTERVAL_MS, Wanted
from levada.broker.config.checks import Check, Kind, integer, list_of, listed
from levada.broker.config.resource_config import ResourceConfig, Setting

ALL_METRICS = "*"
_ALL_BY_PREFIX = ""


def _no_match() -> Check:
    def check(text: str) -> tuple[str, ...]:
        if text.strip():
            raise ValueError("this broker asks all clients alike; leave it out")
        return ()

    return Check(Kind.LIST, check)


class MetricsConfig(ResourceConfig):
    """The settings of one subscription."""

    SETTINGS: ClassVar[Mapping[str, Setting]] = {
        "interval.ms": Setting(integer(100, 3_600_000), str(DEFAULT_INTERVAL_MS)),
        "match": Setting(_no_match()),
        "metrics": Setting(list_of()),
    }
    WHAT = "client metrics"
    SOURCE = 7


def wanted_by(subscriptions: Iterable[MetricsConfig]) -> Wanted:
    """Return what all subscriptions together ask of every client: all their metrics, as often as the most frequent of them."""
    known = list(subscriptions)
    metrics = {_ALL_BY_PREFIX if name == ALL_METRICS else name for one in known for name in listed(one.text("metrics"))}
    interval_ms = min((one.integer("interval.ms") for one in known if one.text("metrics")), default=DEFAULT_INTERVAL_MS)
    return Wanted((_ALL_BY_PREFIX,) if _ALL_BY_PREFIX in metrics else tuple(sorted(metrics)), interval_ms)
