"""Where the connection to each node stands.

    DISCONNECTED -> CONNECTING -> CHECKING_API_VERSIONS -> READY
         ^_____________|__________________|________________|
                       |___________________________________^
                         what the broker speaks was configured

A connection is only ever begun on demand, when somebody wants to send (N18). CONNECTING lasts at most the set-up timeout, which doubles
with every set-up that failed (N17). CHECKING_API_VERSIONS is entered when the ApiVersions request is really on its way, or the
connection could hang there for ever (N22). Only READY resets the reconnect back-off: a broker that accepts and drops must not be
hammered (N19, TR25). The node's throttle deadline never moves backwards (N27).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from random import Random

from levada.client.api_versions import BrokerVersions
from levada.client.backoff import ExponentialBackoff
from levada.clock import NEVER_MS
from levada.errors import IllegalStateError
from levada.types import Node


class ConnectionState(Enum):
    """See the module's theory."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CHECKING_API_VERSIONS = "checking api versions"
    READY = "ready"


_S = ConnectionState
TRANSITIONS: Mapping[ConnectionState, frozenset[ConnectionState]] = {
    _S.DISCONNECTED: frozenset({_S.CONNECTING}),
    _S.CONNECTING: frozenset({_S.CHECKING_API_VERSIONS, _S.READY, _S.DISCONNECTED}),
    _S.CHECKING_API_VERSIONS: frozenset({_S.READY, _S.DISCONNECTED}),
    _S.READY: frozenset({_S.DISCONNECTED}),
}


GONE_AFTER_FAILURES = 2


class NodeConnection:
    """One node's connection: its state and what the next attempt depends on. losses counts how often it ended or could not be made."""

    __slots__ = (
        "failures",
        "last_attempt_ms",
        "losses",
        "node",
        "retry_at_ms",
        "setup_deadline_ms",
        "setup_failures",
        "state",
        "throttled_until_ms",
        "versions",
    )

    def __init__(self, node: Node) -> None:
        self.node = node
        self.state = ConnectionState.DISCONNECTED
        self.failures = 0
        self.setup_failures = 0
        self.losses = 0
        self.last_attempt_ms = 0
        self.retry_at_ms = 0
        self.setup_deadline_ms = NEVER_MS
        self.throttled_until_ms = 0
        self.versions: BrokerVersions | None = None

    @property
    def given_up(self) -> bool:
        """Whether the node counts as gone: a lost connection gets one more try first."""
        return self.state is ConnectionState.DISCONNECTED and self.failures >= GONE_AFTER_FAILURES

    def move(self, state: ConnectionState) -> None:
        """Change the state along TRANSITIONS; anything else is a bug here."""
        if state not in TRANSITIONS[self.state]:
            raise IllegalStateError(f"{self.node.address} cannot go from {self.state.value} to {state.value}")
        self.state = state


class ConnectionStates:
    """The connections of one client, by node id."""

    def __init__(
        self, *, random: Random, reconnect_backoff_ms: int, reconnect_backoff_max_ms: int, setup_timeout_ms: int, setup_timeout_max_ms: int
    ) -> None:
        self._reconnect = ExponentialBackoff(reconnect_backoff_ms, max(reconnect_backoff_ms, reconnect_backoff_max_ms), random)
        self._setup = ExponentialBackoff(setup_timeout_ms, max(setup_timeout_ms, setup_timeout_max_ms), random)
        self._nodes: dict[int, NodeConnection] = {}

    def get(self, node_id: int) -> NodeConnection | None:
        """Return what is known of a node, None before its first connection."""
        return self._nodes.get(node_id)

    def __iter__(self) -> Iterator[NodeConnection]:
        return iter(self._nodes.values())

    def state(self, node_id: int) -> ConnectionState:
        """Return a node's state; a node never connected to is DISCONNECTED."""
        known = self._nodes.get(node_id)
        return ConnectionState.DISCONNECTED if known is None else known.state

    def can_connect(self, node_id: int, now_ms: int) -> bool:
        """Whether a connection may be begun: there is none, and the back-off is over."""
        known = self._nodes.get(node_id)
        return known is None or (known.state is ConnectionState.DISCONNECTED and now_ms >= known.retry_at_ms)

    def connecting(self, node: Node, now_ms: int) -> None:
        """A connection is begun."""
        known = self._nodes.get(node.id)
        if known is None:
            known = self._nodes[node.id] = NodeConnection(node)
        known.node = node
        known.move(ConnectionState.CONNECTING)
        known.last_attempt_ms = now_ms
        known.versions = None
        known.setup_deadline_ms = now_ms + self._setup.delay_ms(known.setup_failures)

    def checking(self, node_id: int) -> None:
        """TCP is connected and ApiVersions on its way."""
        known = self._nodes[node_id]
        known.move(ConnectionState.CHECKING_API_VERSIONS)
        self._is_set_up(known)

    def ready(self, node_id: int, versions: BrokerVersions) -> None:
        """It is known what the broker speaks, because it said so or the configuration does."""
        known = self._nodes[node_id]
        known.move(ConnectionState.READY)
        self._is_set_up(known)
        known.versions = versions
        known.failures = 0

    @staticmethod
    def _is_set_up(known: NodeConnection) -> None:
        known.setup_deadline_ms = NEVER_MS
        known.setup_failures = 0

    def disconnected(self, node_id: int, now_ms: int) -> None:
        """The connection ended, or was not made."""
        known = self._nodes[node_id]
        if known.state is ConnectionState.CONNECTING:
            known.setup_failures += 1
        known.move(ConnectionState.DISCONNECTED)
        known.last_attempt_ms = now_ms
        known.retry_at_ms = now_ms + self._reconnect.delay_ms(known.failures)
        known.setup_deadline_ms = NEVER_MS
        known.failures += 1
        known.losses += 1
        known.throttled_until_ms = 0

    def forget(self, node_id: int) -> None:
        """Drop a node and its back-off: its address changed."""
        self._nodes.pop(node_id, None)

    def throttle(self, node_id: int, until_ms: int) -> None:
        """Send nothing to the node before that time."""
        known = self._nodes[node_id]
        known.throttled_until_ms = max(known.throttled_until_ms, until_ms)

    def delay_ms(self, node_id: int, now_ms: int) -> int:
        """How long to leave the node alone: the rest of a throttle, back-off or set-up; NEVER_MS while an event will tell (N21)."""
        known = self._nodes.get(node_id)
        if known is None:
            return 0
        if known.state is ConnectionState.DISCONNECTED:
            return max(known.retry_at_ms - now_ms, 0)
        if known.state is ConnectionState.CONNECTING:
            return max(known.setup_deadline_ms - now_ms, 0)
        throttle_ms = known.throttled_until_ms - now_ms
        return throttle_ms if throttle_ms > 0 else NEVER_MS

    def setup_timed_out(self, now_ms: int) -> list[int]:
        """Return the nodes whose TCP connection took too long."""
        return [known.node.id for known in self._nodes.values() if now_ms >= known.setup_deadline_ms]

    def next_deadline_ms(self) -> int:
        """When the next set-up times out."""
        return min((known.setup_deadline_ms for known in self._nodes.values()), default=NEVER_MS)
