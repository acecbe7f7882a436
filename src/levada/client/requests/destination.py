"""Where a request goes: any node, one node, the controller, a partition's leader, or a coordinator.

A flow names the destination (`Call(request, node=Leader(tp))`), and it is resolved when the request is sent, from metadata or by a look-up.
None (`flow.ANY_NODE`) is the least loaded node. A node id or a connection key is used as it stands: the call fails at once when the node is
not known, whereas ThisNode refreshes the metadata first.
"""

from __future__ import annotations

from dataclasses import dataclass

from levada.base.flow import Destination, Flow, Wait
from levada.client.metadata.known_topics import topic_error
from levada.client.metadata.metadata import Metadata
from levada.client.network.connection_key import ConnectionKey
from levada.client.requests.coordinator_finder import CoordinatorFinder, CoordinatorKind
from levada.errors import ConnectError, IllegalStateError
from levada.types import Node, TopicPartition

__all__ = ["Controller", "Coordinator", "CoordinatorKind", "Destinations", "Leader", "ThisNode"]


@dataclass(frozen=True, slots=True)
class ThisNode(Destination):
    """A node by its id. Raises ConnectError if the cluster does not have the node after a metadata update."""

    node_id: int


@dataclass(frozen=True, slots=True)
class Controller(Destination):
    """The controller, as metadata names it. Raises ConnectError if none is named (brokers before 0.10 never name one)."""


@dataclass(frozen=True, slots=True)
class Leader(Destination):
    """The leader of a partition; the flow waits until there is one. Metadata of the topic must be requested already.

    Raises a permanent error of the topic.
    """

    tp: TopicPartition


@dataclass(frozen=True, slots=True)
class Coordinator(Destination):
    """The coordinator of a group (key: the group id), of a transactional id or of a share partition. Raises the error of the look-up.

    The request uses the broker's connection for coordinators (Purpose.COORDINATOR).
    """

    kind: CoordinatorKind
    key: str


class Destinations:
    """Finds the connections for the destinations of one client's flows."""

    def __init__(self, metadata: Metadata, coordinators: CoordinatorFinder) -> None:
        self._metadata = metadata
        self._coordinators = coordinators

    def find(self, destination: Destination) -> Flow[ConnectionKey]:
        """Return the connection for a destination. May wait for a look-up or a metadata update. Raises the errors of the destinations."""
        if isinstance(destination, Coordinator):
            return (yield from self._coordinators.find(destination.kind, destination.key))
        if isinstance(destination, Leader):
            return (yield from self._leader(destination.tp))
        if isinstance(destination, ThisNode | Controller):
            return (yield from self._node(destination))
        raise IllegalStateError(f"{destination!r} is no destination")

    def _node(self, destination: ThisNode | Controller) -> Flow[ConnectionKey]:
        found = self._look_up(destination)
        if found is None:
            yield Wait(self._metadata.refreshed())
            found = self._look_up(destination)
        if found is not None:
            return ConnectionKey(found.id)
        known = ", ".join(str(node_id) for node_id in sorted(self._metadata.snapshot.nodes))
        if isinstance(destination, ThisNode):
            raise ConnectError(f"node {destination.node_id} is not among the cluster's nodes: {known}")
        raise ConnectError(f"no controller is named (Kafka before 0.10 never does) among the cluster's nodes: {known}")

    def _look_up(self, destination: ThisNode | Controller) -> Node | None:
        snapshot = self._metadata.snapshot
        if isinstance(destination, Controller):
            return snapshot.controller
        # Bootstrap addresses have negative node ids. They are internal.
        return snapshot.nodes.get(destination.node_id) if destination.node_id >= 0 else None

    def _leader(self, tp: TopicPartition) -> Flow[ConnectionKey]:
        while (leader := self._metadata.snapshot.leader(tp)) is None:
            topic = self._metadata.topic(tp.topic)
            if topic is not None and topic.error and not topic.error.retriable:
                raise topic_error(topic.error, tp.topic)
            yield Wait(self._metadata.refreshed())
        return ConnectionKey(leader.id)
