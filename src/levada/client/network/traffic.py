"""What goes over a client's connections, counted per request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from levada.base.measure import Measure
from levada.client.network.connection_key import Peer, key_of
from levada.metrics import Reading, averaged, counted, summed


class NodeTraffic:
    """Requests and responses with one node, or with all of them."""

    def __init__(self) -> None:
        self.requests = Measure()
        self.responses = Measure()
        self.latency = Measure()


class Traffic:
    """See the module's text. Latencies are also kept per API, by its name."""

    def __init__(self) -> None:
        self.whole = NodeTraffic()
        self.nodes: dict[int, NodeTraffic] = {}
        self.latencies: dict[str, Measure] = {}

    def sent(self, peer: Peer, size: int, now_ms: int) -> None:
        """A request of so many bytes goes out."""
        self.whole.requests.note(size, now_ms)
        self._node(peer).requests.note(size, now_ms)

    def received(self, peer: Peer, api: str, size: int, latency_ms: int, now_ms: int) -> None:
        """A response of so many bytes came in, so long after its request."""
        for traffic in (self.whole, self._node(peer)):
            traffic.responses.note(size, now_ms)
            traffic.latency.note(latency_ms, now_ms)
        self.latency(api).note(latency_ms, now_ms)

    def latency(self, api: str) -> Measure:
        """Return what is known of the latency of one API."""
        measure = self.latencies.get(api)
        if measure is None:
            measure = self.latencies[api] = Measure()
        return measure

    def _node(self, peer: Peer) -> NodeTraffic:
        node_id = key_of(peer).node_id
        traffic = self.nodes.get(node_id)
        if traffic is None:
            traffic = self.nodes[node_id] = NodeTraffic()
        return traffic


NODE_READINGS: Sequence[Reading[Any]] = (
    *counted("request", "Requests", lambda node: node.requests),
    *averaged("request-size", "Bytes of a request", lambda node: node.requests),
    *summed("outgoing-byte", "Bytes of requests", lambda node: node.requests),
    *counted("response", "Responses", lambda node: node.responses),
    *summed("incoming-byte", "Bytes of responses", lambda node: node.responses),
    *averaged("request-latency", "Milliseconds from a request to its response", lambda node: node.latency),
)
"""Of one node, and of all of them."""
