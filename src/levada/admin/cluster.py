"""Describe the cluster."""

from __future__ import annotations

from typing import NamedTuple

from levada.flow import Call, Flow
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse
from levada.types import Node


class ClusterDescription(NamedTuple):
    """The brokers of a cluster. controller: the broker that passes on administrative requests, None where none is named.

    Brokers before 0.10 name no controller, and those before 0.10.1 no cluster id.
    """

    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]


def describe_cluster() -> Flow[ClusterDescription]:
    """Ask any broker who belongs to the cluster."""
    response: MetadataResponse = yield Call(MetadataRequest(topics=[]))
    nodes = tuple(sorted(Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers))
    controller = next((node for node in nodes if node.id == response.controller_id), None)
    return ClusterDescription(response.cluster_id, controller, nodes)
