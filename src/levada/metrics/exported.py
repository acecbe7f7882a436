"""The clients whose metrics are exported: all clients of the process, or some. Holds weak references, and reads metrics only on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Protocol
from weakref import ReferenceType, WeakValueDictionary, ref

from levada.errors import KafkaError
from levada.metrics import CLIENT_ID, Metrics


class Measured(Protocol):
    """A client that has metrics."""

    def metrics(self) -> Metrics:
        """Return a snapshot of the client's metrics. This method may be called on any thread."""
        ...


_opened: WeakValueDictionary[int, Measured] = WeakValueDictionary()
_numbers = count()


def opened(client: Measured) -> None:
    """Register a new client, so that exporters for all clients of the process find it."""
    _opened[next(_numbers)] = client


class Snapshot:
    """The metrics of one client at one moment. client_id: an id that no other client of the same kind has."""

    def __init__(self, client_id: str, metrics: Metrics) -> None:
        self.client_id = client_id
        self.metrics = metrics

    def labels(self, tags: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return a metric's tags with names that Prometheus and OpenTelemetry accept: client_id, node_id, topic, partition."""
        return {name.replace("-", "_"): self.client_id if name == CLIENT_ID else text for name, text in tags}


class Watched:
    """The clients whose metrics are exported. If None is given, these are all clients of this process, also those that are opened later."""

    def __init__(self, clients: Iterable[Measured] | None) -> None:
        self._clients = None if clients is None else [ref(client) for client in clients]

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield a snapshot of each open client: in the order given, or of all clients of this process, beginning with the oldest.

        A second client of the same kind and with the same client.id gets the client id "id#2", because Prometheus refuses all metrics if
        two have the same name and labels.
        """
        seen: Counter[tuple[str, str]] = Counter()
        for reference in self._references():
            client = reference()
            if client is None:
                continue
            try:
                metrics = client.metrics()
            except KafkaError:
                # The client is closed, has failed, or belongs to the parent of this forked process.
                continue
            first = next(iter(metrics))
            client_id = dict(first.tags)[CLIENT_ID]
            # The groups of one client all begin with the same word.
            kind = first.group.partition("-")[0], client_id
            seen[kind] += 1
            yield Snapshot(client_id if seen[kind] == 1 else f"{client_id}#{seen[kind]}", metrics)

    def _references(self) -> Iterable[ReferenceType[Measured]]:
        return _opened.valuerefs() if self._clients is None else self._clients
