"""Counts the requests and responses of a client's connections, for metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from levada.base.measure import Measure
from levada.client.network.connection_key import Peer, key_of
from levada.metrics import Reading, averaged, counted, summed


class NodeTraffic:
    """Counts the requests and responses of one node, or of all nodes together."""

    def __init__(self) -> None:
        self.requests = Measure()
        self.responses = Measure()
        self.latency = Measure()


class Traffic:
    """Counts the requests and responses of one client, in total and by node, and measures the latencies by API name."""

    def __init__(self) -> None:
        self.whole = NodeTraffic()
        self.nodes: dict[int, NodeTraffic] = {}
        self.latencies: dict[str, Measure] = {}
        self._by_peer: dict[Peer, NodeTraffic] = {}
        """The entries of `nodes`, to find them without a call."""

    def sent(self, peer: Peer, size: int, now_ms: int) -> None:
        """Count a request. size: its size in bytes."""
        self.whole.requests.note(size, now_ms)
        (self._by_peer.get(peer) or self._node(peer)).requests.note(size, now_ms)

    def received(self, peer: Peer, api: str, size: int, latency_ms: int, now_ms: int) -> None:
        """Count a response. size: its size in bytes. latency_ms: the time since its request."""
        for traffic in (self.whole, self._by_peer.get(peer) or self._node(peer)):
            traffic.responses.note(size, now_ms)
            traffic.latency.note(latency_ms, now_ms)
        (self.latencies.get(api) or self.latency(api)).note(latency_ms, now_ms)

    def latency(self, api: str) -> Measure:
        """Return the latencies of one API, in ms."""
        measure = self.latencies.get(api)
        if measure is None:
            measure = self.latencies[api] = Measure()
        return measure

    def _node(self, peer: Peer) -> NodeTraffic:
        node_id = key_of(peer).node_id
        traffic = self._by_peer[peer] = self.nodes.get(node_id) or NodeTraffic()
        self.nodes[node_id] = traffic
        return traffic


NODE_READINGS: Sequence[Reading[Any]] = (
    *counted("request", "Requests", lambda node: node.requests),
    *averaged("request-size", "Bytes of a request", lambda node: node.requests),
    *summed("outgoing-byte", "Bytes of requests", lambda node: node.requests),
    *counted("response", "Responses", lambda node: node.responses),
    *summed("incoming-byte", "Bytes of responses", lambda node: node.responses),
    *averaged("request-latency", "Milliseconds from a request to its response", lambda node: node.latency),
)
"""Metrics of one node, and of all nodes together."""
