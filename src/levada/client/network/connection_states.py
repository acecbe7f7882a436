"""The connections of a client: the state, back-off and API versions of each.

The states and their transitions are in `setup.states`. A connection is begun only on demand, when somebody wants to send. CONNECTING lasts
at most socket.connection.setup.timeout.ms, which doubles with every set-up that failed. Only READY resets the reconnect back-off, so that a
broker which accepts connections and drops them is not hammered. A connection's throttle deadline never moves backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from levada.base.clock import NEVER_MS, ExponentialBackoff
from levada.base.measure import Measure
from levada.base.state_table import following
from levada.client.network.api_versions import BrokerVersions, FinalizedFeatures
from levada.client.network.connection_key import ConnectionKey, Peer, key_of
from levada.client.setup.flow import SetUp
from levada.client.setup.states import ESTABLISHED, TRANSITIONS, ConnectionEvent, ConnectionState
from levada.errors import IllegalStateError, UnsupportedVersionError
from levada.protocol.schema import Request
from levada.types import Node

GONE_AFTER_FAILURES = 2
_LEAST_OF_LIFETIME, _MOST_OF_LIFETIME = 0.85, 0.95
"""Part of a session's lifetime after which the client authenticates again, as Java's client does (KIP-368)."""


def reauthentication_ms(session_lifetime_ms: int, now_ms: int, random: Random) -> int:
    """Return the time, in ms, at which to authenticate again; NEVER_MS for a lifetime of 0.

    It is random, so that clients do not authenticate at the same time.
    """
    if session_lifetime_ms <= 0:
        return NEVER_MS
    return now_ms + int(session_lifetime_ms * random.uniform(_LEAST_OF_LIFETIME, _MOST_OF_LIFETIME))


class Connection:
    """The state of one connection, and of the attempts to establish it.

    losses: how often it has ended or could not be established. failures: the same since it was last set up; the back-off grows
    with it. chances_used: like `failures`, but also reset when the client goes back to the bootstrap addresses. has_worked: whether it was
    ever set up. has_answered: whether a request other than those of the set-up was answered since it was last established.
    reauthenticate_ms: when it has to authenticate before the next request.
    """

    __slots__ = (
        "chances_used",
        "failures",
        "has_answered",
        "has_worked",
        "key",
        "last_attempt_ms",
        "losses",
        "node",
        "reauthenticate_ms",
        "retry_at_ms",
        "setup_deadline_ms",
        "setup_failures",
        "state",
        "throttled_until_ms",
        "versions",
    )

    def __init__(self, key: ConnectionKey, node: Node) -> None:
        self.key = key
        self.node = node
        self.state = ConnectionState.DISCONNECTED
        self.failures = 0
        self.chances_used = 0
        self.has_answered = False
        self.has_worked = False
        self.setup_failures = 0
        self.losses = 0
        self.last_attempt_ms = 0
        self.retry_at_ms = 0
        self.setup_deadline_ms = NEVER_MS
        self.throttled_until_ms = 0
        self.reauthenticate_ms = NEVER_MS
        self.versions: BrokerVersions | None = None

    @property
    def given_up(self) -> bool:
        """Whether the node counts as gone, because several attempts have failed. After the loss of a connection one more attempt is made
        first.
        """
        return self.state is ConnectionState.DISCONNECTED and self.chances_used >= GONE_AFTER_FAILURES

    def version_for(self, request_type: type[Request], min_version: int, max_version: int) -> int:
        """Return the version in which a request is sent; see NetworkClient.version_for()."""
        if self.versions is None:
            raise IllegalStateError(f"{self.key} has not said what it speaks")
        try:
            return self.versions.version_for(request_type, min_version, max_version)
        except UnsupportedVersionError as error:
            raise UnsupportedVersionError(f"{self.node.address}: {error.reason}") from None

    def take(self, event: ConnectionEvent) -> None:
        """Change the state by an event, as TRANSITIONS says. An event that the table does not have is a bug of the caller."""
        self.state = following(TRANSITIONS, self.state, event, f"the connection to {self.node.address}")


class ConnectionStates:
    """The connections of one client, by key. made: counts connections that became ready for requests. ended: counts how many of these have
    ended.
    """

    def __init__(
        self, *, random: Random, reconnect_backoff_ms: int, reconnect_backoff_max_ms: int, setup_timeout_ms: int, setup_timeout_max_ms: int
    ) -> None:
        self._reconnect = ExponentialBackoff(reconnect_backoff_ms, max(reconnect_backoff_ms, reconnect_backoff_max_ms), random)
        self._setup = ExponentialBackoff(setup_timeout_ms, max(setup_timeout_ms, setup_timeout_max_ms), random)
        self._random = random
        self.made, self.ended = Measure(), Measure()
        self._connections: dict[ConnectionKey, Connection] = {}
        self._connecting: dict[ConnectionKey, Connection] = {}
        self.get: Callable[[ConnectionKey], Connection | None] = self._connections.get
        """Return what is known of a connection; None before its first attempt, and after forget()."""
        self.next_deadline_ms = NEVER_MS
        """When the next set-up times out."""
        self.features = FinalizedFeatures()

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._connections.values()))

    def __len__(self) -> int:
        return len(self._connections)

    def state(self, peer: Peer) -> ConnectionState:
        """Return the state of a connection; DISCONNECTED before the first attempt."""
        known = self._connections.get(key_of(peer))
        return ConnectionState.DISCONNECTED if known is None else known.state

    def can_connect(self, peer: Peer, now_ms: int) -> bool:
        """Whether an attempt to connect may begin: there is no connection, and the back-off is over."""
        known = self._connections.get(key_of(peer))
        return known is None or (known.state is ConnectionState.DISCONNECTED and now_ms >= known.retry_at_ms)

    def connecting(self, peer: Peer, node: Node, now_ms: int) -> None:
        """Record that an attempt to connect to a node begins."""
        key = key_of(peer)
        known = self._connections.get(key)
        if known is None:
            known = self._connections[key] = Connection(key, node)
        known.node = node
        known.take(ConnectionEvent.BEGUN)
        known.last_attempt_ms = now_ms
        known.versions = None
        known.has_answered = False
        known.reauthenticate_ms = NEVER_MS
        known.setup_deadline_ms = now_ms + self._setup.delay_ms(known.setup_failures)
        self._connecting[key] = known
        self._note_deadline()

    def asked(self, peer: Peer, event: ConnectionEvent) -> None:
        """Record that the transport is ready, and that a request of the set-up was sent. event: which request."""
        known = self._connections[key_of(peer)]
        known.take(event)
        self._is_connected(known)

    def ready(self, peer: Peer, done: SetUp, now_ms: int) -> None:
        """Record that the set-up is done, or that the session was renewed. done: the broker's versions and the lifetime of the session."""
        known = self._connections[key_of(peer)]
        if known.state is not ConnectionState.REAUTHENTICATING:
            self.made.note(1, now_ms)
        known.take(ConnectionEvent.SET_UP)
        self._is_connected(known)
        known.versions = done.versions
        known.reauthenticate_ms = reauthentication_ms(done.session_lifetime_ms, now_ms, self._random)
        self.features.learn(done.versions)
        known.has_worked = True
        known.failures = known.chances_used = 0

    def session_ends(self, peer: Peer) -> None:
        """Record that the connection begins to authenticate again."""
        self._connections[key_of(peer)].take(ConnectionEvent.SESSION_ENDS)

    def _is_connected(self, known: Connection) -> None:
        self._connecting.pop(known.key, None)
        self._note_deadline()
        known.setup_deadline_ms = NEVER_MS
        known.setup_failures = 0

    def disconnected(self, peer: Peer, now_ms: int) -> None:
        """Record that the connection ended, or could not be established."""
        known = self._connections[key_of(peer)]
        if self._connecting.pop(known.key, None) is not None:
            known.setup_failures += 1
            self._note_deadline()
        if known.state in ESTABLISHED:
            self.ended.note(1, now_ms)
        known.take(ConnectionEvent.ENDED)
        known.last_attempt_ms = now_ms
        known.retry_at_ms = now_ms + self._reconnect.delay_ms(known.failures)
        known.setup_deadline_ms = NEVER_MS
        known.failures += 1
        known.chances_used += 1
        known.losses += 1
        known.throttled_until_ms = 0

    def forget(self, peer: Peer) -> None:
        """Forget a connection that has ended, and its back-off, because its address has changed or has left the cluster."""
        self._connections.pop(key_of(peer), None)

    def throttle(self, peer: Peer, until_ms: int) -> None:
        """Record that nothing may be sent on a connection before this time, in ms."""
        known = self._connections[key_of(peer)]
        known.throttled_until_ms = max(known.throttled_until_ms, until_ms)

    def delay_ms(self, peer: Peer, now_ms: int) -> int:
        """Return for how many milliseconds a connection cannot be used: the rest of its throttle time, back-off or set-up.

        NEVER_MS means that no time is known; the next event of the connection decides.
        """
        known = self._connections.get(key_of(peer))
        if known is None:
            return 0
        if known.state is ConnectionState.DISCONNECTED:
            return max(known.retry_at_ms - now_ms, 0)
        if known.state is ConnectionState.CONNECTING:
            return max(known.setup_deadline_ms - now_ms, 0)
        throttle_ms = known.throttled_until_ms - now_ms
        return throttle_ms if throttle_ms > 0 else NEVER_MS

    def setup_timed_out(self, now_ms: int) -> list[ConnectionKey]:
        """Return the connections whose transport was not ready in time."""
        return [key for key, known in self._connecting.items() if now_ms >= known.setup_deadline_ms]

    def _note_deadline(self) -> None:
        self.next_deadline_ms = min((known.setup_deadline_ms for known in self._connecting.values()), default=NEVER_MS)
