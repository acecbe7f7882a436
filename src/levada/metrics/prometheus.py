"""The metrics of clients as Prometheus reads them: names and labels are those that the JMX exporter gives Java's clients.

Needs the extra `prometheus`. start_exporter() is for programs without a web server, exposition() for those that have one, and
KafkaCollector for those that export metrics of their own with prometheus_client.
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
"""Where Java's JMX has the groups that begin so."""


def prometheus_name(metric: MetricName) -> str:
    """Return a metric's name: kafka_producer_producer_metrics_record_send_total."""
    domain = next(domain for beginning, domain in _DOMAINS.items() if metric.group.startswith(beginning))
    return f"{domain}.{metric.group}.{metric.name}".replace("-", "_").replace(".", "_")


class KafkaCollector(Collector):
    """Gives a CollectorRegistry of prometheus_client the metrics of clients, whenever it is scraped.

    clients: whose; None for all clients of this process, also those that are opened later. Blocking and asyncio clients are read from
    whatever thread scrapes. A client that is closed is left out from then on, and an average or a maximum of nothing is left out as well.
    A second client of the same kind with the same client.id has "#2" after it in the label client_id.
    """

    def __init__(self, clients: Iterable[Measured] | None = None) -> None:
        self._watched = Watched(clients)

    def collect(self) -> Iterator[Metric]:
        """Read all of them."""
        families: dict[str, Metric] = {}
        for snapshot in self._watched.snapshots():
            for metric, value in snapshot.metrics.items():
                if isnan(value):
                    continue
                name = prometheus_name(metric)
                family = families.get(name)
                if family is None:
                    kind = "counter" if metric.is_total else "gauge"
                    # A counter's own name has no _total: the formats write it, each in its place.
                    family = families[name] = Metric(name.removesuffix("_total"), snapshot.metrics.meaning(metric), kind)
                family.add_sample(name, snapshot.labels(metric.tags), value)
        yield from families.values()

    def describe(self) -> Iterable[Metric]:
        """Describe nothing: which names there are depends on the clients. With this no client is read when the collector is registered."""
        return ()


class Exposition(NamedTuple):
    """The answer to a scrape: bytes, and what to send as Content-Type."""

    body: bytes
    content_type: str


def exposition(accept: str = "", clients: Iterable[Measured] | None = None) -> Exposition:
    """Return the metrics of clients as text, for a web server of the program's own.

    accept: the request's Accept header, which decides between Prometheus's text format 0.0.4 and OpenMetrics. clients: as KafkaCollector.
    """
    encode, content_type = choose_encoder(accept)
    return Exposition(encode(_registry(clients)), content_type)


class Exporter:
    """A web server with the metrics of clients at /metrics, in a thread of its own; a context manager. start_exporter() makes one."""

    def __init__(self, port: int, host: str, clients: Iterable[Measured] | None) -> None:
        self._server, self._thread = start_http_server(port, host, _registry(clients))
        self.port: int = self._server.server_port
        """Where it listens."""

    def close(self) -> None:
        """Answer no more scrapes. Idempotent."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def start_exporter(port: int = 9404, host: str = "0.0.0.0", clients: Iterable[Measured] | None = None) -> Exporter:
    """Answer Prometheus's scrapes at http://host:port/metrics, in both text formats, until close() or the end of the process.

    port: 0 for one that is free. host: the address to listen at, all by default; whoever reaches it sees the names of topics and clients.
    clients: as KafkaCollector. Raises OSError when the port is taken. Nothing is computed while nobody scrapes.
    """
    return Exporter(port, host, clients)


def _registry(clients: Iterable[Measured] | None) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(KafkaCollector(clients))
    return registry
