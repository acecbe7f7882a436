"""Exports the metrics of clients as observable instruments, under the names of KIP-714."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import isnan

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter_provider

from levada import __version__
from levada.api.metric_tables import MEANINGS
from levada.metrics import MetricName
from levada.metrics.exported import Measured, Watched


def observe_metrics(meter_provider: MeterProvider | None = None, clients: Iterable[Measured] | None = None) -> None:
    """Export the metrics of clients through an OpenTelemetry meter. Call this once.

    meter_provider: None for the global meter provider. clients: the clients to export; None for all clients of this process, also those
    that are opened later. Totals are observable counters, other metrics are gauges. Names are those of KIP-714, such as
    org.apache.kafka.producer.record.send.total. Attributes are client_id, node_id, topic and partition. Each collection reads the clients
    once, on the thread that collects. It leaves out closed clients, and averages and maxima without a value.
    """
    meter = (meter_provider or get_meter_provider()).get_meter("levada", __version__)
    collection = _Collection(Watched(clients))
    for (group, name), meaning in MEANINGS.items():
        metric = MetricName(name, group)
        create: Callable[..., object] = meter.create_observable_counter if metric.is_total else meter.create_observable_gauge
        create(metric.telemetry_name, callbacks=[partial(collection.observe, metric.telemetry_name)], description=meaning)


class _Collection:
    """Reads all clients once for all instruments of a collection.

    OpenTelemetry calls the instruments one by one, and does not tell when a collection begins. A new collection begins when an instrument
    asks for the second time.
    """

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._lock = threading.Lock()
        self._answered: set[str] = set()
        self._read: dict[str, list[Observation]] = {}

    def observe(self, name: str, _: CallbackOptions) -> Sequence[Observation]:
        """Return the observations of an instrument, by its name."""
        with self._lock:
            if not self._answered or name in self._answered:
                self._answered.clear()
                self._read = self._observations()
            self._answered.add(name)
            return self._read.get(name, [])

    def _observations(self) -> dict[str, list[Observation]]:
        found: dict[str, list[Observation]] = {}
        for snapshot in self._watched.snapshots():
            for metric, value in snapshot.metrics.items():
                if not isnan(value):
                    found.setdefault(metric.telemetry_name, []).append(Observation(value, snapshot.labels(metric.tags)))
        return found
