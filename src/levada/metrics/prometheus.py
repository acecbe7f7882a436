"""Exports the metrics of clients to Prometheus. Names and labels are those that the JMX exporter gives Java's clients.

Needs the extra `prometheus`. start_exporter() is for programs without a web server, exposition() for programs with a web server, and
KafkaCollector for programs that export their own metrics with prometheus_client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isnan
from types import TracebackType
from typing import NamedTuple, Self

from levada.metrics import MetricName
from levada.metrics.exported import Measured, Watched

try:
    from prometheus_client import CollectorRegistry, start_http_server
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector
except ImportError as missing:
    raise ImportError("levada.metrics.prometheus needs prometheus-client: pip install 'levada[prometheus]'") from missing

_DOMAINS = {"admin-client": "kafka.admin.client", "client": "kafka.client", "consumer": "kafka.consumer", "producer": "kafka.producer"}
"""By the first word of a group: the JMX domain in which Java's client has the group."""


def prometheus_name(metric: MetricName) -> str:
    """Return a metric's name for Prometheus, such as kafka_producer_producer_metrics_record_send_total."""
    domain = next(domain for beginning, domain in _DOMAINS.items() if metric.group.startswith(beginning))
    return f"{domain}.{metric.group}.{metric.name}".replace("-", "_").replace(".", "_")


class KafkaCollector(Collector):
    """A collector for prometheus_client's CollectorRegistry. It reads the metrics of clients at each scrape.

    clients: the clients to export; None for all clients of this process, also those that are opened later. Blocking and asyncio clients are
    read on the thread that handles the scrape. Closed clients, and averages and maxima without a value, are left out. A second client of
    the same kind with the same client.id gets the suffix "#2" in the label client_id.
    """

    def __init__(self, clients: Iterable[Measured] | None = None) -> None:
        self._watched = Watched(clients)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all exported clients."""
        families: dict[str, Metric] = {}
        for snapshot in self._watched.snapshots():
            for metric, value in snapshot.metrics.items():
                if isnan(value):
                    continue
                name = prometheus_name(metric)
                family = families.get(name)
                if family is None:
                    kind = "counter" if metric.is_total else "gauge"
                    # The name of a counter must not have _total here: the encoders add it, each in its own way.
                    family = families[name] = Metric(name.removesuffix("_total"), snapshot.metrics.meaning(metric), kind)
                family.add_sample(name, snapshot.labels(metric.tags), value)
        yield from families.values()

    def describe(self) -> Iterable[Metric]:
        """Return no metrics, because their names depend on the clients. Without this method, registering the collector would read the
        clients.
        """
        return ()


class Exposition(NamedTuple):
    """The response to a scrape: the body, and the value of the header Content-Type."""

    body: bytes
    content_type: str


def exposition(accept: str = "", clients: Iterable[Measured] | None = None) -> Exposition:
    """Return the metrics of clients as text, for a program that has a web server of its own.

    accept: the request's Accept header, which decides between Prometheus's text format 0.0.4 and OpenMetrics. clients: see KafkaCollector.
    """
    encode, content_type = choose_encoder(accept)
    return Exposition(encode(_registry(clients)), content_type)


class Exporter:
    """A web server that serves the metrics of clients at /metrics, in a thread of its own. start_exporter() returns it. It is a context
    manager.
    """

    def __init__(self, port: int, host: str, clients: Iterable[Measured] | None) -> None:
        self._server, self._thread = start_http_server(port, host, _registry(clients))
        self.port: int = self._server.server_port
        """The port at which the server listens."""

    def close(self) -> None:
        """Stop the web server. Further calls have no effect."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def start_exporter(port: int = 9404, host: str = "0.0.0.0", clients: Iterable[Measured] | None = None) -> Exporter:
    """Start a web server that answers Prometheus's scrapes at http://host:port/metrics, until close() or the end of the process.

    It serves both text formats, and reads metrics only for a scrape. port: 0 for any free port. host: the address to listen at, by default
    all addresses; everybody who can connect sees the names of topics and clients. clients: see KafkaCollector. Raises OSError if the port
    is in use.
    """
    return Exporter(port, host, clients)


def _registry(clients: Iterable[Measured] | None) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(KafkaCollector(clients))
    return registry
