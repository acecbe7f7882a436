"""The clients whose metrics are exported: those of the whole process, or some of them. None is kept alive, or read before it is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Protocol
from weakref import ReferenceType, WeakValueDictionary, ref

from levada.errors import KafkaError
from levada.metrics import CLIENT_ID, Metrics


class Measured(Protocol):
    """A client."""

    def metrics(self) -> Metrics:
        """Return a snapshot, from any thread."""
        ...


_opened: WeakValueDictionary[int, Measured] = WeakValueDictionary()
_numbers = count()


def opened(client: Measured) -> None:
    """Have a new client be found by those who watch the whole process."""
    _opened[next(_numbers)] = client


class Snapshot:
    """The metrics of one client at one moment. client_id: unique among clients of its kind."""

    def __init__(self, client_id: str, metrics: Metrics) -> None:
        self.client_id = client_id
        self.metrics = metrics

    def labels(self, tags: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return a metric's tags under names that Prometheus and OpenTelemetry take: client_id, node_id, topic, partition."""
        return {name.replace("-", "_"): self.client_id if name == CLIENT_ID else text for name, text in tags}


class Watched:
    """Some clients, or with None all of this process, also those that are opened later."""

    def __init__(self, clients: Iterable[Measured] | None) -> None:
        self._clients = None if clients is None else [ref(client) for client in clients]

    def snapshots(self) -> Iterator[Snapshot]:
        """Read all that are open, the oldest first.

        A second client of the same kind and client.id is called "id#2": two values under one name would make Prometheus refuse all of them.
        """
        seen: Counter[tuple[str, str]] = Counter()
        for reference in self._references():
            client = reference()
            if client is None:
                continue
            try:
                metrics = client.metrics()
            except KafkaError:
                # Closed, stopped by a bug, or of the process that this one was forked from: it is not there any more.
                continue
            first = next(iter(metrics))
            client_id = dict(first.tags)[CLIENT_ID]
            # The groups of one client all begin with the same word.
            kind = first.group.partition("-")[0], client_id
            seen[kind] += 1
            yield Snapshot(client_id if seen[kind] == 1 else f"{client_id}#{seen[kind]}", metrics)

    def _references(self) -> Iterable[ReferenceType[Measured]]:
        return _opened.valuerefs() if self._clients is None else self._clients
