"""Requests to nodes: connects on demand, asks each broker what it speaks, sends, matches answers, notices trouble.

Nothing here waits. `ready` begins a connection and says no; the caller comes back. `send` parks a request and returns a Promise. The
engine calls `complete` with what the network did, and `expire` when time has passed; Promises are settled only after all state is up
to date, in order (N10). However a request ends, its Promise is settled exactly once: with the response, or with a DisconnectError that
says why, a ProtocolError for an answer that cannot be read, or an UnsupportedVersionError when nothing was sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from levada.client.api_versions import HANDSHAKE_CORRELATION_ID, AnyFrame, BrokerVersions, Negotiation, handshake_request, negotiate
from levada.client.connection_states import ConnectionState, ConnectionStates
from levada.client.deferred_log import DeferredLog
from levada.client.in_flight import InFlightRequest, InFlightRequests
from levada.client.metadata import Metadata
from levada.client.throttling import throttle_ms
from levada.clock import NEVER_MS
from levada.errors import (
    BootstrapError,
    ClosedError,
    ConnectError,
    DisconnectError,
    IllegalStateError,
    KafkaError,
    ProtocolError,
    UnsupportedVersionError,
)
from levada.net.diagnose import Doing, diagnose, is_stranger
from levada.net.selectable import ChannelState, Disconnect, Ending, NetEvents, Selectable
from levada.promise import Promise
from levada.protocol.frame import decode_response, encode_request, response_correlation_id
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.schema import Request
from levada.types import Node

CORRELATION_ID_END = 2_147_483_640
"""Java keeps the ids from here on for re-authentication (H5)."""

_DOING = {
    ConnectionState.CONNECTING: Doing.CONNECTING,
    ConnectionState.CHECKING_API_VERSIONS: Doing.NEGOTIATING,
    ConnectionState.READY: Doing.WORKING,
}


class NetworkClient:
    """See the module's theory. update_due: whether a metadata request wants to go first (N3); the engine sets it.

    fallback: what brokers speak that cannot be asked; None asks each of them.
    """

    def __init__(
        self,
        *,
        selectable: Selectable,
        metadata: Metadata,
        states: ConnectionStates,
        random: Random,
        client_id: str,
        log: DeferredLog,
        request_timeout_ms: int = 30_000,
        max_in_flight: int = 5,
        security_protocol: str = "PLAINTEXT",
        fallback: BrokerVersions | None = None,
    ) -> None:
        self.update_due: Callable[[int], bool] = lambda now_ms: False
        self.ever_ready = False
        self._selectable = selectable
        self._metadata = metadata
        self._states = states
        self._random = random
        self._client_id = client_id
        self._log = log
        self._request_timeout_ms = request_timeout_ms
        self._security_protocol = security_protocol
        self._fallback = fallback
        self._in_flight = InFlightRequests(max_in_flight)
        self._negotiations: dict[int, Negotiation] = {}
        self._settled: list[tuple[Promise[Any], Any, BaseException | None]] = []
        self._just_heard: frozenset[int] = frozenset()
        self._failures: dict[str, str] = {}
        self._strangers: set[str] = set()
        self._correlation_id = 0
        self._closed = False

    # Asking

    def ready(self, node_id: int, now_ms: int) -> bool:
        """Whether a request may be sent to a node now; begins to connect when that is missing and allowed (N1)."""
        if self.is_ready(node_id, now_ms):
            return True
        self._connect_if_allowed(node_id, now_ms)
        return False

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        """Whether a user's request may be sent to a node now; False while a metadata request wants to go first (N2, N3)."""
        return self._can_send(node_id, now_ms) and not self.update_due(now_ms)

    def ready_for_metadata(self, node_id: int, now_ms: int) -> bool:
        """As ready(), for the metadata request itself."""
        if self._can_send(node_id, now_ms):
            return True
        self._connect_if_allowed(node_id, now_ms)
        return False

    def state(self, node_id: int) -> ConnectionState:
        """Return how far the connection to a node is."""
        return self._states.state(node_id)

    def knows(self, node_id: int) -> bool:
        """Whether the node is part of the cluster as last heard of."""
        return self._metadata.node(node_id) is not None

    def losses(self, node_id: int) -> int:
        """How often a connection to the node ended or could not be made."""
        known = self._states.get(node_id)
        return 0 if known is None else known.losses

    def poll_delay_ms(self, node_id: int, now_ms: int) -> int:
        """How long it is pointless to ask for the node again; NEVER_MS while an event will tell (N21)."""
        return self._states.delay_ms(node_id, now_ms)

    def shortest_delay_ms(self, now_ms: int) -> int:
        """How long until any known node may be worth another look."""
        return min((self.poll_delay_ms(node_id, now_ms) for node_id in self._metadata.snapshot.nodes), default=NEVER_MS)

    def in_flight_count(self, node_id: int) -> int:
        """How many requests to a node wait for their answers."""
        return self._in_flight.count(node_id)

    def versions(self, node_id: int) -> BrokerVersions | None:
        """Return what a node speaks, None while it has not said."""
        known = self._states.get(node_id)
        return None if known is None else known.versions

    def version_for(self, node_id: int, request_type: type[Request], min_version: int = 0, max_version: int = 32767) -> int:
        """Return the version a request would be sent with. Raises UnsupportedVersionError; IllegalStateError before the node is ready."""
        versions = self.versions(node_id)
        if versions is None:
            raise IllegalStateError(f"node {node_id} has not said what it speaks")
        try:
            return versions.version_for(request_type, min_version, max_version)
        except UnsupportedVersionError as error:
            raise UnsupportedVersionError(f"{self._address(node_id)}: {error.reason}") from None

    def least_loaded_node(self, now_ms: int) -> Node | None:
        """Return the node to ask what any node can answer (N26); None when none can be used now.

        A node that can be sent to at once wins, with the fewest requests in flight; then one that is being connected to; then the one
        left alone for longest.
        """
        nodes = list(self._metadata.snapshot.nodes.values())
        self._random.shuffle(nodes)
        usable = [(self._preference(node.id, now_ms), node) for node in nodes]
        best = min((pair for pair in usable if pair[0] is not None), key=lambda pair: pair[0] or (), default=None)
        return None if best is None else best[1]

    @property
    def has_usable_node(self) -> bool:
        """Whether any node works, is being tried, or deserves a try before the client looks elsewhere."""
        nodes = [self._states.get(node_id) for node_id in self._metadata.snapshot.nodes]
        return any(known is None or not known.given_up for known in nodes)

    def failures(self) -> dict[str, str]:
        """Return what became of each address that could not be used, newest cause each; of those still being tried, what is known."""
        waiting = {
            known.node.address: diagnose(_SO_FAR[known.state], _DOING[known.state], security_protocol=self._security_protocol)
            for known in self._states
            if known.state in _SO_FAR
        }
        return {**waiting, **self._failures}

    def bootstrap_error(self, waited_s: float) -> BootstrapError:
        """Return the error for a client that never reached a broker, with what is known of each address."""
        reason = ": no address is a Kafka listener of this security.protocol" if self.hopeless else f" within {waited_s:g} s"
        return BootstrapError("no broker could be reached" + reason, self.failures())

    @property
    def hopeless(self) -> bool:
        """Whether no broker was ever reached and every address has proved to be something else, such as a web server."""
        return not self.ever_ready and all(node.address in self._strangers for node in self._metadata.snapshot.nodes.values())

    # Acting

    def send(
        self,
        node_id: int,
        request: Request,
        now_ms: int,
        *,
        timeout_ms: int | None = None,
        min_version: int = 0,
        max_version: int = 32767,
        expect_response: bool = True,
    ) -> Promise[Any]:
        """Park a request for a node that is ready; IllegalStateError when it is not (N7).

        timeout_ms: for this request, None for request.timeout.ms. Resolves with the response, with None when none is expected.
        Rejected with DisconnectError, UnsupportedVersionError (nothing was sent) and ProtocolError, never from within this call.
        """
        if self._closed:
            raise ClosedError("the client is closed")
        if not self._can_send(node_id, now_ms):
            raise IllegalStateError(f"a {request.NAME} request was sent to node {node_id}, which is not ready")
        promise: Promise[Any] = Promise()
        correlation_id = self._next_correlation_id()
        try:
            version = self.version_for(node_id, type(request), min_version, max_version)
            frame = encode_request(request, version, correlation_id, self._client_id)
        except KafkaError as error:
            self._settled.append((promise, None, error))
            return promise
        self._park(
            node_id,
            frame,
            InFlightRequest(
                type(request),
                version,
                correlation_id,
                promise,
                now_ms=now_ms,
                timeout_ms=self._request_timeout_ms if timeout_ms is None else timeout_ms,
                expect_response=expect_response,
            ),
        )
        return promise

    def disconnect(self, node_id: int, now_ms: int) -> None:
        """Drop a connection; its requests are rejected with the next poll, and the node enters back-off (N15)."""
        if self._states.state(node_id) is not ConnectionState.DISCONNECTED:
            self._close(node_id, "disconnected on request")
            self._lose(node_id, now_ms, Disconnect(ChannelState.LOCAL_CLOSE, "", Ending.LOCAL))

    def abandon(self, node_id: int, promise: Promise[Any], now_ms: int) -> None:
        """Nobody waits for this answer any more: drop the connection if it is the only one that is to come on it."""
        oldest = self._in_flight.oldest(node_id)
        if oldest is not None and oldest.promise is promise and self._in_flight.count(node_id) == 1:
            self.disconnect(node_id, now_ms)

    def close(self) -> None:
        """Close every connection and reject what is in flight."""
        self._closed = True
        for known in list(self._states):
            self._close(known.node.id, "the client is closed")
            for request in self._in_flight.clear(known.node.id):
                self._reject(request, ClosedError(f"the client was closed while {request} waited for its answer"))
        self.settle()

    # Driven by the engine

    def expire(self, now_ms: int) -> None:
        """Give up connections whose set-up or whose requests took too long (N13, N17), and settle what failed before it was sent.

        A process that was stopped for a while finds its answers waiting, and gets one per connection and step (L6): who was heard in this
        step gets another one before what is late counts as unanswered.
        """
        for node_id in self._states.setup_timed_out(now_ms):
            self._close(node_id, "not connected in time")
            self._lose(node_id, now_ms, Disconnect(ChannelState.NOT_CONNECTED, "", Ending.CONNECT_TIMED_OUT))
        heard, self._just_heard = self._just_heard, frozenset()
        for node_id, request in self._in_flight.timed_out(now_ms).items():
            if node_id in heard:
                continue
            text = f"{request} was not answered within {request.timeout_ms} ms"
            self._close(node_id, text)
            self._lose(node_id, now_ms, Disconnect(ChannelState.READY, text, Ending.UNANSWERED))
        self.settle()

    def complete(self, events: NetEvents, now_ms: int) -> None:
        """Take what the network did, in Java's order (N9), then settle."""
        self._just_heard = frozenset(node_id for node_id, _ in events.received)
        for node_id in events.sent:
            self._written(node_id)
        for node_id, frame in events.received:
            self._received(node_id, frame, now_ms)
        for node_id, disconnect in events.disconnected.items():
            if self._states.state(node_id) is not ConnectionState.DISCONNECTED:
                self._lose(node_id, now_ms, disconnect)
        for node_id in events.connected:
            if self._states.state(node_id) is ConnectionState.CONNECTING:
                self._begin_negotiation(node_id, now_ms)
        self.settle()

    def settle(self) -> None:
        """Settle the promises whose outcome is known. A callback that fails is logged; the others still run (N10)."""
        while self._settled:
            settled, self._settled = self._settled, []
            for promise, value, error in settled:
                try:
                    promise.resolve(value) if error is None else promise.reject(error)
                except Exception as fault:
                    self._log.error("a callback of a request failed; this is a bug in levada", error=fault)

    def next_deadline_ms(self) -> int:
        """When expire() has something to do."""
        return 0 if self._settled else min(self._states.next_deadline_ms(), self._in_flight.next_deadline_ms())

    # Connections

    def _can_send(self, node_id: int, now_ms: int) -> bool:
        known = self._states.get(node_id)
        if known is None or known.state is not ConnectionState.READY or now_ms < known.throttled_until_ms:
            return False
        return self._in_flight.can_send_more(node_id)

    def _connect_if_allowed(self, node_id: int, now_ms: int) -> None:
        node = self._metadata.node(node_id)
        if node is None or self._closed:
            return
        known = self._states.get(node_id)
        if known is not None and known.node[:3] != node[:3]:
            self._move(node_id, now_ms)
        if self._states.can_connect(node_id, now_ms):
            self._states.connecting(node, now_ms)
            self._selectable.connect(node_id, node.host, node.port, now_ms)

    def _move(self, node_id: int, now_ms: int) -> None:
        """The node has another address now: end the connection to the old one and begin with a clean slate (N23)."""
        self.disconnect(node_id, now_ms)
        self._failures.pop(self._address(node_id), None)
        self._states.forget(node_id)

    def _close(self, node_id: int, reason: str) -> None:
        if self._states.state(node_id) is not ConnectionState.DISCONNECTED:
            self._log.debug("closing the connection to %s: %s", self._address(node_id), reason)
        self._selectable.close(node_id)

    def _begin_negotiation(self, node_id: int, now_ms: int) -> None:
        if self._fallback is not None:
            self._become_ready(node_id, self._fallback)
            return
        self._negotiations[node_id] = negotiation = negotiate()
        self._ask_versions(node_id, next(negotiation), now_ms)
        self._states.checking(node_id)

    def _ask_versions(self, node_id: int, version: int, now_ms: int) -> None:
        frame = encode_request(handshake_request(), version, HANDSHAKE_CORRELATION_ID, self._client_id)
        timeout_ms = self._request_timeout_ms
        request = InFlightRequest(ApiVersionsRequest, version, HANDSHAKE_CORRELATION_ID, None, now_ms=now_ms, timeout_ms=timeout_ms)
        self._park(node_id, frame, request)

    def _park(self, node_id: int, frame: bytes, request: InFlightRequest) -> None:
        self._in_flight.add(node_id, request)
        if self._selectable.send(node_id, frame):
            self._written(node_id)

    def _next_correlation_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) % CORRELATION_ID_END
        return self._correlation_id

    # What came back

    def _written(self, node_id: int) -> None:
        request = self._in_flight.written(node_id)
        if request is not None and request.promise is not None:
            self._settled.append((request.promise, None, None))

    def _received(self, node_id: int, frame: AnyFrame, now_ms: int) -> None:
        if self._states.state(node_id) in (ConnectionState.DISCONNECTED, ConnectionState.CONNECTING):
            return
        request: InFlightRequest | None = None
        try:
            request = self._in_flight.answered(node_id, response_correlation_id(frame))
            if request.promise is None:
                self._negotiated(node_id, request, frame, now_ms)
            else:
                self._answered(node_id, request, request.promise, frame, now_ms)
        except KafkaError as error:
            self._unreadable(node_id, request, error, now_ms)

    def _answered(self, node_id: int, request: InFlightRequest, promise: Promise[Any], frame: AnyFrame, now_ms: int) -> None:
        response = decode_response(request.request_type, request.version, frame)
        self._honour_throttle(node_id, request, response, now_ms)
        self._settled.append((promise, response, None))

    def _honour_throttle(self, node_id: int, request: InFlightRequest, answer: Any, now_ms: int) -> None:
        pause_ms = throttle_ms(request.request_type, request.version, answer)
        if pause_ms:
            self._states.throttle(node_id, now_ms + pause_ms)
            self._in_flight.throttled(node_id, pause_ms)

    def _negotiated(self, node_id: int, request: InFlightRequest, frame: AnyFrame, now_ms: int) -> None:
        try:
            version = self._negotiations[node_id].send(frame)
        except StopIteration as done:
            del self._negotiations[node_id]
            self._become_ready(node_id, done.value)
            self._honour_throttle(node_id, request, done.value, now_ms)
        else:
            self._ask_versions(node_id, version, now_ms)

    def _become_ready(self, node_id: int, versions: BrokerVersions) -> None:
        self._states.ready(node_id, versions)
        self._failures.pop(self._address(node_id), None)
        self.ever_ready = True

    def _unreadable(self, node_id: int, request: InFlightRequest | None, error: KafkaError, now_ms: int) -> None:
        """An answer breaks the protocol, or is none of ours: what else the connection says cannot be believed (N5)."""
        self._close(node_id, str(error))
        if request is not None:
            self._reject(request, error)
        ending = Ending.UNREADABLE if isinstance(error, ProtocolError) else Ending.FAILED
        self._lose(node_id, now_ms, Disconnect(ChannelState.READY, str(error), ending))

    def _lose(self, node_id: int, now_ms: int, disconnect: Disconnect) -> None:
        """A connection is gone: back off, reject its requests oldest first, have metadata refreshed (N14)."""
        cause = self._cause(node_id, disconnect)
        # A broker that goes while nobody waits for it is no news yet; that it does not come back would be.
        idle = self._states.state(node_id) is ConnectionState.READY and not self._in_flight.count(node_id)
        self._states.disconnected(node_id, now_ms)
        self._negotiations.pop(node_id, None)
        timed_out = disconnect.ending is Ending.UNANSWERED
        for request in self._in_flight.clear(node_id):
            message = f"{request} to {self._address(node_id)} (node {node_id}) got no answer: {cause}"
            self._reject(request, DisconnectError(message, timed_out=timed_out))
        if disconnect.ending not in (Ending.LOCAL, Ending.IDLE):
            level = logging.INFO if idle else logging.WARNING
            self._note_failure(self._address(node_id), cause, level, stranger=is_stranger(disconnect.first_bytes))
            self._metadata.request_update()

    def _note_failure(self, address: str, cause: str, level: int = logging.WARNING, *, stranger: bool) -> None:
        self._log.log(logging.DEBUG if self._failures.get(address) == cause else level, "%s: %s", address, cause)
        self._failures[address] = cause
        (self._strangers.add if stranger else self._strangers.discard)(address)

    def _cause(self, node_id: int, disconnect: Disconnect) -> str:
        cause = diagnose(
            disconnect.ending,
            _DOING[self._states.state(node_id)],
            first_bytes=disconnect.first_bytes,
            detail=disconnect.cause,
            security_protocol=self._security_protocol,
        )
        if self._fallback is None:
            return cause
        if disconnect.ending is Ending.UNREADABLE:
            return f"{cause}; is broker.version.fallback right?"
        hung_up = disconnect.ending in (Ending.CLOSED, Ending.RESET) and self._in_flight.count(node_id)
        return cause + _NOT_THAT_OLD if hung_up else cause

    def _reject(self, request: InFlightRequest, error: BaseException) -> None:
        if request.promise is not None:
            self._settled.append((request.promise, None, error))

    def _address(self, node_id: int) -> str:
        known = self._states.get(node_id)
        return f"node {node_id}" if known is None else known.node.address

    def connect_error(self, node_id: int) -> ConnectError:
        """Return the error for who wanted to reach a node and could not."""
        address = self._address(node_id)
        return ConnectError(f"{address} (node {node_id}): {self._failures.get(address, 'not connected')}")

    def _preference(self, node_id: int, now_ms: int) -> tuple[int, int] | None:
        state = self._states.state(node_id)
        known = self._states.get(node_id)
        if self._can_send(node_id, now_ms):
            return (0, self._in_flight.count(node_id))
        if state in (ConnectionState.CONNECTING, ConnectionState.CHECKING_API_VERSIONS):
            return (1, 0)
        if self._states.can_connect(node_id, now_ms):
            return (2, 0 if known is None else known.last_attempt_ms)
        return None


_NOT_THAT_OLD = "; brokers do that to a version they do not know: is broker.version.fallback right, and needed at all?"

_SO_FAR: Mapping[ConnectionState, Ending] = {
    ConnectionState.CONNECTING: Ending.CONNECT_TIMED_OUT,
    ConnectionState.CHECKING_API_VERSIONS: Ending.UNANSWERED,
}
