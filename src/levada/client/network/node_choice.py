"""Chooses a node for a request that any node can answer, as Java's NetworkClient.leastLoadedNode() does."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from levada.base.clock import NEVER_MS
from levada.client.metadata.metadata import Metadata
from levada.client.network.connection_key import ConnectionKey, key_of
from levada.client.network.connection_states import Connection, ConnectionStates
from levada.client.network.in_flight import InFlightRequests
from levada.client.setup.states import BEING_SET_UP, ESTABLISHED
from levada.types import Node


class NodeChoice:
    """Chooses nodes by the state of their connections. usable: returns the connection if a request can be written to it now; else None."""

    def __init__(
        self,
        metadata: Metadata,
        states: ConnectionStates,
        in_flight: InFlightRequests,
        random: Random,
        usable: Callable[[ConnectionKey, int], Connection | None],
    ) -> None:
        self._metadata = metadata
        self._states = states
        self._in_flight = in_flight
        self._random = random
        self._usable = usable

    def least_loaded_node(self, now_ms: int) -> Node | None:
        """Return the node for a request that any node can answer; None if no node can be used now.

        The first choice is a node to which a request can be sent at once, with the fewest requests in flight. The second is a node that is
        being connected to, or that has to authenticate again first. The last is the node whose last attempt is the oldest.
        """
        nodes = list(self._metadata.snapshot.nodes.values())
        self._random.shuffle(nodes)
        usable = [(self._preference(node.id, now_ms), node) for node in nodes]
        best = min((pair for pair in usable if pair[0] is not None), key=lambda pair: pair[0] or (), default=None)
        return None if best is None else best[1]

    def shortest_delay_ms(self, now_ms: int) -> int:
        """Return for how many milliseconds no known node can be used; NEVER_MS if only an event can change that."""
        return min((self._states.delay_ms(node_id, now_ms) for node_id in self._metadata.snapshot.nodes), default=NEVER_MS)

    def has_usable_node(self) -> bool:
        """Return whether any node is connected, is being connected to, or has not failed often enough to count as gone."""
        known = [self._states.get(key_of(node_id)) for node_id in self._metadata.snapshot.nodes]
        return any(connection is None or not connection.given_up for connection in known)

    def _preference(self, node_id: int, now_ms: int) -> tuple[int, int] | None:
        key = key_of(node_id)
        known = self._states.get(key)
        if self._usable(key, now_ms) is not None:
            return (0, self._in_flight.count(key))
        if known is not None and (known.state in BEING_SET_UP or (known.state in ESTABLISHED and now_ms >= known.reauthenticate_ms)):
            return (1, 0)
        return (2, 0 if known is None else known.last_attempt_ms) if self._states.can_connect(key, now_ms) else None
